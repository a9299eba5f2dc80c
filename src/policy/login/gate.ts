import type { Flow, FlowRequest } from '../../exchange/flow.js'
import { refuse, type Verdict } from '../../exchange/verdict.js'
import { decisionCounters } from '../services.js'
import { loginRequired, REFUSALS, type Refusal, refusal, troubleAnswer } from './answers.js'
import { Attempts } from './attempts.js'
import { CookieStyle, dropLoginCookies, type Jar, loginCookies } from './cookies.js'
import { ProviderFailure } from './failure.js'
import { Identities } from './identities.js'
import type { Login } from './login.js'
import type { Application } from './operator-providers.js'
import { refusedResults, type SessionEnd, sessionResults } from './published.js'
import type { Held } from './session-cache.js'
import { Sessions } from './sessions.js'
import { type GateSettings, type LoginServices, realmOf } from './settings.js'
import { isExempt, isNavigation, isSecure, ownPath } from './visit.js'

/** A visit at the gate. */
export interface Visit {
  readonly flow: Flow
  readonly request: FlowRequest
  readonly jar: Jar
  readonly style: CookieStyle
  readonly application: Application
}

const UNAVAILABLE = refuse(503, 'LOGIN_UNAVAILABLE')
const SLOT = 'policy.login.application'

/** Client id of the application that the last gate of this flow sends users to; undefined when none was asked. */
export function applicationOf({ derived }: Flow): string | undefined {
  return derived[SLOT] as string | undefined
}

/** A step that lets logged-in users pass, for a module or an action. Stays synchronous for a session that is good as it is. */
export function createGate(
  settings: GateSettings,
  services: LoginServices
): (flow: Flow) => Verdict | undefined | Promise<Verdict | undefined> {
  const { login } = services
  if (login === undefined) return () => UNAVAILABLE
  const gate = new Gate(settings, services, login)
  return (flow) => gate.run(flow)
}

class Gate {
  readonly #settings: GateSettings
  readonly #log: LoginServices['log']
  readonly #sessions: Sessions
  readonly #attempts: Attempts
  readonly #plain: CookieStyle
  readonly #secure: CookieStyle
  readonly #counters

  constructor(settings: GateSettings, services: LoginServices, login: Login) {
    const { cookiePrefix, cookieDomain, provider, access, owner, result } = settings
    const vault = login.vault(realmOf(settings))
    const identities = new Identities(login, provider, access)
    this.#settings = settings
    this.#log = services.log
    this.#sessions = new Sessions(settings, login, vault, identities)
    this.#attempts = new Attempts(settings, login, vault, identities, this.#sessions)
    this.#plain = new CookieStyle(cookiePrefix, vault.tag, false, cookieDomain)
    this.#secure = new CookieStyle(cookiePrefix, vault.tag, true, cookieDomain)
    this.#counters = decisionCounters(services.meter, owner, result, ['pass', 'login', 'deny', 'fail'])
  }

  run(flow: Flow): Verdict | undefined | Promise<Verdict | undefined> {
    const { request } = flow
    if (request === undefined) return undefined
    if (isExempt(request, this.#settings.preflight)) {
      dropLoginCookies(request.headers)
      return undefined
    }
    const application = this.#settings.application(flow)
    if (application === undefined) return this.#refused(flow, REFUSALS.noApplication, 'fail')
    flow.derived[SLOT] = application.id
    const style = isSecure(request) ? this.#secure : this.#plain
    const visit = { flow, request, jar: loginCookies(request.head.headers), style, application }
    const found = this.#sessions.find(visit)
    const own = ownPath(request)
    if (own !== undefined) {
      const answer = this.#attempts.serve(own, visit, found)
      if (answer !== 'passes') return this.#guarded(answer, visit)
    }
    if (typeof found === 'string') return this.#login(visit, found)
    if (!this.#sessions.isDue(found.held)) return this.#pass(visit, found.held, found.cookies, false)
    return this.#checked(visit, found.held)
  }

  async #checked(visit: Visit, held: Held): Promise<Verdict | undefined> {
    const outcome = await this.#sessions.check(held, visit.application, (failure) => this.#report(failure))
    if (outcome === 'ended') return this.#login(visit, 'revoked')
    // Nobody answered: who has a session keeps it.
    if (outcome === 'unknown') return this.#pass(visit, held, [], false)
    return this.#pass(visit, outcome, this.#sessions.cookiesOf(outcome, visit), true)
  }

  #pass(
    { flow, request, style }: Visit,
    held: Held,
    cookies: readonly string[],
    refreshed: boolean
  ): Verdict | undefined {
    const { result, provider, access } = this.#settings
    if (!access.allows(held.session)) return this.#refused(flow, { ...REFUSALS.notAllowed, cookies }, 'deny')
    held.results ??= sessionResults(result, provider.issuer, held, false)
    flow.publish(result, refreshed ? sessionResults(result, provider.issuer, held, true) : held.results)
    dropLoginCookies(request.headers)
    const activity = this.#sessions.touch(held, style)
    if (cookies.length > 0 || activity !== undefined) {
      flow.responseFields ??= []
      for (const cookie of cookies) flow.responseFields.push('Set-Cookie', cookie)
      if (activity !== undefined) flow.responseFields.push('Set-Cookie', activity)
    }
    this.#counters.pass.inc()
    return undefined
  }

  #login(visit: Visit, end: SessionEnd): Verdict | Promise<Verdict | undefined> {
    const { flow, request, style, jar } = visit
    const { result, authId } = this.#settings
    flow.publish(result, refusedResults(end, 'LOGIN_REQUIRED', 'there is no session'))
    const ended = this.#sessions.drop(style, jar)
    if (!isNavigation(request)) {
      this.#counters.login.inc()
      return loginRequired(authId, ended)
    }
    return this.#guarded(this.#attempts.begin(visit, ended), visit) as Promise<Verdict | undefined>
  }

  /** What comes of a login, or of its failure. */
  async #guarded(pending: Verdict | Refusal | Promise<Verdict | Refusal>, { flow }: Visit): Promise<Verdict> {
    let answer: Verdict | Refusal
    try {
      answer = await pending
    } catch (error) {
      if (!(error instanceof ProviderFailure)) throw error
      this.#report(error)
      answer = troubleAnswer(error.trouble)
    }
    if (!('title' in answer)) {
      this.#counters.login.inc()
      return answer
    }
    return this.#refused(flow, answer, answer.status < 500 ? 'deny' : 'fail')
  }

  #refused(flow: Flow, answer: Refusal, decision: 'deny' | 'fail'): Verdict {
    const { result, authId } = this.#settings
    flow.publish(result, refusedResults('none', answer.code, answer.title))
    this.#counters[decision].inc()
    return refusal(flow.request as FlowRequest, answer, authId)
  }

  #report({ trouble, message, cause }: ProviderFailure): void {
    const { owner, provider } = this.#settings
    const fields = { owner, provider: provider.issuer, trouble, reason: message, cause }
    // Whoever cancels a login writes no warning into our log.
    if (trouble === 'denied') this.#log.debug(fields, 'a login was denied')
    else this.#log.warn(fields, 'an identity provider failed')
  }
}
