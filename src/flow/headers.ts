import { appendTo } from '../lib/lists.js'
/** Names and values by turns, in wire order and wire case; an ordered flat list, never a map. */
export type HeaderList = readonly string[]

/** One name for all spellings that an upstream may take for one: case does not count, and many read `_` as `-`. */
export function spellingOf(name: string): string {
  return name.toLowerCase().replaceAll('_', '-')
}

/** The lower-case view costs as much as a few scans of the list, and most messages are asked for fewer names. */
const SCANS = 4

/**
 * Header fields of one message while policies read and change them.
 *
 * Keeps wire order, wire case and repeated fields (RFC 9110 5.3). Every lookup but `entry` takes any case. The lower-case
 * view is built when it is needed and again after a change.
 */
export class HeaderFields {
  #list: string[]
  /** Nothing else has the list: a field may be added to it. */
  #own: boolean
  #byName: Map<string, string[]> | undefined
  /** Look-ups without the lower-case view. */
  #scans = 0
  /** Names that were written or removed, in any case, with repetitions. */
  #changed: string[] | undefined

  /** `own`: nothing else has the list. */
  constructor(list: HeaderList, own = false) {
    this.#list = list as string[]
    this.#own = own
  }

  /** The fields as they go to the wire. Do not change the returned list: it stays as it is, what changes then is another one. */
  get list(): HeaderList {
    this.#own = false
    return this.#list
  }

  /** The same for those who look at it at once and keep nothing of it: what is added later costs no copy. */
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

  /** All values of `name`, which is in lower case, in order of arrival; undefined when absent. */
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

  /** First value of `name`, or undefined. */
  get(name: string): string | undefined {
    return this.entry(name.toLowerCase())?.[0]
  }

  /** All values of `name` in order of arrival; empty when absent. */
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

  /** Removes the fields of this name in every spelling; true when there was one. */
  deleteSpellings(name: string): boolean {
    this.#note(name)
    const wanted = spellingOf(name)
    return this.#drop((one) => spellingOf(one) === wanted)
  }

  /** Was a field of this name written here, or removed, be it that there was none? Every spelling of the name counts. */
  wasChanged(name: string): boolean {
    const wanted = spellingOf(name)
    return this.#changed?.some((one) => spellingOf(one) === wanted) === true
  }

  #note(name: string): void {
    if (this.#changed === undefined) this.#changed = [name]
    else this.#changed.push(name)
  }

  /** Removes every field of this name; true when there was one. */
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
 * Which header fields a policy may write or remove, and what a value may hold. Fields that frame a message or belong to
 * one hop are the engine's; one written by a policy would let two readers of the message disagree about it.
 */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const MAX_NAME = 256
/** Longest value, in characters; a whole header block holds no more. */
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

/** Names, in lower case, that no policy writes or removes. */
export const NEVER_WRITTEN: readonly string[] = [...FRAMING, ...HOP, ...OURS]
/** Names, in lower case, that no configuration removes. */
export const NEVER_REMOVED: readonly string[] = [...FRAMING, ...OURS, 'host']

const UNWRITABLE = new Set(NEVER_WRITTEN)
const UNREMOVABLE = new Set(NEVER_REMOVED)

/** Why a policy may not write a field of this name, or undefined when it may. */
export function refusalToWrite(name: string): string | undefined {
  return refusalOf(name, UNWRITABLE, 'written')
}

/** Why a policy may not remove a field of this name, or undefined when it may. */
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
 * `value` as the wire takes it, or undefined when no header can hold it: a control character other than tab (RFC 9110
 * 5.5), or more than `MAX_VALUE` characters. Header text is one byte for each character, so a value with characters
 * beyond U+00FF is written as its UTF-8 bytes.
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
