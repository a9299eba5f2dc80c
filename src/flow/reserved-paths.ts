import type { FlowRequest } from './flow.js'
import { RequestTarget } from './target.js'

export type OwnPath = 'login' | 'logout' | 'callback'

export const CALLBACK_PATH = '/.sluice/callback'
export const LOGIN_PATH = '/.sluice/login'

const OWN_PATHS: ReadonlyMap<string, OwnPath> = new Map([
  [LOGIN_PATH, 'login'],
  ['/.sluice/logout', 'logout'],
  [CALLBACK_PATH, 'callback'],
  ['/ngrok/login', 'login'],
  ['/ngrok/logout', 'logout']
])

/** What a path of logins asks for; undefined for every other request. */
export function ownPath({ method, target }: FlowRequest): OwnPath | undefined {
  const { path } = target
  // Asked of every request: most paths differ in these few characters.
  if (!path.startsWith('/.sluice/') && !path.startsWith('/ngrok/')) return undefined
  return method === 'GET' || method === 'HEAD' ? OWN_PATHS.get(path) : undefined
}

/** Did the client come over TLS, here or at a proxy that we trust? What untrusted clients claim is gone before. */
export function isSecure({ head, headers }: FlowRequest): boolean {
  if (head.scheme === 'https') return true
  const claimed = headers.get('x-forwarded-proto')
  return claimed !== undefined && /^https(?:\s*,|$)/i.test(claimed)
}

/** Scheme, host and port as the browser shows them. */
export function originOf(request: FlowRequest): string {
  return `${isSecure(request) ? 'https' : 'http'}://${request.head.authority}`
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

export type Preflight = 'none' | 'options' | 'cors'

/** Requests without which no script of another origin could ask at all: they never carry cookies. */
export function isExempt({ method, headers }: FlowRequest, preflight: Preflight): boolean {
  if (preflight === 'none' || method !== 'OPTIONS') return false
  return preflight === 'options' || (headers.has('origin') && headers.has('access-control-request-method'))
}
