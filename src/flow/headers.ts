import { appendTo } from '../lib/lists.js'
/** Flat list: name, value, name, value…, in wire order and wire case; never a map. */
export type HeaderList = readonly string[]

/** Normalizes names that an upstream may confuse: case-insensitive, and `_` equals `-`, as many upstreams read it. */
export function spellingOf(name: string): string {
  return name.toLowerCase().replaceAll('_', '-')
}

/** Number of look-ups by scan before the lower-case view is built. The view costs as much as a few scans, and most messages need fewer look-ups. */
const SCANS = 4

/**
 * Header fields of one message, for reading and changing. Preserves wire order, wire case and repeated fields (RFC 9110 5.3). Look-ups
 * other than `entry` are case-insensitive. The lower-case view is built on demand and again after a change.
 */
export class HeaderFields {
  #list: string[]
  /** The list is not shared: fields can be appended. */
  #own: boolean
  #byName: Map<string, string[]> | undefined
  /** Look-ups without the lower-case view so far. */
  #scans = 0
  /** Names that were written or removed, in any case, with repetitions. */
  #changed: string[] | undefined

  /** `own`: the list is not shared. */
  constructor(list: HeaderList, own = false) {
    this.#list = list as string[]
    this.#own = own
  }

  /** Fields for the wire. Do not change the returned list; later changes create a new one. */
  get list(): HeaderList {
    this.#own = false
    return this.#list
  }

  /** Fields for immediate reading without keeping the list, so that later appends need no copy. */
  get current(): HeaderList {
    return this.#list
  }

  /** Lower-case name → values in order of arrival. Do not change the returned map. */
  get byName(): ReadonlyMap<string, readonly string[]> {
    if (this.#byName === undefined) {
      const view = new Map<string, string[]>()
      for (let i = 0; i < this.#list.length; i += 2) {
        appendTo(view, (this.#list[i] as string).toLowerCase(), this.#list[i + 1] as string)
      }
      this.#byName = view
    }
    return this.#byName
  }

  /** Returns all values of `name` (lower case) in order of arrival; undefined if absent. */
  entry(name: string): readonly string[] | undefined {
    if (this.#byName !== undefined || ++this.#scans > SCANS) return this.byName.get(name)
    const list = this.#list
    let values: string[] | undefined
    for (let i = 0; i < list.length; i += 2) {
      const one = list[i] as string
      if (one.length !== name.length || (one !== name && one.toLowerCase() !== name)) continue
      if (values === undefined) values = [list[i + 1] as string]
      else values.push(list[i + 1] as string)
    }
    return values
  }

  /** Returns the first value of `name`, or undefined. */
  get(name: string): string | undefined {
    return this.entry(name.toLowerCase())?.[0]
  }

  /** Returns all values of `name` in order of arrival; empty if absent. */
  values(name: string): readonly string[] {
    return this.entry(name.toLowerCase()) ?? []
  }

  has(name: string): boolean {
    return this.entry(name.toLowerCase()) !== undefined
  }

  append(name: string, value: string): void {
    if (!this.#own) {
      this.#list = this.#list.slice()
      this.#own = true
    }
    this.#list.push(name, value)
    this.#byName = undefined
    this.#note(name)
  }

  /** Replaces every field of this name by one, at the end of the list. */
  set(name: string, value: string): void {
    this.delete(name)
    this.append(name, value)
  }

  /** Removes the fields of this name in every spelling; returns whether there was one. */
  deleteSpellings(name: string): boolean {
    this.#note(name)
    const wanted = spellingOf(name)
    return this.#drop((one) => spellingOf(one) === wanted)
  }

  /** Returns whether a field of this name, in any spelling, was written or removed here, even if there was none. */
  wasChanged(name: string): boolean {
    const wanted = spellingOf(name)
    return this.#changed?.some((one) => spellingOf(one) === wanted) === true
  }

  #note(name: string): void {
    if (this.#changed === undefined) this.#changed = [name]
    else this.#changed.push(name)
  }

  /** Removes every field of this name; returns whether there was one. */
  delete(name: string): boolean {
    this.#note(name)
    const wanted = name.toLowerCase()
    return this.entry(wanted) !== undefined && this.#drop((one) => one.toLowerCase() === wanted)
  }

  #drop(isMeant: (name: string) => boolean): boolean {
    const kept: string[] = []
    for (let i = 0; i < this.#list.length; i += 2) {
      if (!isMeant(this.#list[i] as string)) kept.push(this.#list[i] as string, this.#list[i + 1] as string)
    }
    if (kept.length === this.#list.length) return false
    this.#list = kept
    this.#own = true
    this.#byName = undefined
    return true
  }
}

/**
 * Header names that a policy may write. Framing and hop-by-hop fields belong to the engine: a policy that writes one could make two readers
 * disagree about the message.
 */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** Maximum length of a name in characters. */
const MAX_NAME = 256
/** Maximum length of a value in characters; a whole header block is not longer. */
const MAX_VALUE = 65_536

const FRAMING = ['content-length', 'transfer-encoding', 'trailer']
const HOP = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy',
  'te',
  'upgrade',
  'expect',
  'http2-settings'
]
const OURS = ['sluice-error-code']

/** Names, in lower case, that no policy may write or remove. */
export const NEVER_WRITTEN: readonly string[] = [...FRAMING, ...HOP, ...OURS]
/** Names, in lower case, that no configuration may remove. */
export const NEVER_REMOVED: readonly string[] = [...FRAMING, ...OURS, 'host']

const UNWRITABLE = new Set(NEVER_WRITTEN)
const UNREMOVABLE = new Set(NEVER_REMOVED)

/** Returns why a policy may not write a field of this name, or undefined if it may. */
export function refusalToWrite(name: string): string | undefined {
  return refusalOf(name, UNWRITABLE, 'written')
}

/** Returns why a policy may not remove a field of this name, or undefined if it may. */
export function refusalToRemove(name: string): string | undefined {
  return refusalOf(name, UNREMOVABLE, 'removed')
}

function refusalOf(name: string, reserved: ReadonlySet<string>, done: string): string | undefined {
  if (!TOKEN.test(name)) return `"${name}" is not a header name: letters, digits and !#$%&'*+-.^_\`|~ are allowed`
  if (name.length > MAX_NAME) return `a header name has at most ${MAX_NAME} characters`
  // Many upstreams read `_` as `-`, so an alias would pass for the real field.
  if (reserved.has(name.toLowerCase().replaceAll('_', '-'))) {
    return `"${name}" cannot be ${done} by a policy: the proxy itself writes it for each hop`
  }
  return undefined
}

/**
 * Encodes a value for the wire; returns undefined if invalid: a control character other than tab (RFC 9110 5.5), or more than `MAX_VALUE`
 * characters. Header text has one byte per character, so a value with characters beyond U+00FF is written as its UTF-8 bytes.
 */
export function wireValue(value: string): string | undefined {
  if (value.length > MAX_VALUE) return undefined
  let wide = false
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i)
    if ((code < 0x20 && code !== 0x09) || code === 0x7f) return undefined
    if (code > 0xff) wide = true
  }
  return wide ? Buffer.from(value, 'utf8').toString('latin1') : value
}
