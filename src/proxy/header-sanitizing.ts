import type { HeaderList } from '../flow/headers.js'
import { PeerNames } from '../lib/peer-names.js'

/** What the proxy does with a header field, by its name. */
const KIND = {
  /** Passes as it came. */
  pass: 0,
  /** Of one hop, or written by the engine: never passes. */
  hop: 1,
  /** `Connection`: never passes, and names others that do not. */
  connection: 2,
  /** Says where a request came from: ours, except from a trusted peer. */
  forwarded: 3,
  /** Passes only as `trailers`. */
  te: 4,
  /** Passes only as `websocket` on an exchange that asks for it. */
  upgrade: 5,
  /** Passes, and no `Connection` list removes it. */
  fixed: 6,
  /** Written only by Sluice on answers. */
  errorCode: 7
} as const

type HeaderKind = (typeof KIND)[keyof typeof KIND]

/** RFC 9110 7.6.1 and what the engine frames anew; proxy credentials are for us, not for the upstream. */
const BY_NAME: Readonly<Record<string, HeaderKind>> = {
  connection: KIND.connection,
  'keep-alive': KIND.hop,
  'proxy-connection': KIND.hop,
  'proxy-authenticate': KIND.hop,
  'proxy-authentication-info': KIND.hop,
  'proxy-authorization': KIND.hop,
  proxy: KIND.hop,
  'http2-settings': KIND.hop,
  'transfer-encoding': KIND.hop,
  expect: KIND.hop,
  te: KIND.te,
  upgrade: KIND.upgrade,
  host: KIND.fixed,
  'content-length': KIND.fixed,
  forwarded: KIND.forwarded,
  'x-real-ip': KIND.forwarded,
  'x-request-id': KIND.forwarded,
  'sluice-error-code': KIND.errorCode
}

/** Name as it stands on the wire → kind, remembered so that the usual names cost one lookup and no lower-casing. */
export class HeaderKinds {
  readonly #kinds = new PeerNames<HeaderKind>()
  readonly #more: Readonly<Record<string, HeaderKind>>

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

  of(name: string): HeaderKind {
    const known = this.#kinds.get(name)
    if (known !== undefined) return known
    const lower = name.toLowerCase()
    const kind = Object.hasOwn(this.#more, lower) ? (this.#more[lower] as HeaderKind) : classify(lower)
    this.#kinds.remember(name, kind)
    return kind
  }
}

/**
 * An underscore counts as a hyphen: many upstreams read `X_Forwarded_For` as `X-Forwarded-For`. A name that only then
 * is one we write, remove or frame by is an alias, and does not pass.
 */
function classify(name: string): HeaderKind {
  const kind = named(name)
  if (!name.includes('_')) return kind
  return named(name.replaceAll('_', '-')) === KIND.pass ? kind : KIND.hop
}

function named(name: string): HeaderKind {
  if (name.startsWith('x-forwarded-')) return KIND.forwarded
  return Object.hasOwn(BY_NAME, name) ? (BY_NAME[name] as HeaderKind) : KIND.pass
}

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
    if (options.has(name.toLowerCase()) && kinds.of(name) === KIND.pass) continue
    kept.push(name, list[i + 1] as string)
  }
  return kept
}

function asksForTrailers(value: string): boolean {
  return value.split(',').some((coding) => coding.trim().toLowerCase() === 'trailers')
}
