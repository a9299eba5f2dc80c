import type { Verdict } from '../../exchange/verdict.js'
import { loggedOut, REFUSALS, type Refusal, redirect } from './answers.js'
import { ATTEMPT_LASTS, type Attempt, newAttempt, openAttempt, readState, sealAttempt } from './attempt.js'
import type { Jar } from './cookies.js'
import { ProviderFailure } from './failure.js'
import type { Visit } from './gate.js'
import type { Identities, Identity } from './identities.js'
import type { Login } from './login.js'
import { scopesOf } from './providers.js'
import type { SessionEnd } from './published.js'
import { returnPath } from './return-path.js'
import type { Found, Sessions } from './sessions.js'
import type { GateSettings } from './settings.js'
import type { Vault } from './vault.js'
import { CALLBACK_PATH, type OwnPath, originOf, uriOf } from './visit.js'

/** Logins that one browser may have under way: tabs that were opened at once. */
const MOST_ATTEMPTS = 4
/** How often a login is begun anew by itself when the browser has lost it. */
const MOST_ROUNDS = 1

/** Logins of one gate, from the redirect to the provider to the session; and logouts. Rejects with a ProviderFailure. */
export class Attempts {
  readonly #settings: GateSettings
  readonly #login: Login
  readonly #vault: Vault
  readonly #identities: Identities
  readonly #sessions: Sessions

  constructor(settings: GateSettings, login: Login, vault: Vault, identities: Identities, sessions: Sessions) {
    this.#settings = settings
    this.#login = login
    this.#vault = vault
    this.#identities = identities
    this.#sessions = sessions
  }

  /** Answers a path of the login. `passes`: it is meant for another gate, so here it is a request like any other. */
  serve(
    own: OwnPath,
    visit: Visit,
    found: Found | SessionEnd
  ): 'passes' | Verdict | Refusal | Promise<Verdict | Refusal> {
    const { parameters } = visit.request.target
    if (own === 'callback') return this.#callback(visit, parameters.get('state') ?? [], found)
    const [authId] = parameters.get('auth_id') ?? []
    if (authId !== undefined && authId !== this.#settings.authId) return 'passes'
    const [asked = ''] = parameters.get('redirect_path') ?? []
    const path = returnPath(asked)
    return own === 'login' ? this.begin(visit, [], path ?? '/') : this.#logout(visit, path, found)
  }

  /** Sends the browser to the provider. `cookies`: further Set-Cookie values. */
  async begin(
    visit: Visit,
    cookies: readonly string[],
    path = returnPath(uriOf(visit.request)) ?? '/',
    round = 0
  ): Promise<Verdict | Refusal> {
    const { request, style, jar, application } = visit
    const { provider, scopes, parameters, cookieDomain } = this.#settings
    if (cookieDomain !== undefined && !lies(request.target.host, cookieDomain)) return REFUSALS.cookieDomain
    const origin = originOf(request)
    const attempt = newAttempt(this.#vault.tag, round, origin + CALLBACK_PATH, path, this.#login.clock.wall())
    const url = await this.#login.protocol.authorizationUrl(
      provider,
      application,
      attempt,
      scopesOf(provider, scopes),
      parameters
    )
    const earlier = style.attemptsIn(jar)
    return redirect(url, [
      ...cookies,
      ...(earlier.length < MOST_ATTEMPTS ? [] : earlier.map((name) => style.drop(name))),
      style.set(style.attempt(attempt.id), sealAttempt(this.#vault, attempt), ATTEMPT_LASTS / 1_000)
    ])
  }

  #callback(
    visit: Visit,
    states: readonly string[],
    found: Found | SessionEnd
  ): 'passes' | Verdict | Refusal | Promise<Verdict | Refusal> {
    const { jar, style, request } = visit
    const [state = ''] = states
    const facts = readState(state)
    if (facts !== undefined && facts.tag !== this.#vault.tag) {
      // Only a browser that has begun a login at another gate is let on to that.
      return typeof found !== 'string' && hasAttempt(jar, facts.tag, facts.id) ? 'passes' : this.#lost(visit, 0, found)
    }
    if (facts === undefined || states.length !== 1) return this.#lost(visit, 0, found)
    const name = style.attempt(facts.id)
    const attempt = openAttempt(this.#vault, jar.get(name) ?? '', state, this.#login.clock.wall())
    if (attempt === undefined) return this.#lost(visit, facts.round, found)
    return this.#complete(visit, attempt, facts.round, request.target.query ?? '')
  }

  async #complete(visit: Visit, attempt: Attempt, round: number, query: string): Promise<Verdict | Refusal> {
    const { application, jar, style } = visit
    const spent = style.drop(style.attempt(attempt.id))
    let identity: Identity
    try {
      identity = await this.#identities.login(application, attempt, new URL(`${attempt.redirectUri}?${query}`))
    } catch (error) {
      if (!(error instanceof ProviderFailure)) throw error
      // The code is spent, but the provider knows the user: a second login shows nothing.
      if (error.trouble === 'keys-changed' && round < MOST_ROUNDS)
        return this.begin(visit, [spent], attempt.path, round + 1)
      throw error
    }
    const held = this.#sessions.create(identity, application.id)
    if (!this.#settings.access.allows(held.session)) return { ...REFUSALS.notAllowed, cookies: [spent] }
    return redirect(originOf(visit.request) + attempt.path, [
      spent,
      ...(jar.has(style.activity) ? [style.drop(style.activity)] : []),
      ...this.#sessions.cookiesOf(held, visit)
    ])
  }

  /** A callback that this browser has not begun, or too long ago: who is logged in goes on, others begin anew, once. */
  #lost(visit: Visit, round: number, found: Found | SessionEnd): Verdict | Refusal | Promise<Verdict | Refusal> {
    if (typeof found !== 'string') return redirect(`${originOf(visit.request)}/`, [])
    return round < MOST_ROUNDS ? this.begin(visit, [], '/', round + 1) : REFUSALS.lost
  }

  #logout({ request, style, jar }: Visit, path: string | undefined, found: Found | SessionEnd): Verdict {
    if (typeof found !== 'string') found.held.ended = true
    const cookies = [...this.#sessions.drop(style, jar), ...style.attemptsIn(jar).map((name) => style.drop(name))]
    return path === undefined ? loggedOut(this.#settings.authId, cookies) : redirect(originOf(request) + path, cookies)
  }
}

function hasAttempt(jar: Jar, tag: string, id: string): boolean {
  const end = `nonce.${tag}.${id}`
  for (const name of jar.keys()) if (name.endsWith(end)) return true
  return false
}

function lies(host: string, domain: string): boolean {
  return host === domain || host.endsWith(`.${domain}`)
}
