import type { FlowRequest } from './flow.js'
import type { HeaderFields, HeaderList } from './headers.js'
import { RequestTarget } from './target.js'

/** What a reserved path of logins is for. */
export type OwnPath = 'login' | 'logout' | 'callback' | 'backchannel-logout'

/** Where a provider sends the browser back to. */
export const CALLBACK_PATH = '/.sluice/callback'
/** Where a login begins. */
export const LOGIN_PATH = '/.sluice/login'
/** Where a session ends, and where a provider that has ended its own sends the browser back to. */
export const LOGOUT_PATH = '/.sluice/logout'

/** Where a provider says that it has ended a session (OpenID Connect Back-Channel Logout 1.0). */
const BACK_CHANNEL_PATH = '/.sluice/backchannel-logout'

const OWN_PATHS: ReadonlyMap<string, OwnPath> = new Map([
  [LOGIN_PATH, 'login'],
  [LOGOUT_PATH, 'logout'],
  [CALLBACK_PATH, 'callback'],
  ['/ngrok/login', 'login'],
  ['/ngrok/logout', 'logout']
])

/** What a path of logins asks for; undefined for every other request. */
export function ownPath({ method, target }: FlowRequest): OwnPath | undefined {
  const { path } = target
  // Asked of every request: most paths differ in these few characters.
  if (!path.startsWith('/.sluice/') && !path.startsWith('/ngrok/')) return undefined
  if (method === 'GET' || method === 'HEAD') return OWN_PATHS.get(path)
  if (method !== 'POST') return undefined
  return path === BACK_CHANNEL_PATH ? 'backchannel-logout' : OWN_PATHS.get(path) === 'logout' ? 'logout' : undefined
}

/** Did the client come over TLS, here or at a proxy that we trust? */
export function isSecure({ scheme }: FlowRequest): boolean {
  return scheme === 'https'
}

/**
 * Does a page of this site ask, or the person who has typed the address? Browsers say so over TLS and on this machine (Fetch Metadata),
 * elsewhere by the page that they come from.
 */
export function isSameSite(request: FlowRequest): boolean {
  const { headers } = request
  const site = headers.get('sec-fetch-site')
  if (site !== undefined) return site !== 'cross-site'
  return headers.get('referer')?.startsWith(`${originOf(request)}/`) === true
}

/** Scheme, host and port as the browser shows them. */
export function originOf({ scheme, authority }: FlowRequest): string {
  return `${scheme}://${authority}`
}

/** Path and query as they came, whatever a policy has rewritten since. */
export function uriOf({ head, target, pathForm }: FlowRequest): string {
  const came = RequestTarget.fromRequestLine(head.method, head.target, head.authority, head.scheme)?.in(pathForm)
  return (came instanceof RequestTarget ? came : target).uri
}

const READS_PAGES =
  /(?:^|[\s,])(?:text\/html|application\/xhtml\+xml|text\/\*|\*\/\*)(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i

/**
 * Is this a page that a person looks at, who can be sent elsewhere to log in? GET or HEAD, no WebSocket, a top-level or framed
 * navigation where the browser says so (Fetch Metadata), no script's request, and an Accept that takes HTML, as
 * no Accept at all does (RFC 9110 12.5.1).
 */
export function isNavigation({ method, headers }: FlowRequest): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false
  const mode = headers.get('sec-fetch-mode')
  if (mode !== undefined && mode !== 'navigate') return false
  if (headers.has('upgrade') || headers.has('x-requested-with')) return false
  const accept = headers.values('accept')
  return accept.length === 0 || accept.some((value) => READS_PAGES.test(value))
}

/** Requests that pass without a login: none, every `OPTIONS`, or those that CORS sends (Fetch, "CORS-preflight fetch"). */
export type Preflight = 'none' | 'options' | 'cors'

/** Requests without which no script of another origin could ask at all: they never carry cookies. */
export function isExempt({ method, headers }: FlowRequest, preflight: Preflight): boolean {
  if (preflight === 'none' || method !== 'OPTIONS') return false
  return preflight === 'options' || (headers.has('origin') && headers.has('access-control-request-method'))
}

/** Cookies of logins that a request carries, by name. */
export type Jar = ReadonlyMap<string, string>

/**
 * Names of our cookies: `<prefix>session.<tag>`, its further pieces `.1`, `.2`, …, `<prefix>activity.<tag>` and
 * `<prefix>nonce.<tag>.<id of the attempt>`, where the tag of a realm begins with `sl`.
 */
const OURS = /^(?:__Host-|__Secure-)?[A-Za-z0-9.]*(?:session|activity|nonce)\.sl[0-9a-f]{12}(?:\.[0-9a-z]{1,16})?$/
const MARK = '.sl'
const EMPTY: Jar = new Map()

/** The login cookies of a request as it came, of whatever realm; of several of one name the first one. */
export function loginCookies(list: HeaderList): Jar {
  let jar: Map<string, string> | undefined
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (name.length !== 6 || name.toLowerCase() !== 'cookie') continue
    const line = list[i + 1] as string
    if (!line.includes(MARK)) continue
    for (const pair of line.split(';')) {
      const cookie = ours(pair)
      if (cookie === undefined) continue
      jar ??= new Map()
      if (!jar.has(cookie[0])) jar.set(cookie[0], cookie[1])
    }
  }
  return jar ?? EMPTY
}

/** Takes the login cookies of every realm out of a request, so that no upstream sees them. */
export function dropLoginCookies(headers: HeaderFields): void {
  if (!hasCookie(headers.current)) return
  const lines = headers.values('cookie')
  if (!lines.some((line) => line.includes(MARK))) return
  let kept = ''
  for (const line of lines) {
    for (const pair of line.split(';')) {
      const trimmed = pair.trim()
      if (trimmed !== '' && ours(trimmed) === undefined) kept += kept === '' ? trimmed : `; ${trimmed}`
    }
  }
  if (kept === '') headers.delete('cookie')
  else headers.set('Cookie', kept)
}

/** Has a request cookies? Without the lower-case view: most requests have none, and each pays for the question. */
export function hasCookie(list: HeaderList): boolean {
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (name.length === 6 && name.toLowerCase() === 'cookie') return true
  }
  return false
}

function ours(pair: string): readonly [string, string] | undefined {
  const equals = pair.indexOf('=')
  if (equals === -1) return undefined
  const name = pair.slice(0, equals).trim()
  if (!name.includes(MARK)) return undefined
  return OURS.test(name) ? [name, pair.slice(equals + 1).trim()] : undefined
}
