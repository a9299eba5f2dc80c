import { readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import type { Clock } from '../clock.js'

/** Minimum time between checks of a file (ms). */
const LOOK_EVERY = 1_000
/** Limit of the C library (resolv.conf(5)). */
const MOST_DOTS = 15

/**
 * A small system file, read again after a change. Read synchronously and checked at most once per second: asynchronous reads wait in the
 * thread pool's queue, which would delay lookups.
 */
export class WatchedFile<T> {
  readonly #path: string
  readonly #parse: (text: string) => T
  readonly #clock: Clock
  #value: T
  #mark = ''
  #looked = Number.NEGATIVE_INFINITY

  /** A missing file counts as empty. */
  constructor(path: string, parse: (text: string) => T, clock: Clock) {
    this.#path = path
    this.#parse = parse
    this.#clock = clock
    this.#value = parse('')
  }

  /** Returns the same object until the file changes. If the file becomes unreadable, the last content remains. */
  read(): T {
    const now = this.#clock.monotonic()
    if (now - this.#looked < LOOK_EVERY) return this.#value
    this.#looked = now
    try {
      const found = statSync(this.#path, { throwIfNoEntry: false })
      const mark = found === undefined ? '' : `${found.ino} ${found.size} ${found.mtimeMs} ${found.ctimeMs}`
      if (mark === this.#mark) return this.#value
      this.#value = this.#parse(found === undefined ? '' : readFileSync(this.#path, 'utf8'))
      this.#mark = mark
    } catch {
      // No permission, or just being replaced: the next check reads it.
    }
    return this.#value
  }
}

/** Parses a file such as /etc/hosts (hosts(5)) to lower-case names with addresses; a name on several lines has all of them. */
export function parseHosts(text: string): ReadonlyMap<string, readonly string[]> {
  const hosts = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [address = '', ...names] = wordsOf(line, /#.*/)
    if (isIP(address) === 0) continue
    for (const name of names) {
      const key = name.toLowerCase()
      const known = hosts.get(key)
      if (known === undefined) hosts.set(key, [address])
      else if (!known.includes(address)) known.push(address)
    }
  }
  return hosts
}

/** Rules for completing relative names. */
export interface SearchRules {
  readonly domains: readonly string[]
  /** Names with at least this many dots are tried as given first, and completed afterwards. */
  readonly dots: number
}

/** Parses the search domains of a file such as /etc/resolv.conf (resolv.conf(5)): the last `search` or `domain` counts. */
export function parseSearchRules(text: string): SearchRules {
  let domains: string[] = []
  let dots = 1
  for (const line of text.split('\n')) {
    const [word, ...values] = wordsOf(line, /[#;].*/)
    if (word === 'search') domains = values
    else if (word === 'domain') domains = values.slice(0, 1)
    else if (word === 'options') {
      for (const value of values) {
        const [, digits] = /^ndots:(\d{1,3})$/.exec(value) ?? []
        if (digits !== undefined) dots = Math.min(Number(digits), MOST_DOTS)
      }
    }
  }
  const named = domains.map((domain) => domain.toLowerCase().replace(/\.$/, '')).filter((domain) => domain !== '')
  return { domains: named, dots }
}

function wordsOf(line: string, comment: RegExp): string[] {
  return line
    .replace(comment, '')
    .split(/\s+/)
    .filter((word) => word !== '')
}
