import { CALLBACK_PATH, originOf, uriOf } from '../../flow/reserved-paths.js'
import type { Verdict } from '../../flow/verdict.js'
import type { LoginCall, LoginGate } from '../../policy/login-gate.js'
import { readState, returnPath } from '../../policy/login-selection.js'
import type { Access } from './access.js'
import { REFUSALS, type Refusal, redirect } from './answers.js'
import {
  ATTEMPT_LASTS,
  type Attempt,
  newAttempt,
  openAttempt,
  pathInState,
  sealAttempt,
  type Vault
} from './attempt-state.js'
import type { Identity, IdentitySource } from './identities.js'
import { ProviderFailure } from './provider-fetch.js'
import { wellKnownName } from './providers.js'
import type { GateSettings, Login, SessionEnd, Visit } from './service.js'
import type { Held } from './session.js'
import type { Found, Sessions } from './sessions.js'

/**
 * Maximum size of login cookies in one browser (bytes): about fifteen tabs. Beyond it the oldest are removed; their states still lead back.
 */
const ATTEMPT_BYTES = 6_144
/** Maximum number of automatic restarts of a login whose cookie is missing. */
const MOST_ROUNDS = 1

type Answer = Verdict | Refusal

/** Response of a provider, as the browser brings it. */
interface Callback {
  readonly states: readonly string[]
  /** Query of the callback, or the posted response of SAML. */
  readonly answer: string
  /** Path for a login without a target. */
  readonly home: string
}

export interface AttemptsParts {
  readonly settings: GateSettings
  readonly gate: Pick<LoginGate, 'tag' | 'mark'>
  readonly login: Login
  readonly vault: Vault
  readonly identities: IdentitySource
  readonly sessions: Sessions
  readonly access: Access
}

/** Logins of one gate, from the redirect to the session. Rejects with a ProviderFailure. */
export class Attempts {
  readonly #settings: GateSettings
  readonly #gate: AttemptsParts['gate']
  readonly #login: Login
  readonly #vault: Vault
  readonly #identities: IdentitySource
  readonly #sessions: Sessions
  readonly #access: Access

  constructor({ settings, gate, login, vault, identities, sessions, access }: AttemptsParts) {
    this.#settings = settings
    this.#gate = gate
    this.#access = access
    this.#login = login
    this.#vault = vault
    this.#identities = identities
    this.#sessions = sessions
  }

  /** Handles the login path or the provider's callback. `found`: session of the request, if any. */
  serve({ own, home }: LoginCall, visit: Visit, found: Found | SessionEnd): Answer | Promise<Answer> {
    const { parameters } = visit.request.target
    if (own === 'callback') {
      const callback = { states: parameters.get('state') ?? [], answer: visit.request.target.query ?? '', home }
      return this.callback(visit, callback, found)
    }
    const [asked = ''] = parameters.get('redirect_path') ?? []
    return this.begin(visit, [], returnPath(asked) ?? home)
  }

  /** Redirects the browser to the provider. `cookies`: additional Set-Cookie values. */
  async begin(
    visit: Visit,
    cookies: readonly string[],
    path = returnPath(uriOf(visit.request)) ?? '/',
    round = 0
  ): Promise<Answer> {
    const { request, style, jar, application } = visit
    const { provider, cookieDomain } = this.#settings
    if (cookieDomain !== undefined && !lies(request.target.host, cookieDomain)) return REFUSALS.cookieDomain
    const origin = originOf(request)
    const begun = this.#login.clock.wall()
    const attempt = newAttempt(this.#vault, this.#gate.mark, {
      round,
      redirectUri: origin + CALLBACK_PATH,
      path,
      begun,
      carries: provider.kind !== 'saml'
    })
    const url = await this.#identities.begin(application, attempt, this.#settings)
    const sealed = sealAttempt(this.#vault, attempt)
    let left = ATTEMPT_BYTES - sealed.length
    // Newest first.
    const surplus = style.attemptsIn(jar).filter((name) => {
      left -= name.length + (jar.get(name)?.length ?? 0)
      return left < 0
    })
    return redirect(url, [
      ...cookies,
      ...surplus.map((name) => style.drop(name)),
      style.begin(attempt.id, sealed, ATTEMPT_LASTS / 1_000)
    ])
  }

  /** Handles the provider's response to a login. */
  callback(visit: Visit, { states, answer, home }: Callback, found: Found | SessionEnd): Answer | Promise<Answer> {
    const { jar, style, request } = visit
    const { provider } = this.#settings
    const [state = ''] = states
    const facts = readState(state)
    if (facts === undefined && provider.kind === 'saml' && provider.unsolicited) {
      const path = state.startsWith(`${originOf(request)}/`) ? state.slice(originOf(request).length) : state
      return this.#enter(visit, undefined, answer, returnPath(path) ?? home)
    }
    if (facts?.tag !== this.#gate.tag || states.length !== 1) return this.#lost(visit, 0, found, home)
    const name = style.attempt(facts.id)
    const attempt = openAttempt(this.#vault, jar.get(name) ?? '', state, this.#login.clock.wall())
    if (attempt !== undefined) return this.#complete(visit, attempt, facts.round, answer)
    return this.#lost(visit, facts.round, found, returnPath(pathInState(this.#vault, state) ?? '') ?? home)
  }

  async #complete(visit: Visit, attempt: Attempt, round: number, answer: string): Promise<Answer> {
    try {
      return await this.#enter(visit, attempt, answer, attempt.path)
    } catch (error) {
      if (!(error instanceof ProviderFailure)) throw error
      // The code is used up, but the provider knows the user: a second login shows no form.
      if (error.trouble === 'keys-changed' && round < MOST_ROUNDS)
        return this.begin(visit, [visit.style.drop(visit.style.attempt(attempt.id))], attempt.path, round + 1)
      throw error
    }
  }

  /** Creates the session of the user in `answer`; `attempt`: undefined if the provider began the login. */
  async #enter(visit: Visit, attempt: Attempt | undefined, answer: string, path: string): Promise<Answer> {
    const { application, jar, style } = visit
    const spent = attempt === undefined ? [] : [style.drop(style.attempt(attempt.id))]
    const identity: Identity = await this.#identities.login(application, attempt, answer)
    const held = this.#sessions.create(identity, application.id)
    if (!this.#access.allows(held.session)) return { ...REFUSALS.notAllowed, cookies: spent }
    await this.#sessions.keep(held)
    this.#report(visit, held)
    return redirect(originOf(visit.request) + path, [
      ...spent,
      ...(jar.has(style.activity) ? [style.drop(style.activity)] : []),
      ...this.#sessions.cookiesOf(held, visit)
    ])
  }

  /** Lists the session for the API. */
  #report({ flow, request }: Visit, { session, endNames }: Held): void {
    const { provider, owner, result } = this.#settings
    const { id, begun, ends, profile } = session
    this.#login.visitors.begun(
      {
        provider: wellKnownName(provider.issuer) ?? result,
        issuer: provider.issuer,
        user: profile.id,
        name: profile.name,
        email: profile.email
      },
      {
        session: id,
        names: endNames,
        owner,
        url: originOf(request),
        address: flow.clientAddress,
        agent: request.headers.get('user-agent') ?? '',
        begun,
        ends
      }
    )
  }

  /** Handles a callback that this browser did not start, or too long ago: a logged-in user continues, others restart once. */
  #lost(visit: Visit, round: number, found: Found | SessionEnd, path: string): Answer | Promise<Answer> {
    if (typeof found !== 'string') return redirect(originOf(visit.request) + path, [])
    return round < MOST_ROUNDS ? this.begin(visit, [], path, round + 1) : REFUSALS.lost
  }
}

function lies(host: string, domain: string): boolean {
  return host === domain || host.endsWith(`.${domain}`)
}
