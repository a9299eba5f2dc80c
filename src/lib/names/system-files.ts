import { readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import type { Clock } from '../clock.js'

/** Milliseconds between looks at a file. */
const LOOK_EVERY = 1_000
/** As the C library bounds it (resolv.conf(5)). */
const MOST_DOTS = 15

/**
 * A small file of the system, read again when it has changed. It is read synchronously and looked at once a second at most: reads
 * beside the event loop wait in the queue of the thread pool, which names must not share with files.
 */
export class WatchedFile<T> {
  readonly #path: string
  readonly #parse: (text: string) => T
  readonly #clock: Clock
  #value: T
  #mark = ''
  #looked = Number.NEGATIVE_INFINITY

  /** A file that is missing is an empty one. */
  constructor(path: string, parse: (text: string) => T, clock: Clock) {
    this.#path = path
    this.#parse = parse
    this.#clock = clock
    this.#value = parse('')
  }

  /** The same object as long as the file stays as it is. A file that cannot be read stays what it was. */
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
      // Permission, or replaced this moment: the next look reads it.
    }
    return this.#value
  }
}

/** Lower-case names and their addresses of a file such as /etc/hosts (hosts(5)); a name on several lines has all of them. */
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

/** How names that are not complete are completed. */
export interface SearchRules {
  readonly domains: readonly string[]
  /** A name with at least so many dots is asked for as it is first, and completed after that. */
  readonly dots: number
}

/** The search domains of a file such as /etc/resolv.conf (resolv.conf(5)): the last `search` or `domain` counts. */
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
