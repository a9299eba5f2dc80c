import { randomBytes } from 'node:crypto'
import { policyServices } from '../../../src/app/services.js'
import { defaultProviders, type OperatorProviders } from '../../../src/features/login/operator-providers.js'
import type { SamlReader } from '../../../src/features/login/saml/service-provider.js'
import { Login, logins } from '../../../src/features/login/service.js'
import type { SessionStore } from '../../../src/features/login/session-keeper.js'
import { actions, modules } from '../../../src/features/registry.js'
import { type Flow, NO_UNITS } from '../../../src/flow/flow.js'
import { ownPath } from '../../../src/flow/reserved-paths.js'
import type { Verdict } from '../../../src/flow/verdict.js'
import { systemClock } from '../../../src/lib/clock.js'
import { createOutbound } from '../../../src/lib/http-client/outbound.js'
import { compilePolicy } from '../../../src/policy/compile.js'
import type { LoginGate } from '../../../src/policy/login-gate.js'
import { loginFor } from '../../../src/policy/login-selection.js'
import { provide } from '../../../src/policy/services.js'
import { ManualClock } from '../../helpers/clock.js'
import { makeFlow } from '../../helpers/flow.js'
import { Kit } from '../kit.js'
import type { Answer, Send } from './browser.js'

type Step = (flow: Flow) => Verdict | undefined | Promise<Verdict | undefined>

interface Test {
  teardown(run: () => void): void
}

/** What the upstream would have seen. */
export interface Arrived {
  readonly path: string
  readonly cookie: readonly string[]
  readonly results: Flow['results']
}

/** Logins without a socket of our own: policies and modules over flows, with a clock that stands, and real providers. */
export class LoginStand {
  readonly clock = new ManualClock(systemClock.wall())
  readonly kit = new Kit()
  readonly arrived: Arrived[] = []
  readonly login: Login
  readonly #step: Step

  /** `make` builds what runs on each request; `providers` is what the operator has set up. */
  constructor(
    t: Test,
    make: (services: Kit['services']) => Step,
    {
      providers = defaultProviders(),
      keys = [randomBytes(32)],
      store,
      bytes = 1 << 30,
      readSaml
    }: {
      providers?: OperatorProviders
      keys?: readonly Uint8Array[]
      /** Keeps sessions beyond cookies, in so many bytes. */
      store?: SessionStore
      bytes?: number
      /** Reads documents of SAML here, without threads. */
      readSaml?: SamlReader
    } = {}
  ) {
    const outbound = createOutbound({ clock: systemClock, allowPrivate: true })
    t.teardown(() => outbound.close())
    this.login = new Login({
      keys,
      providers,
      outbound,
      clock: this.clock,
      ...(readSaml === undefined ? {} : { readSaml })
    })
    if (store !== undefined) this.login.keeper.attach(store, bytes)
    this.#step = make(policyServices({ ...this.kit.services, clock: this.clock }, [provide(logins, this.login)]))
  }

  /** Answers like the proxy with an upstream that says `hello`. */
  readonly send: Send = async (method, url, headers, body) => {
    const list = Object.entries(headers).flat()
    const flow = makeFlow({ method, url: url.href, headers: list, body: Buffer.from(body) })
    const verdict = await this.#step(flow)
    const fields = flow.responseFields ?? []
    if (verdict === undefined) {
      const { request, results } = flow
      this.arrived.push({ path: request?.target.uri ?? '', cookie: request?.headers.values('cookie') ?? [], results })
      return answer(200, fields, 'hello')
    }
    if (verdict.kind !== 'respond') throw new Error(`a verdict of kind ${verdict.kind}`)
    const code = verdict.code === undefined ? [] : ['sluice-error-code', verdict.code]
    return answer(verdict.status, [...verdict.headers, ...code, ...fields], Buffer.from(verdict.body ?? []).toString())
  }
}

/** The request phase of a policy document. */
export function policy(text: string, owner = 'default') {
  return (services: Kit['services']): Step => {
    const keep = <T>(_key: readonly unknown[], make: (identity: string) => T) => make('')
    const compiled = compilePolicy(text, { owner, services, keep: { keep }, actions, unavailable: 'refuse' })
    const phase = compiled.policy?.phases.on_http_request
    if (!phase) throw new Error(JSON.stringify(compiled.problems))
    const gates = compiled.policy?.logins.map(({ gate }) => gate) ?? []
    return desk(gates, (flow) => phase.run(flow))
  }
}

/** A module with a configuration in the form of the plan. */
export function moduleStep(
  name: string,
  config: Readonly<Record<string, unknown>>,
  secrets: Readonly<Record<string, string>>,
  owner = 'route-1'
) {
  return (services: Kit['services']): Step => {
    const definition = modules.find((module) => module.name === name)
    const { request, logins } =
      definition?.compile(config, {
        owner,
        services,
        service: services.service,
        keep: (_key, make) => make(''),
        secret: (path) => secrets[path]
      }) ?? {}
    if (request === undefined) throw new Error(`no module ${name}`)
    const units = { ...NO_UNITS, policy: () => undefined }
    return desk(logins?.(units) ?? [], (flow) => request(flow, { ...flow.units, policy: () => undefined }))
  }
}

/** Like the proxy in front of one route: requests for paths of logins go to the login that they are for. */
function desk(gates: readonly LoginGate[], step: Step): Step {
  const places = gates.map((gate) => ({ gate, path: '/' }))
  return (flow) => {
    const { request } = flow
    const own = request === undefined ? undefined : ownPath(request)
    const found =
      own === undefined || request === undefined ? undefined : loginFor(own, request, places, () => undefined)
    return found === undefined ? step(flow) : found.place.gate.answer(flow, found.call)
  }
}

function answer(status: number, list: readonly string[], body: string): Answer {
  const headers: Record<string, string | string[]> = {}
  for (let i = 0; i < list.length; i += 2) {
    const name = (list[i] as string).toLowerCase()
    const value = list[i + 1] as string
    const before = headers[name]
    headers[name] = name === 'set-cookie' ? [...((before as string[] | undefined) ?? []), value] : value
  }
  return { status, headers, body }
}
