import type { FlowRequest } from '../flow/flow.js'
import { loginCookies, type OwnPath } from '../flow/reserved-paths.js'
import type { LoginCall, LoginGate } from './login-gate.js'

const LONGEST = 2_048
/** Any origin does: what leaves it is refused. */
const HERE = 'http://here.invalid'
/** Slash or backslash, also percent-encoded, however often. */
const SECOND_SLASH = /^\/(?:%(?:25)*(?:2f|5c)|[/\\])/i
/** Browsers drop tabs and line ends inside a URL and read a backslash as a slash. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
const REFUSED = /[\u0000-\u0020\u007f-\uffff\\]/
/** A server that decodes such a path reads what browsers drop. */
const ENCODED_CONTROL = /%(?:25)*[01][0-9a-f]/i
const OWN = /^\/(?:\.sluice\/|ngrok\/log)/

/**
 * Where a browser may be sent after a login or a logout: a path of this very origin, with a query, in the spelling that
 * browsers read it. Undefined for whatever else: another origin, another scheme, `//`, `/\` and their encoded
 * forms, paths of the login itself.
 */
export function returnPath(text: string): string | undefined {
  if (text.length > LONGEST || !text.startsWith('/') || REFUSED.test(text)) return undefined
  if (!URL.canParse(text, HERE)) return undefined
  const url = new URL(text, HERE)
  const path = `${url.pathname}${url.search}${url.hash}`
  if (url.origin !== HERE || url.username !== '' || SECOND_SLASH.test(text) || SECOND_SLASH.test(path)) return undefined
  return OWN.test(path) || ENCODED_CONTROL.test(url.pathname) ? undefined : path
}

/** What a state says without being trusted: realm and gate, which cookie, and how often the login was begun anew. */
export interface StateFacts {
  readonly tag: string
  /** Of the gate; see `markOf`. */
  readonly mark: string
  readonly id: string
  readonly round: number
}

/** The last part is sealed: the path that the browser wanted. */
const STATE =
  /^(sl[0-9a-f]{12})\.([0-9a-f]{8})\.([0-9])\.([0-9a-f]{12})\.[A-Za-z0-9_-]{32}(?:\.[A-Za-z0-9_-]{1,1536})?$/

/** Undefined when no realm of ours can have made this state. */
export function readState(state: string): StateFacts | undefined {
  const [, tag, mark, round, id] = STATE.exec(state) ?? []
  if (tag === undefined || mark === undefined || id === undefined) return undefined
  return { tag, mark, round: Number(round), id }
}

/** Where an entry asks for a login. */
export interface LoginPlace {
  readonly gate: LoginGate
  /** Prefix or path of its route. */
  readonly path: string
}

/** Parameter of a link to a login: tag and mark of its gate. */
export const LOGIN_PARAMETER = 'login'

/**
 * Chooses among the places where one entry asks for a login, in order of preference, the one that a request for a path of
 * logins is for. A callback is for the gate that began the login; others may name a gate (`login`) or an id (`auth_id`), and are else for
 * the place that `nearest` finds for the path where they want to go. Undefined: they are for a login that is not here but may
 * be where this entry leads to.
 */
export function loginFor<P extends LoginPlace>(
  own: OwnPath,
  request: FlowRequest,
  places: readonly P[],
  nearest: (path: string, among: readonly P[]) => P | undefined
): { readonly place: P; readonly call: LoginCall } | undefined {
  const { parameters, path } = request.target
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

/** The places that a request names; undefined when it names none. */
function named<P extends LoginPlace>(
  parameters: FlowRequest['target']['parameters'],
  places: readonly P[]
): readonly P[] | undefined {
  const [name] = parameters.get(LOGIN_PARAMETER) ?? []
  if (name !== undefined) {
    const [tag, mark] = name.split('.')
    const same = places.filter(({ gate }) => gate.tag === tag)
    const exact = same.filter(({ gate }) => gate.mark === mark)
    // A link is older than a change of the configuration: its realm is right all the same.
    return exact.length > 0 ? exact : same
  }
  const [authId] = parameters.get('auth_id') ?? []
  return authId === undefined ? undefined : places.filter(({ gate }) => gate.authId === authId)
}

/** The gate that the state of a callback says; it is not trusted, the gate looks at its cookie. */
function beginner<P extends LoginPlace>({ tag, mark }: StateFacts, places: readonly P[]): P | undefined {
  const same = places.filter(({ gate }) => gate.tag === tag)
  return same.find(({ gate }) => gate.mark === mark) ?? same[0]
}

/** Has this browser a login under way that the state names? */
function hasAttempt({ head }: FlowRequest, { tag, id }: StateFacts): boolean {
  const end = `nonce.${tag}.${id}`
  for (const name of loginCookies(head.headers).keys()) if (name.endsWith(end)) return true
  return false
}

function pathOf(uri: string): string {
  return /^[^?#]*/.exec(uri)?.[0] ?? uri
}
