/** Treatment of a header field by name. Trailers may have fields of the kind `pass` only (RFC 9110 6.5.1). */
export const FIELD_KIND = {
  /** Forwarded unchanged. */
  pass: 0,
  /** Hop-by-hop, or written by the engine: never forwarded. */
  hop: 1,
  /** `Connection`: not forwarded, and names other fields that are not. */
  connection: 2,
  /** Describes the original request: written by the proxy, except from a trusted peer. */
  forwarded: 3,
  /** Forwarded only as `trailers`. */
  te: 4,
  /** Forwarded only as `websocket` on an exchange that requests it. */
  upgrade: 5,
  /** Forwarded, and no `Connection` list removes it. */
  fixed: 6,
  /** Written only by Sluice on responses. */
  errorCode: 7,
  /** Forwarded in heads only: a trailer of this name could frame, route, authenticate or explain the message. */
  head: 8
} as const

/** A value of `FIELD_KIND`. */
export type FieldKind = (typeof FIELD_KIND)[keyof typeof FIELD_KIND]

/** Fields of RFC 9110 7.6.1 and those that the engine frames anew; proxy credentials are for this proxy, not for the upstream. */
const BY_NAME: Readonly<Record<string, FieldKind>> = {
  connection: FIELD_KIND.connection,
  'keep-alive': FIELD_KIND.hop,
  'proxy-connection': FIELD_KIND.hop,
  'proxy-authenticate': FIELD_KIND.hop,
  'proxy-authentication-info': FIELD_KIND.hop,
  'proxy-authorization': FIELD_KIND.hop,
  proxy: FIELD_KIND.hop,
  'http2-settings': FIELD_KIND.hop,
  'transfer-encoding': FIELD_KIND.hop,
  expect: FIELD_KIND.hop,
  te: FIELD_KIND.te,
  upgrade: FIELD_KIND.upgrade,
  host: FIELD_KIND.fixed,
  'content-length': FIELD_KIND.fixed,
  forwarded: FIELD_KIND.forwarded,
  'x-real-ip': FIELD_KIND.forwarded,
  'x-request-id': FIELD_KIND.forwarded,
  'true-client-ip': FIELD_KIND.forwarded,
  'x-client-ip': FIELD_KIND.forwarded,
  'x-cluster-client-ip': FIELD_KIND.forwarded,
  'cf-connecting-ip': FIELD_KIND.forwarded,
  'fastly-client-ip': FIELD_KIND.forwarded,
  'x-original-url': FIELD_KIND.forwarded,
  'x-rewrite-url': FIELD_KIND.forwarded,
  authorization: FIELD_KIND.head,
  'cache-control': FIELD_KIND.head,
  'content-encoding': FIELD_KIND.head,
  'content-range': FIELD_KIND.head,
  'content-type': FIELD_KIND.head,
  cookie: FIELD_KIND.head,
  'max-forwards': FIELD_KIND.head,
  pragma: FIELD_KIND.head,
  range: FIELD_KIND.head,
  'set-cookie': FIELD_KIND.head,
  trailer: FIELD_KIND.head,
  via: FIELD_KIND.head,
  'www-authenticate': FIELD_KIND.head,
  'sluice-error-code': FIELD_KIND.errorCode
}

/**
 * Returns the kind of a field by its lower-case name. An underscore counts as a hyphen: many upstreams read `X_Forwarded_For` as
 * `X-Forwarded-For`. A name that resembles a field that the proxy writes, removes or frames by only after this replacement is an alias, and
 * is not forwarded.
 */
export function kindOf(name: string): FieldKind {
  if (!name.includes('_')) return named(name)
  const kind = named(name.replaceAll('_', '-'))
  return kind === FIELD_KIND.pass || kind === FIELD_KIND.head ? kind : FIELD_KIND.hop
}

function named(name: string): FieldKind {
  if (name.startsWith('x-forwarded-')) return FIELD_KIND.forwarded
  if (Object.hasOwn(BY_NAME, name)) return BY_NAME[name] as FieldKind
  return name.startsWith('sluice-') ? FIELD_KIND.head : FIELD_KIND.pass
}
