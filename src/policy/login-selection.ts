import type { FlowRequest } from '../flow/flow.js'
import { loginCookies, type OwnPath, serviceProviderIn } from '../flow/reserved-paths.js'
import type { LoginCall, LoginGate } from './login-gate.js'

const LONGEST = 2_048
/** Any origin works: URLs that leave it are rejected. */
const HERE = 'http://here.invalid'
/** A slash or backslash, also percent-encoded any number of times. */
const SECOND_SLASH = /^\/(?:%(?:25)*(?:2f|5c)|[/\\])/i
/** Browsers drop tabs and line ends inside a URL and read a backslash as a slash. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
const REFUSED = /[\u0000-\u0020\u007f-\uffff\\]/
/** A server that decodes such a path gets the characters that browsers drop. */
const ENCODED_CONTROL = /%(?:25)*[01][0-9a-f]/i
/** Paths of the login itself. */
const OWN = /^\/(?:\.sluice\/|ngrok\/log)/

/**
 * Returns a safe redirect target after a login or logout: a path of this origin, with a query, in the form that browsers read. Returns
 * undefined for others: another origin or scheme, `//`, `/\` and their encoded forms, and paths of the login itself.
 */
export function returnPath(text: string): string | undefined {
  if (text.length > LONGEST || !text.startsWith('/') || REFUSED.test(text)) return undefined
  if (!URL.canParse(text, HERE)) return undefined
  const url = new URL(text, HERE)
  const path = `${url.pathname}${url.search}${url.hash}`
  if (url.origin !== HERE || url.username !== '' || SECOND_SLASH.test(text) || SECOND_SLASH.test(path)) return undefined
  return OWN.test(path) || ENCODED_CONTROL.test(url.pathname) ? undefined : path
}

/** Untrusted content of a state: realm, gate, cookie id, and how often the login was restarted. */
export interface StateFacts {
  readonly tag: string
  /** Mark of the gate; see `markOf`. */
  readonly mark: string
  readonly id: string
  readonly round: number
}

/** The last part is sealed: the path that the browser requested. */
const STATE =
  /^(sl[0-9a-f]{12})\.([0-9a-f]{8})\.([0-9])\.([0-9a-f]{12})\.[A-Za-z0-9_-]{32}(?:\.[A-Za-z0-9_-]{1,1536})?$/

/** Returns undefined if none of our realms can have created this state. */
export function readState(state: string): StateFacts | undefined {
  const [, tag, mark, round, id] = STATE.exec(state) ?? []
  if (tag === undefined || mark === undefined || id === undefined) return undefined
  return { tag, mark, round: Number(round), id }
}

/** Place in an entry that requires a login. */
export interface LoginPlace {
  readonly gate: LoginGate
  /** Prefix or path of its route. */
  readonly path: string
}

/** Query parameter of a login link: tag and mark of its gate. */
export const LOGIN_PARAMETER = 'login'

/**
 * Selects the place that a request for a login path is for, among the places of one entry in order of preference. A callback is for the
 * gate that started the login; other requests may name a gate (`login`) or an id (`auth_id`), or are for the place that `nearest` finds for
 * their target path. Returns undefined for a login that is not here but may be where this entry forwards to.
 */
export function loginFor<P extends LoginPlace>(
  own: OwnPath,
  request: FlowRequest,
  places: readonly P[],
  nearest: (path: string, among: readonly P[]) => P | undefined
): { readonly place: P; readonly call: LoginCall } | undefined {
  const { parameters, path } = request.target
  if (own === 'saml-metadata' || own === 'saml-response') {
    const asked = serviceProviderIn(path)
    const place = places.find(({ gate }) => gate.serviceProvider === asked)
    return place && { place, call: { own, home: returnPath(place.path) ?? '/', others: [] } }
  }
  const facts = own === 'callback' ? readState(parameters.get('state')?.[0] ?? '') : undefined
  const begun = facts === undefined ? undefined : beginner(facts, places)
  if (facts !== undefined && begun === undefined && hasAttempt(request, facts)) return undefined
  const among = (own === 'callback' ? undefined : named(parameters, places)) ?? places
  const wish = own === 'login' ? returnPath(parameters.get('redirect_path')?.[0] ?? '') : undefined
  const place = begun ?? nearest(wish === undefined ? path : pathOf(wish), among) ?? nearest(path, among) ?? among[0]
  if (place === undefined) return undefined
  const others = among.filter((one) => one !== place).map(({ gate }) => gate)
  return { place, call: { own, home: returnPath(place.path) ?? '/', others } }
}

/** Returns the places that a request names; undefined if it names none. */
function named<P extends LoginPlace>(
  parameters: FlowRequest['target']['parameters'],
  places: readonly P[]
): readonly P[] | undefined {
  const [name] = parameters.get(LOGIN_PARAMETER) ?? []
  if (name !== undefined) {
    const [tag, mark] = name.split('.')
    const same = places.filter(({ gate }) => gate.tag === tag)
    const exact = same.filter(({ gate }) => gate.mark === mark)
    // A link can be older than a configuration change: its realm is still valid.
    return exact.length > 0 ? exact : same
  }
  const [authId] = parameters.get('auth_id') ?? []
  return authId === undefined ? undefined : places.filter(({ gate }) => gate.authId === authId)
}

/** Returns the gate named by a callback's state. The state is not trusted; the gate checks its cookie. */
function beginner<P extends LoginPlace>({ tag, mark }: StateFacts, places: readonly P[]): P | undefined {
  const same = places.filter(({ gate }) => gate.tag === tag)
  return same.find(({ gate }) => gate.mark === mark) ?? same[0]
}

/** Returns whether this browser has a pending login that the state names. */
function hasAttempt({ head }: FlowRequest, { tag, id }: StateFacts): boolean {
  const end = `nonce.${tag}.${id}`
  for (const name of loginCookies(head.headers).keys()) if (name.endsWith(end)) return true
  return false
}

function pathOf(uri: string): string {
  return /^[^?#]*/.exec(uri)?.[0] ?? uri
}
