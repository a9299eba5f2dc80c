/** What the proxy does with a header field, by its name. */
export const KIND = {
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

export type HeaderKind = (typeof KIND)[keyof typeof KIND]

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
  'sluice-error-code': KIND.errorCode
}

/** Names that clients make up must not grow the table without bound. */
const REMEMBERED = 2_048

/** Name as it stands on the wire → kind, remembered so that the usual names cost one lookup and no lower-casing. */
export class HeaderKinds {
  readonly #kinds = new Map<string, HeaderKind>()

  of(name: string): HeaderKind {
    const known = this.#kinds.get(name)
    if (known !== undefined) return known
    const kind = classify(name.toLowerCase())
    if (this.#kinds.size < REMEMBERED) this.#kinds.set(name, kind)
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
