import type { FlowRequest } from '../../flow/flow.js'
import type { HeaderList } from '../../flow/headers.js'
import { isNavigation, ownPath } from '../../flow/reserved-paths.js'
import { type AnsweredError, respond, type Verdict } from '../../flow/verdict.js'
import { defineErrors } from '../../lib/errors.js'
import type { ProviderTrouble } from './provider-fetch.js'

/** Error codes of logins. */
export const loginErrors = defineErrors({
  LOGIN_REQUIRED: {
    status: 401,
    text: 'The request needs a login and cannot be led to a page for it.',
    help: 'Log in with a browser first, or send the cookie of a session.'
  },
  LOGIN_APPLICATION_MISSING: {
    status: 503,
    text: 'No application is registered for the login.',
    help: 'Set client_id and client_secret, or login.providers.'
  },
  LOGIN_NOT_ALLOWED: {
    status: 403,
    text: 'The account of the user may not see the site.',
    help: 'Add the user to those whom the login lets pass if it should have access.'
  },
  LOGIN_DENIED: {
    status: 403,
    text: 'The identity provider did not confirm the login.',
    help: 'Log in again and agree.'
  },
  LOGIN_STATE_LOST: {
    status: 400,
    text: 'The login took too long, or the browser keeps no cookies for the site.',
    help: 'Log in again; allow cookies.'
  },
  LOGIN_PROVIDER_UNAVAILABLE: {
    status: 503,
    text: 'The identity provider does not answer.',
    help: 'Try again later; look whether Sluice reaches the provider.'
  },
  LOGIN_PROVIDER_FAILED: {
    status: 502,
    text: 'The identity provider gave an answer that cannot be used.',
    help: 'Look into the log; mostly the registration at the provider has to change.'
  },
  LOGIN_SESSION_TOO_LARGE: {
    status: 502,
    text: 'The tokens of the user do not fit into cookies, nor into what the store may keep.',
    help: 'Let the provider put less into tokens (groups), or raise login.stored_sessions.'
  },
  LOGIN_STORE_UNAVAILABLE: {
    status: 503,
    text: 'The session is in the store, which does not answer.',
    help: 'Try again later; look whether Sluice reaches its store.'
  },
  LOGIN_COOKIE_DOMAIN: {
    status: 500,
    text: 'The domain of the cookies of the login does not contain the host.',
    help: 'Correct auth_cookie_domain of the login.'
  },
  LOGIN_LOGOUT_TOKEN: {
    status: 400,
    text: 'The logout token is not one of the provider of the login.',
    help: 'Read error_description in the answer; mostly the registration at the provider has to change.'
  },
  LOGIN_UNAVAILABLE: {
    status: 503,
    text: 'The login cannot be used now.',
    help: 'Look into the log; mostly a secret cannot be read.'
  }
})

const UNSTORED = ['cache-control', 'no-store', 'referrer-policy', 'no-referrer']
const PAGE = [
  'content-type',
  'text/html; charset=utf-8',
  'content-security-policy',
  "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
]
/** Retry-After for an unresponsive provider (s). */
const RETRY_AFTER = '10'

export interface Refusal {
  readonly error: AnsweredError
  readonly title: string
  readonly text: string
  /** The page has a login link. */
  readonly login: boolean
  /** Set-Cookie values. */
  readonly cookies?: readonly string[]
}

/** Refusals of a gate with the text of their pages. */
export const REFUSALS = {
  noApplication: {
    error: loginErrors.LOGIN_APPLICATION_MISSING,
    title: 'Login is not set up',
    text: 'This site asks for a login, but no application is registered for it at the identity provider.',
    login: false
  },
  notAllowed: {
    error: loginErrors.LOGIN_NOT_ALLOWED,
    title: 'No access',
    text: 'You are logged in, but this account may not see this site.',
    login: true
  },
  denied: {
    error: loginErrors.LOGIN_DENIED,
    title: 'The login was cancelled',
    text: 'The identity provider did not confirm the login.',
    login: true
  },
  lost: {
    error: loginErrors.LOGIN_STATE_LOST,
    title: 'The login could not be completed',
    text: 'It took too long, or this browser keeps no cookies for this site.',
    login: true
  },
  unavailable: {
    error: loginErrors.LOGIN_PROVIDER_UNAVAILABLE,
    title: 'The identity provider does not answer',
    text: 'Please try again in a moment.',
    login: true
  },
  failed: {
    error: loginErrors.LOGIN_PROVIDER_FAILED,
    title: 'The identity provider gave an answer that cannot be used',
    text: 'Please try again; if it happens again, tell the owner of this site.',
    login: true
  },
  tooLarge: {
    error: loginErrors.LOGIN_SESSION_TOO_LARGE,
    title: 'The login holds too much',
    text: 'The identity provider says more about this account than can be kept here; tell the owner of this site.',
    login: true
  },
  unstored: {
    error: loginErrors.LOGIN_STORE_UNAVAILABLE,
    title: 'The session cannot be read just now',
    text: 'Please try again in a moment.',
    login: false
  },
  cookieDomain: {
    error: loginErrors.LOGIN_COOKIE_DOMAIN,
    title: 'Login is not set up for this host',
    text: 'The domain of its cookies does not contain this host.',
    login: false
  }
} satisfies Readonly<Record<string, Refusal>>

const TROUBLES: Readonly<Record<ProviderTrouble, Refusal>> = {
  unavailable: REFUSALS.unavailable,
  garbage: REFUSALS.failed,
  refused: REFUSALS.failed,
  denied: REFUSALS.denied,
  'keys-changed': REFUSALS.failed,
  unstored: REFUSALS.unstored,
  'too-large': REFUSALS.tooLarge
}

export function troubleAnswer(trouble: ProviderTrouble): Refusal {
  return TROUBLES[trouble]
}

/** Returns a refusal: a page for people, the code alone for programs. `link`: path and query of the login. */
export function refusal(request: FlowRequest, answer: Refusal, link: string): Verdict {
  const { title, text, login, cookies = [] } = answer
  const { status, code } = answer.error
  const headers = [...setCookies(cookies), ...UNSTORED]
  if (status === 503) headers.push('retry-after', RETRY_AFTER)
  // A browser posts the response of a SAML login in a navigation.
  const isPage = isNavigation(request) || ownPath(request) === 'saml-response'
  if (!isPage) return { kind: 'respond', status, headers, code }
  return {
    kind: 'respond',
    status,
    headers: [...headers, ...PAGE],
    body: page(title, text, login ? link : undefined),
    code
  }
}

/** Returns 401 for a request that cannot be redirected to a login page. Cookies are not an RFC 9110 scheme, but the field is required. */
export function loginRequired(link: string, cookies: readonly string[]): Verdict {
  return {
    kind: 'respond',
    status: loginErrors.LOGIN_REQUIRED.status,
    headers: [...setCookies(cookies), ...UNSTORED, 'www-authenticate', `Cookie form-action="${link}"`],
    code: loginErrors.LOGIN_REQUIRED.code
  }
}

/** Redirects to a URL generated by Sluice. */
export function redirect(url: string, cookies: readonly string[]): Verdict {
  return respond(302, [...setCookies(cookies), ...UNSTORED, 'location', url])
}

/**
 * Returns a page that asks for confirmation of a logout, because the link may come from another site. `action`: path and query of the
 * logout.
 */
export function askedLogout(action: string): Verdict {
  const form = `<form method="post" action="${escaped(action)}"><button>Log out</button></form>`
  return respond(200, [...UNSTORED, ...PAGE], page('Do you want to log out?', '', undefined, form))
}

export function loggedOut(link: string, cookies: readonly string[]): Verdict {
  return respond(200, [...setCookies(cookies), ...UNSTORED, ...PAGE], page('You are logged out', '', link))
}

/** Responds to a provider that ended sessions (OpenID Connect Back-Channel Logout 1.0, 2.8). `reason` contains nothing from the request. */
export function backChannelAnswer(error?: AnsweredError, reason = ''): Verdict {
  if (error === undefined) return respond(200, UNSTORED)
  const { status, code } = error
  const headers = [
    ...UNSTORED,
    'content-type',
    'application/json',
    ...(status === 503 ? ['retry-after', RETRY_AFTER] : [])
  ]
  const body = { error: status === 503 ? 'temporarily_unavailable' : 'invalid_request', error_description: reason }
  return { kind: 'respond', status, headers, body: Buffer.from(JSON.stringify(body)), code }
}

function setCookies(cookies: readonly string[]): HeaderList {
  return cookies.flatMap((cookie) => ['set-cookie', cookie])
}

/** Returns the page; of client input it contains only the encoded path of the link. */
function page(title: string, text: string, href: string | undefined, form = ''): Uint8Array {
  const link = href === undefined ? '' : `<p><a href="${escaped(href)}">Log in</a></p>`
  return Buffer.from(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
      `<title>${title}</title><style>body{font:1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:20vh auto;padding:0 1rem}` +
      `</style></head><body><h1>${title}</h1>${text === '' ? '' : `<p>${text}</p>`}${link}${form}</body></html>`
  )
}

/** Escapes an encoded path and query for an attribute. */
function escaped(href: string): string {
  return href.replaceAll('&', '&amp;')
}
