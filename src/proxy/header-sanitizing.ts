import type { TrailerRules } from '../flow/exchange.js'
import { type FieldKind, FIELD_KIND as KIND, kindOf } from '../flow/field-kinds.js'
import type { HeaderFields, HeaderList } from '../flow/headers.js'
import { PeerNames } from '../lib/peer-names.js'

/** Name as it stands on the wire → kind, remembered so that the usual names cost one lookup and no lower-casing. */
export class HeaderKinds {
  readonly #kinds = new PeerNames<FieldKind>()
  readonly #more: Readonly<Record<string, FieldKind>>

  /** `trusted`: lower-case names of further fields that are believed only from trusted peers. `never`: of those that never pass. */
  constructor({
    trusted = [],
    never = []
  }: { readonly trusted?: readonly string[]; readonly never?: readonly string[] } = {}) {
    this.#more = Object.fromEntries([
      ...trusted.map((name) => [name, KIND.forwarded] as const),
      ...never.map((name) => [name, KIND.hop] as const)
    ])
  }

  of(name: string): FieldKind {
    const known = this.#kinds.get(name)
    if (known !== undefined) return known
    const lower = name.toLowerCase()
    const kind = Object.hasOwn(this.#more, lower) ? (this.#more[lower] as FieldKind) : kindOf(lower)
    this.#kinds.remember(name, kind)
    return kind
  }
}

const NO_OPTIONS: ReadonlySet<string> = new Set()

/** Connection options that name no header field of their own. */
const PLAIN_OPTIONS = new Set(['close', 'keep-alive', 'upgrade', 'te', 'keep-alive, upgrade', 'upgrade, keep-alive'])

/**
 * The fields of a request that may go on to the upstream: without those of one hop and those that `Connection` names
 * (RFC 9110 7.6.1), without aliases, and without claims about where it came from, unless `trusted`.
 * `websocket`: the exchange asks for that upgrade, so its field stays.
 */
export function cleanRequest(kinds: HeaderKinds, list: HeaderList, trusted: boolean, websocket: boolean): string[] {
  const clean: string[] = []
  let options: Set<string> | undefined
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    const value = list[i + 1] as string
    switch (kinds.of(name)) {
      case KIND.pass:
      case KIND.head:
      case KIND.fixed:
        clean.push(name, value)
        break
      case KIND.connection:
        options = addOptions(options, value)
        break
      case KIND.forwarded:
        if (trusted) clean.push(name, value)
        break
      case KIND.te:
        if (asksForTrailers(value)) clean.push(name, 'trailers')
        break
      case KIND.upgrade:
        if (websocket) clean.push(name, 'websocket')
        break
    }
  }
  return options === undefined ? clean : withoutNamed(kinds, clean, options)
}

/** The fields of an answer that may go on to the client. An upstream cannot write `sluice-error-code`. */
export function cleanResponse(kinds: HeaderKinds, list: HeaderList, switched: boolean): string[] {
  const clean: string[] = []
  let options: Set<string> | undefined
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    const value = list[i + 1] as string
    switch (kinds.of(name)) {
      case KIND.pass:
      case KIND.head:
      case KIND.fixed:
      case KIND.forwarded:
        clean.push(name, value)
        break
      case KIND.connection:
        options = addOptions(options, value)
        break
      case KIND.upgrade:
        if (switched) clean.push(name, value)
        break
    }
  }
  return options === undefined ? clean : withoutNamed(kinds, clean, options)
}

function addOptions(options: Set<string> | undefined, value: string): Set<string> | undefined {
  const text = value.toLowerCase()
  if (PLAIN_OPTIONS.has(text)) return options
  const all = options ?? new Set<string>()
  for (const option of text.split(',')) all.add(option.trim())
  return all
}

/** A `Connection` list takes ordinary fields only: not Host, not the framing, not what we write, not an accepted upgrade. */
function withoutNamed(kinds: HeaderKinds, list: string[], options: ReadonlySet<string>): string[] {
  const kept: string[] = []
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (options.has(name.toLowerCase()) && isOrdinary(kinds.of(name))) continue
    kept.push(name, list[i + 1] as string)
  }
  return kept
}

function isOrdinary(kind: FieldKind): boolean {
  return kind === KIND.pass || kind === KIND.head
}

/**
 * Holds the trailers of one message to what its head is held to: no field that a head carries alone, that its `Connection`
 * lists, or that was written or removed in its head here. Does its work when there are trailers.
 */
export class HeadRules implements TrailerRules {
  readonly #kinds: HeaderKinds
  readonly #came: HeaderList
  readonly #fields: HeaderFields
  #options: ReadonlySet<string> | undefined

  /** `came`: the head as it came; `fields`: what goes on of it. */
  constructor(kinds: HeaderKinds, came: HeaderList, fields: HeaderFields) {
    this.#kinds = kinds
    this.#came = came
    this.#fields = fields
  }

  passes(name: string): boolean {
    this.#options ??= connectionOptions(this.#kinds, this.#came)
    return (
      this.#kinds.of(name) === KIND.pass && !this.#options.has(name.toLowerCase()) && !this.#fields.wasChanged(name)
    )
  }
}

function connectionOptions(kinds: HeaderKinds, list: HeaderList): ReadonlySet<string> {
  let options: Set<string> | undefined
  for (let i = 0; i < list.length; i += 2) {
    if (kinds.of(list[i] as string) === KIND.connection) options = addOptions(options, list[i + 1] as string)
  }
  return options ?? NO_OPTIONS
}

function asksForTrailers(value: string): boolean {
  return value.split(',').some((coding) => coding.trim().toLowerCase() === 'trailers')
}
