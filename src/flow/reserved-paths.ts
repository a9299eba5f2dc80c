import type { FlowRequest } from './flow.js'
import type { HeaderFields, HeaderList } from './headers.js'
import { RequestTarget } from './target.js'

/** Purpose of a reserved login path. */
export type OwnPath = 'login' | 'logout' | 'callback' | 'backchannel-logout' | 'saml-metadata' | 'saml-response'

/** Redirect URI for identity providers. */
export const CALLBACK_PATH = '/.sluice/callback'
/** Path that starts a login. */
export const LOGIN_PATH = '/.sluice/login'
/** Path that ends a session, also the provider's redirect target after a logout. */
export const LOGOUT_PATH = '/.sluice/logout'
/** Path for a provider's logout notification (OpenID Connect Back-Channel Logout 1.0). */
const BACK_CHANNEL_PATH = '/.sluice/backchannel-logout'
/** Start of the paths of a service provider of SAML; its id follows. */
export const SAML_PATH = '/.sluice/saml/'
/** Metadata or consumer path of a service provider, with its id. */
const SAML = /^\/\.sluice\/saml\/([A-Za-z0-9_-]{1,64})(\/acs)?$/

/** Returns the id of the service provider in a path of SAML; undefined for other paths. */
export function serviceProviderIn(path: string): string | undefined {
  return SAML.exec(path)?.[1]
}

const OWN_PATHS: ReadonlyMap<string, OwnPath> = new Map([
  [LOGIN_PATH, 'login'],
  [LOGOUT_PATH, 'logout'],
  [CALLBACK_PATH, 'callback'],
  ['/ngrok/login', 'login'],
  ['/ngrok/logout', 'logout']
])

/** Returns the purpose of a login request; undefined for other requests. */
export function ownPath({ method, target }: FlowRequest): OwnPath | undefined {
  const { path } = target
  // Runs for every request: most paths differ in these few characters.
  if (!path.startsWith('/.sluice/') && !path.startsWith('/ngrok/')) return undefined
  const [, serviceProvider, consumer] = path.startsWith(SAML_PATH) ? (SAML.exec(path) ?? []) : []
  if (method === 'GET' || method === 'HEAD')
    return serviceProvider !== undefined && consumer === undefined ? 'saml-metadata' : OWN_PATHS.get(path)
  if (method !== 'POST') return undefined
  if (consumer !== undefined) return 'saml-response'
  return path === BACK_CHANNEL_PATH ? 'backchannel-logout' : OWN_PATHS.get(path) === 'logout' ? 'logout' : undefined
}

/** Returns whether the client used TLS, to this process or to a trusted proxy. */
export function isSecure({ scheme }: FlowRequest): boolean {
  return scheme === 'https'
}

/**
 * Returns whether the request comes from a page of this site or a typed address. Browsers send this over TLS and to localhost (Fetch
 * Metadata), otherwise the referring page decides.
 */
export function isSameSite(request: FlowRequest): boolean {
  const site = request.headers.get('sec-fetch-site')
  if (site !== undefined) return site !== 'cross-site'
  return request.headers.get('referer')?.startsWith(`${originOf(request)}/`) === true
}

/** Returns scheme, host and port as the browser shows them. */
export function originOf({ scheme, authority }: FlowRequest): string {
  return `${scheme}://${authority}`
}

/** Returns path and query as received; rewrites of a policy do not change them. */
export function uriOf({ head, target, pathForm }: FlowRequest): string {
  const came = RequestTarget.fromRequestLine(head.method, head.target, head.authority, head.scheme)?.in(pathForm)
  return (came instanceof RequestTarget ? came : target).uri
}

const READS_PAGES =
  /(?:^|[\s,])(?:text\/html|application\/xhtml\+xml|text\/\*|\*\/\*)(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i

/**
 * Returns whether the request loads a page for a person, who can be redirected to a login: GET or HEAD, no WebSocket, a top-level or framed
 * navigation if the browser says so (Fetch Metadata), no script's request, and an Accept that allows HTML, as a missing one does (RFC 9110
 * 12.5.1).
 */
export function isNavigation({ method, headers }: FlowRequest): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false
  const mode = headers.get('sec-fetch-mode')
  if (mode !== undefined && mode !== 'navigate') return false
  if (headers.has('upgrade') || headers.has('x-requested-with')) return false
  const accept = headers.values('accept')
  return accept.length === 0 || accept.some((value) => READS_PAGES.test(value))
}

/** Requests exempt from login: none, every `OPTIONS`, or CORS preflights (Fetch, "CORS-preflight fetch"). */
export type Preflight = 'none' | 'options' | 'cors'

/** Returns whether the request is exempt: without preflights, which never carry cookies, no script of another origin could send requests. */
export function isExempt({ method, headers }: FlowRequest, preflight: Preflight): boolean {
  if (preflight === 'none' || method !== 'OPTIONS') return false
  return preflight === 'options' || (headers.has('origin') && headers.has('access-control-request-method'))
}

/** Login cookies of a request, by name. */
export type Jar = ReadonlyMap<string, string>

/**
 * Names of our cookies: `<prefix>session.<tag>`, its further pieces `.1`, `.2`, …, `<prefix>activity.<tag>` and `<prefix>nonce.<tag>.<id of
 * the attempt>`, where the tag of a realm begins with `sl`.
 */
const OURS = /^(?:__Host-|__Secure-)?[A-Za-z0-9.]*(?:session|activity|nonce)\.sl[0-9a-f]{12}(?:\.[0-9a-z]{1,16})?$/
/** Start of a realm's tag in a cookie name. */
const MARK = '.sl'
const EMPTY: Jar = new Map()

/** Returns the login cookies of the original request for all realms; the first of several with one name. */
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

/** Removes the login cookies of every realm from a request, so that no upstream sees them. */
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

/** Returns whether a request has cookies, without the lower-case view: most requests have none, and each pays for the check. */
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
