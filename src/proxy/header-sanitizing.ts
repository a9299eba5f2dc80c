import type { TrailerRules } from '../flow/exchange.js'
import { type FieldKind, FIELD_KIND as KIND, kindOf } from '../flow/field-kinds.js'
import type { HeaderFields, HeaderList } from '../flow/headers.js'
import { PeerNames } from '../lib/peer-names.js'

/** Cache of field kinds by the name as received, so that usual names cost one lookup without conversion to lower case. */
export class HeaderKinds {
  readonly #kinds = new PeerNames<FieldKind>()
  readonly #more: Readonly<Record<string, FieldKind>>

  /** `trusted`: lower-case names of further fields accepted from trusted peers only. `never`: fields that are always removed. */
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

/** Connection options that name no header field. */
const PLAIN_OPTIONS = new Set(['close', 'keep-alive', 'upgrade', 'te', 'keep-alive, upgrade', 'upgrade, keep-alive'])

/**
 * Returns the request fields for the upstream: without hop-by-hop fields and those named by `Connection` (RFC 9110 7.6.1), without aliases,
 * and without origin fields unless `trusted`. `websocket`: keeps the Upgrade field.
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

/** Returns the response fields for the client. An upstream cannot set `sluice-error-code`. */
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

/** Removes the fields named by `Connection`, except Host, framing fields, our own fields and an accepted upgrade. */
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
 * Applies the rules of a message's header to its trailers: no header-only field, none named by `Connection`, and none written or removed
 * here. Runs only if there are trailers.
 */
export class HeadRules implements TrailerRules {
  readonly #kinds: HeaderKinds
  readonly #came: HeaderList
  readonly #fields: HeaderFields
  #options: ReadonlySet<string> | undefined

  /** `came`: the header as received; `fields`: the forwarded part. */
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
