import { EvaluationError } from '../../expression/expression.js'
import { flowErrors } from '../../flow/error-codes.js'
import { type Flow, type FlowRequest, flowSlot } from '../../flow/flow.js'
import {
  dropLoginCookies,
  isExempt,
  isNavigation,
  isSameSite,
  isSecure,
  LOGIN_PATH,
  LOGOUT_PATH,
  loginCookies,
  originOf,
  uriOf
} from '../../flow/reserved-paths.js'
import { refuse, type Verdict } from '../../flow/verdict.js'
import type { LoginCall, LoginGate } from '../../policy/login-gate.js'
import { LOGIN_PARAMETER, returnPath } from '../../policy/login-selection.js'
import { decisionCounters, type PolicyServices } from '../../policy/services.js'
import { accessOf } from './access.js'
import {
  askedLogout,
  backChannelAnswer,
  loggedOut,
  loginErrors,
  loginRequired,
  REFUSALS,
  type Refusal,
  redirect,
  refusal,
  troubleAnswer
} from './answers.js'
import { Attempts } from './attempts.js'
import { LONGEST_LOGOUT } from './back-channel.js'
import { closedGate } from './closed-gate.js'
import { CookieStyle } from './cookies.js'
import { Identities } from './identities.js'
import { hasSession, logoutLink } from './logout-links.js'
import { ProviderFailure } from './provider-fetch.js'
import type { Application } from './providers.js'
import { metadataAnswer, postedResponse } from './saml/exchanges.js'
import { SamlIdentities } from './saml/identities.js'
import {
  type GateSettings,
  type Login,
  logins,
  markOf,
  realmOf,
  refusedResults,
  type SessionEnd,
  sessionResults,
  type Visit
} from './service.js'
import type { Held } from './session.js'
import { type Found, Sessions } from './sessions.js'

const NO_VALUE = refuse(flowErrors.POLICY_EXPRESSION)
const clientId = flowSlot<string>('login.client_id')
/** Maximum length of an identity token in a URL (characters). */
const LONGEST_HINT = 4_096

/** Returns the client id of the last gate's application in this flow; undefined if there was none. */
export function applicationOf(flow: Flow): string | undefined {
  return flow.get(clientId)
}

/** Creates the gate of a module or action. */
export function createGate(settings: GateSettings, services: PolicyServices): LoginGate {
  const login = services.service(logins)
  return login === undefined ? closedGate(settings) : new Gate(settings, services, login)
}

class Gate implements LoginGate {
  readonly tag: string
  readonly mark: string
  readonly authId: string
  readonly serviceProvider: string | undefined
  readonly #settings: GateSettings
  readonly #access
  readonly #shared: Login
  readonly #bodies: PolicyServices['bodies']
  readonly #log: PolicyServices['log']
  readonly #sessions: Sessions
  readonly #attempts: Attempts
  readonly #plain: CookieStyle
  readonly #secure: CookieStyle
  readonly #counters

  constructor(settings: GateSettings, services: PolicyServices, login: Login) {
    const { cookiePrefix, cookieDomain, provider, owner, result, authId } = settings
    const vault = login.vault(realmOf(settings))
    this.tag = vault.tag
    this.mark = markOf(settings)
    this.authId = authId
    this.serviceProvider = settings.serviceProvider
    this.#settings = settings
    this.#log = services.log
    this.#bodies = services.bodies
    this.#shared = login
    login.longest = Math.max(login.longest, settings.maximum)
    const access = accessOf(settings.access)
    const isSaml = provider.kind === 'saml'
    const identities = isSaml ? new SamlIdentities(login, provider) : new Identities(login, provider, access)
    const sessions = new Sessions(settings, login, vault, identities, access)
    this.#access = access
    this.#sessions = sessions
    this.#attempts = new Attempts({ settings, gate: this, login, vault, identities, sessions, access })
    this.#plain = new CookieStyle(cookiePrefix, vault.tag, false, cookieDomain, isSaml)
    this.#secure = new CookieStyle(cookiePrefix, vault.tag, true, cookieDomain, isSaml)
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
    const visit = this.#visit(flow, request, application)
    const found = this.#sessions.find(visit)
    return found instanceof Promise ? this.#awaited(visit, found) : this.#judge(visit, found)
  }

  /** Decides after the session is loaded, or refuses. */
  async #awaited(visit: Visit, found: Promise<Found | SessionEnd>): Promise<Verdict | undefined> {
    let read: Found | SessionEnd
    try {
      read = await found
    } catch (error) {
      return this.#failed(visit, error)
    }
    return await this.#judge(visit, read)
  }

  #judge(visit: Visit, found: Found | SessionEnd): Verdict | undefined | Promise<Verdict | undefined> {
    if (typeof found === 'string') return this.#login(visit, found)
    if (!this.#sessions.isDue(found.held)) return this.#pass(visit, found.held, found.cookies, false)
    if (!this.#sessions.down) return this.#checked(visit, found.held)
    void this.#probed(visit, found.held)
    return this.#pass(visit, found.held, found.cookies, false)
  }

  answer(flow: Flow, call: LoginCall): Verdict | Promise<Verdict> {
    const request = flow.request as FlowRequest
    if (call.own === 'logout') return this.#logout(flow, request, call.others)
    if (call.own === 'backchannel-logout') return this.#backChannel(flow, [this, ...call.others])
    let application: Application | undefined
    try {
      application = this.#settings.application(flow)
    } catch (error) {
      // No rule has run that could set a value or stop the phase.
      if (!(error instanceof EvaluationError)) throw error
      this.#log.warn({ owner: this.#settings.owner, reason: error.message }, 'a login has no application')
      return NO_VALUE
    }
    if (application === undefined) return this.#refused(flow, REFUSALS.noApplication, 'fail')
    const visit = this.#visit(flow, request, application)
    const { provider } = this.#settings
    if (provider.kind === 'saml' && call.own === 'saml-metadata') return metadataAnswer(application.id, provider)
    if (call.own === 'saml-response') return this.#posted(visit, call)
    const found = this.#sessions.find(visit)
    const serve = (known: Found | SessionEnd) => this.#attempts.serve(call, visit, known)
    return this.#guarded(found instanceof Promise ? found.then(serve) : serve(found), visit)
  }

  /** Completes a login with the response that the browser posts. */
  async #posted(visit: Visit, { home }: LoginCall): Promise<Verdict> {
    const posted = await postedResponse(this.#bodies, visit.flow)
    if (!('response' in posted)) return posted
    const { states, response } = posted
    const complete = async () =>
      this.#attempts.callback(visit, { states, answer: response, home }, await this.#sessions.find(visit))
    return this.#guarded(complete(), visit)
  }

  async revoke(flow: Flow, token: string): Promise<string | undefined> {
    const { provider } = this.#settings
    if (provider.kind !== 'openid') return 'the login has no provider of OpenID Connect'
    const application = this.#settings.application(flow)
    if (application === undefined) return 'no application is registered for the login'
    const { backChannel, ended, longest } = this.#shared
    const logout = await backChannel.read(token, provider.issuer, application.id)
    if (typeof logout === 'string') return logout
    const { names, begun } = logout
    for (const id of names) ended.end({ id, begun, ends: begun + longest })
    return undefined
  }

  leave(flow: Flow): readonly string[] {
    const request = flow.request as FlowRequest
    const [style, jar] = [this.#styleOf(request), loginCookies(request.head.headers)]
    return [...this.#sessions.end(style, jar), ...style.attemptsIn(jar).map((name) => style.drop(name))]
  }

  #visit(flow: Flow, request: FlowRequest, application: Application): Visit {
    flow.set(clientId, application.id)
    return { flow, request, jar: loginCookies(request.head.headers), style: this.#styleOf(request), application }
  }

  #styleOf(request: FlowRequest): CookieStyle {
    return isSecure(request) ? this.#secure : this.#plain
  }

  async #logout(flow: Flow, request: FlowRequest, others: readonly LoginGate[]): Promise<Verdict> {
    const { parameters } = request.target
    if (request.method !== 'POST' && !isSameSite(request) && hasSession(request))
      return askedLogout(logoutLink(request))
    // The provider returns the target path as state.
    const [asked = ''] = parameters.get('redirect_path') ?? parameters.get('state') ?? []
    const path = returnPath(asked)
    const elsewhere = this.#settings.providerLogout ? await this.#providerLogout(flow, request, path) : undefined
    // Gates of one realm share cookies.
    const cookies = [...new Set([this, ...others].flatMap((gate) => gate.leave(flow)))]
    this.#counters.login.inc()
    await this.#keepEnded()
    if (elsewhere !== undefined) return redirect(elsewhere, cookies)
    return path === undefined ? loggedOut(this.#link(request), cookies) : redirect(originOf(request) + path, cookies)
  }

  /** Returns false if the logout applies only to this process until the store is available again. */
  async #keepEnded(): Promise<boolean> {
    try {
      await this.#shared.ended.keep()
      return true
    } catch (error) {
      this.#log.warn({ owner: this.#settings.owner, err: error }, 'a logout could not be stored yet')
      return false
    }
  }

  /**
   * Handles a back-channel logout from the provider of one of `gates`. There is no rate limit: strangers could suppress real logouts with
   * it.
   */
  async #backChannel(flow: Flow, gates: readonly LoginGate[]): Promise<Verdict> {
    const body = await this.#bodies.request(flow)
    if (!(body instanceof Uint8Array)) return body
    const form = new URLSearchParams(body.length > LONGEST_LOGOUT ? '' : Buffer.from(body).toString('latin1'))
    const [token = '', ...more] = form.getAll('logout_token')
    let reason: string | undefined = 'the form has no logout_token, several, or a long one'
    let failure: ProviderFailure | EvaluationError | undefined
    for (const gate of token === '' || more.length > 0 ? [] : gates) {
      try {
        reason = await gate.revoke(flow, token)
        if (reason === undefined) break
      } catch (error) {
        if (!(error instanceof ProviderFailure || error instanceof EvaluationError)) throw error
        failure = error
      }
    }
    if (reason === undefined) {
      this.#counters.login.inc()
      if (await this.#keepEnded()) return backChannelAnswer()
      return backChannelAnswer(loginErrors.LOGIN_STORE_UNAVAILABLE, 'the logout could not be stored yet')
    }
    const { owner } = this.#settings
    this.#log.debug({ owner, reason: failure?.message ?? reason }, 'a logout of a provider was refused')
    this.#counters[failure === undefined ? 'deny' : 'fail'].inc()
    if (failure === undefined) return backChannelAnswer(loginErrors.LOGIN_LOGOUT_TOKEN, reason)
    return backChannelAnswer(loginErrors.LOGIN_PROVIDER_UNAVAILABLE, 'the keys of the provider cannot be had')
  }

  /** Returns the provider's logout URL; undefined if there is no session or no such URL. */
  async #providerLogout(flow: Flow, request: FlowRequest, path: string | undefined): Promise<string | undefined> {
    try {
      const { provider } = this.#settings
      const application = this.#settings.application(flow)
      if (application === undefined || provider.kind === 'saml') return undefined
      const found = await this.#sessions.find(this.#visit(flow, request, application))
      if (typeof found === 'string') return undefined
      const { identityToken } = found.held.session
      return await this.#shared.protocol.endSessionUrl(provider, application, {
        // A URL cannot contain long tokens; the provider then asks the user.
        ...(identityToken === '' || identityToken.length > LONGEST_HINT ? {} : { id_token_hint: identityToken }),
        post_logout_redirect_uri: originOf(request) + LOGOUT_PATH,
        ...(path === undefined ? {} : { state: path })
      })
    } catch (error) {
      // The local session ends all the same.
      if (error instanceof ProviderFailure) this.#report(error)
      else if (!(error instanceof EvaluationError)) throw error
      return undefined
    }
  }

  /** Checks whether the provider responds again, while the session is allowed. */
  async #probed({ application }: Visit, held: Held): Promise<void> {
    try {
      await this.#sessions.check(held, application, (failure) => this.#report(failure))
    } catch (error) {
      this.#log.warn({ owner: this.#settings.owner, err: error }, 'a session could not be checked')
    }
  }

  async #checked(visit: Visit, held: Held): Promise<Verdict | undefined> {
    let outcome: Held | 'ended' | 'unknown'
    try {
      outcome = await this.#sessions.check(held, visit.application, (failure) => this.#report(failure))
    } catch (error) {
      return this.#failed(visit, error)
    }
    if (outcome === 'ended') return this.#login(visit, 'revoked')
    // The provider did not respond: a user with a session keeps it.
    if (outcome === 'unknown') return this.#pass(visit, held, [], false)
    return this.#pass(visit, outcome, this.#sessions.cookiesOf(outcome, visit), true)
  }

  #pass(
    { flow, request, style }: Visit,
    held: Held,
    cookies: readonly string[],
    refreshed: boolean
  ): Verdict | undefined {
    const { result, provider } = this.#settings
    if (!this.#access.allows(held.session)) return this.#refused(flow, { ...REFUSALS.notAllowed, cookies }, 'deny')
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
    flow.publish(this.#settings.result, refusedResults(end, loginErrors.LOGIN_REQUIRED.code, 'there is no session'))
    const ended = this.#sessions.drop(style, jar)
    if (!isNavigation(request)) {
      this.#counters.login.inc()
      return loginRequired(this.#link(request), ended)
    }
    return this.#guarded(this.#attempts.begin(visit, ended), visit) as Promise<Verdict | undefined>
  }

  /** Returns the result of a login or its failure. */
  async #guarded(pending: Verdict | Refusal | Promise<Verdict | Refusal>, visit: Visit): Promise<Verdict> {
    let answer: Verdict | Refusal
    try {
      answer = await pending
    } catch (error) {
      return this.#failed(visit, error)
    }
    if (!('title' in answer)) {
      this.#counters.login.inc()
      return answer
    }
    return this.#refused(visit.flow, answer, answer.error.status < 500 ? 'deny' : 'fail')
  }

  /** Returns the response to a failure of the provider or store; rethrows other errors. */
  #failed({ flow }: Visit, error: unknown): Verdict {
    if (!(error instanceof ProviderFailure)) throw error
    this.#report(error)
    const answer = troubleAnswer(error.trouble)
    return this.#refused(flow, answer, answer.error.status < 500 ? 'deny' : 'fail')
  }

  #refused(flow: Flow, answer: Refusal, decision: 'deny' | 'fail'): Verdict {
    const request = flow.request as FlowRequest
    flow.publish(this.#settings.result, refusedResults('none', answer.error.code, answer.title))
    this.#counters[decision].inc()
    return refusal(request, answer, this.#link(request))
  }

  /** Returns the link to this gate's login with the target path of the request. */
  #link(request: FlowRequest): string {
    const path = returnPath(uriOf(request))
    const back = path === undefined ? '' : `&redirect_path=${encodeURIComponent(path)}`
    return `${LOGIN_PATH}?${LOGIN_PARAMETER}=${this.tag}.${this.mark}${back}`
  }

  #report({ trouble, message, cause }: ProviderFailure): void {
    const { owner, provider } = this.#settings
    const fields = { owner, provider: provider.issuer, trouble, reason: message, cause }
    // A cancelled login is not a warning.
    if (trouble === 'denied') this.#log.debug(fields, 'a login was denied')
    else if (trouble === 'unstored' || trouble === 'too-large')
      this.#log.warn(fields, 'a session could not be kept or read')
    else this.#log.warn(fields, 'an identity provider failed')
  }
}
