import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Logger } from 'pino'
import { type ApiKeys, openKeys } from './api/keys.js'
import { type ApiServer, createApi, type Readiness } from './api/server.js'
import { IN_MEMORY } from './config/fields.js'
import type { Options } from './config/options.js'
import type { Applied } from './control/applied-units.js'
import { ControlPlane } from './control/control-plane.js'
import { fileUnits } from './control/file-plan.js'
import { openSealer } from './control/seal-key-file.js'
import { codecBack } from './engine/codec/codec-back.js'
import { codecFront } from './engine/codec/codec-front.js'
import type { Back, Listening } from './engine/contract.js'
import { httpFront } from './engine/http-front/http-front.js'
import { httpProxyBack } from './engine/http-proxy/http-proxy-back.js'
import { createExpressions } from './expression/expressions.js'
import { CidrSet, parseCidr } from './lib/cidr.js'
import type { Clock } from './lib/clock.js'
import { CodedError } from './lib/coded-error.js'
import { openGeo } from './lib/geo.js'
import { reachableUrl } from './lib/host.js'
import { packageVersion } from './lib/package-root.js'
import { UserAgents } from './lib/user-agent.js'
import { LimiterTable } from './limiter/table.js'
import type { ListenerUnit } from './plan/plan.js'
import { actions } from './policy/actions/registry.js'
import { resultsOf } from './policy/results.js'
import type { PolicyServices } from './policy/services.js'
import { AccessLog } from './proxy/access-log.js'
import { Admission } from './proxy/admission.js'
import { Forwarding } from './proxy/forwarded.js'
import { Forwarder } from './proxy/forwarder.js'
import { HeaderKinds } from './proxy/header-kinds.js'
import { openHttpListener } from './proxy/http-listener.js'
import { Metrics } from './proxy/metrics.js'
import { Pipeline } from './proxy/pipeline.js'
import { Upstreams } from './proxy/upstreams.js'
import { policyCheck } from './resources/policy-check.js'
import { resources } from './resources/registry.js'
import type { UnitProblems } from './snapshot/compile.js'
import { SnapshotHolder } from './snapshot/holder.js'
import { KeptState } from './snapshot/kept-state.js'
import { Snapshot } from './snapshot/snapshot.js'
import { openStore } from './store/open-store.js'

export interface AppDependencies {
  readonly log: Logger
  readonly clock: Clock
  /** The administrator's key of the environment, if there is one. */
  readonly apiKey: string | undefined
  /** The sealing key of the environment, if there is one. */
  readonly sealKey: string | undefined
}

export interface Started {
  readonly traffic: { readonly host: string; readonly port: number }
  readonly api: { readonly host: string; readonly port: number }
  readonly revision: number
  readonly warnings: readonly UnitProblems[]
  /** The API key that was made because there was none. Shown once, kept nowhere. */
  readonly createdKey?: string
}

/** The configuration at the start is refused: the problems say where and why. */
export class ConfigurationRefused extends CodedError {
  readonly problems: readonly UnitProblems[]

  constructor(problems: readonly UnitProblems[]) {
    super('POLICY_REFUSED', 'the traffic policy has errors')
    this.problems = problems
  }
}

/** What carries traffic: the client side and the upstream side. */
const ENGINES = {
  'http-proxy': { front: httpFront, back: httpProxyBack },
  codec: { front: codecFront, back: codecBack }
} as const

/** How often the limiter looks for buckets that have become empty, and for how long. Milliseconds. */
const SWEEP = { every: 250, atMost: 1 }
const PRESSURE_EVERY = 60_000
/** How often a process tells the others on its store how far it is. Milliseconds. */
const REPORT_EVERY = 1_000

/**
 * The composition root: the only file that knows every folder. Each App is complete in itself; two in one process share
 * nothing.
 */
export class App {
  readonly #options: Options
  readonly #dependencies: AppDependencies
  readonly #holder = new SnapshotHolder(Snapshot.empty())
  readonly #metrics = new Metrics()
  readonly #upstreams = new Upstreams()
  readonly #kinds = new HeaderKinds()
  readonly #back: Back
  readonly #limiter: LimiterTable
  #control: ControlPlane | undefined
  #listening: Listening | undefined
  #api: ApiServer | undefined
  #apiUrl = ''
  #readiness: Readiness = 'starting'
  #folded = 0
  readonly #timers: NodeJS.Timeout[] = []

  constructor(options: Options, dependencies: AppDependencies) {
    this.#options = options
    this.#dependencies = dependencies
    const { clock } = dependencies
    this.#back = ENGINES[options.engine].back({ clock })
    this.#limiter = new LimiterTable({ budgetBytes: options.limiter.budget, clock })
  }

  /**
   * First snapshot (of the store and of the files), then traffic, then the API. Rejects with `ConfigurationRefused`, with a CodedError
   * (`FILE_UNREADABLE`, `API_KEY_INVALID`, `STORE_LOCKED`, …) or with the system's error of a bind; nothing stays open then.
   */
  async start(): Promise<Started> {
    try {
      return await this.#start()
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  async #start(): Promise<Started> {
    const { clock, apiKey, log } = this.#dependencies
    const { data, api } = this.#options
    const { keys, created } = await openKeys(data === IN_MEMORY ? undefined : data, apiKey, clock)
    this.#control = await this.#openControl(keys)
    const applied = await this.reload()
    if (!applied.ok) throw new ConfigurationRefused(applied.problems)
    this.#observe()
    this.#listening = await this.#listen()
    this.#api = this.#createApi(keys, this.#control, log)
    const apiAddress = await this.#api.listen(api.listen)
    this.#apiUrl = api.public_url ?? reachableUrl(apiAddress)
    this.#readiness = 'ready'
    return {
      traffic: this.#listening.address,
      api: apiAddress,
      revision: applied.revision,
      warnings: applied.warnings,
      ...(created === undefined ? {} : { createdKey: created })
    }
  }

  /** Reads the files that the options name and applies them; what is wrong changes nothing. Rejects when a file cannot be read. */
  async reload(): Promise<Applied> {
    const { listen, upstream, upstream_ca, policy } = this.#options
    const units = fileUnits({
      listen,
      upstream,
      certificateAuthorities: upstream_ca === undefined ? undefined : await read(upstream_ca, 'upstream_ca'),
      policy: policy === undefined ? undefined : { source: shown(policy), text: await read(policy, 'policy') }
    })
    if (this.#control === undefined) throw new TypeError('reload before start')
    const applied = await this.#control.applyOwn(units)
    this.#metrics.configuration(applied.ok ? 'applied' : 'refused')
    return applied
  }

  /** Ends idle connections at once, busy ones when they are done, all after the drain time-out. */
  async stop(): Promise<{ ended: number; cut: number }> {
    this.#readiness = 'draining'
    const drained = (await this.#listening?.drain(this.#options.timeouts.drain)) ?? { ended: 0, cut: 0 }
    this.#back.close()
    await this.#api?.close()
    await this.#control?.close()
    for (const timer of this.#timers) clearInterval(timer)
    return drained
  }

  async #openControl(operatorKeys: ApiKeys): Promise<ControlPlane> {
    const { clock, log, sealKey } = this.#dependencies
    const { data, zone, regions, require_reserved } = this.#options
    const address = storeAddress(this.#options)
    const services = await this.#services()
    return await ControlPlane.open({
      connect: (onRevision) => openStore(address, { log, clock, onRevision }),
      resources,
      seal: await openSealer({
        given: sealKey,
        folder: data === IN_MEMORY ? undefined : data,
        lasting: address !== IN_MEMORY
      }),
      clock,
      log,
      checkPolicy: policyCheck(services, actions),
      holder: this.#holder,
      compile: { services, actions, keptState: new KeptState() },
      swapped: ({ upstreams, revision }) => {
        this.#back.retainUpstreams(this.#upstreams.retain(upstreams))
        this.#metrics.serves(revision)
      },
      operatorKeys,
      baseUrl: () => this.#apiUrl,
      zone,
      regions,
      requireReserved: require_reserved,
      ...(isShared(address) ? { reportEvery: REPORT_EVERY } : {})
    })
  }

  async #services(): Promise<PolicyServices> {
    const { clock, log } = this.#dependencies
    const { geoip, rate_limit_headers } = this.#options
    return {
      clock,
      expressions: createExpressions({
        results: resultsOf(actions),
        clock,
        random: unpredictable,
        geo: await openGeo(geoip.database),
        userAgent: new UserAgents(),
        secrets: { get: () => undefined }
      }),
      limiter: this.#limiter,
      meter: this.#metrics.policy,
      log,
      rateLimitHeaders: rate_limit_headers
    }
  }

  #observe(): void {
    this.#metrics.observeProcess()
    this.#metrics.observeLimiter(() => this.#limiter.statistics())
    this.#timers.push(
      setInterval(() => this.#limiter.sweep(SWEEP.atMost), SWEEP.every).unref(),
      setInterval(() => this.#reportPressure(), PRESSURE_EVERY).unref()
    )
  }

  /** While the limiter's memory is full, keys share estimates and may be refused early: the operator has to know. */
  #reportPressure(): void {
    const { folded, sketchDecisions, sketchRefusals, buckets, bytesReserved } = this.#limiter.statistics()
    if (folded + sketchDecisions === this.#folded) return
    this.#folded = folded + sketchDecisions
    this.#dependencies.log.warn(
      { folded, sketchDecisions, sketchRefusals, buckets, bytesReserved },
      'the memory of the rate limiter is full: buckets are folded and clients may be refused early; raise limiter.budget'
    )
  }

  async #listen(): Promise<Listening> {
    const { clock, log } = this.#dependencies
    const { timeouts, limits, access_log, access_log_sample, region, trusted_proxies } = this.#options
    // The access log has a switch of its own, so the level of the other log does not silence it.
    const lines = log.child({}, { level: 'info' })
    const pipeline = new Pipeline({
      holder: this.#holder,
      admission: new Admission(this.#kinds, new Forwarding(trustedSet(trusted_proxies)), clock),
      forwarder: new Forwarder({
        back: this.#back,
        upstreams: this.#upstreams,
        kinds: this.#kinds,
        clock,
        metrics: this.#metrics,
        timeouts: { connect: timeouts.connect, response: timeouts.response, idle: timeouts.idle },
        log
      }),
      clock,
      metrics: this.#metrics,
      accessLog: access_log ? new AccessLog(lines, access_log_sample) : undefined,
      log
    })
    const unit = this.#holder.current().plan.units.get('listener:default') as ListenerUnit
    return openHttpListener(unit, {
      front: ENGINES[this.#options.engine].front({ clock }),
      pipeline,
      holder: this.#holder,
      metrics: this.#metrics,
      log: lines,
      logRefused: access_log,
      region,
      limits: {
        headerBytes: limits.header_bytes,
        headers: limits.headers,
        targetBytes: limits.target_bytes,
        connections: limits.connections,
        headTimeout: timeouts.headers,
        bodyIdle: timeouts.request_body,
        keepAlive: timeouts.keep_alive
      }
    })
  }

  #createApi(keys: ApiKeys, control: ControlPlane, log: Logger): ApiServer {
    const { api, metrics } = this.#options
    const hosts = [api.listen.host, ...api.allowed_hosts]
    if (api.public_url !== undefined) hosts.push(new URL(api.public_url).hostname)
    return createApi({
      keys,
      hosts,
      clock: this.#dependencies.clock,
      readiness: () => (this.#readiness === 'ready' && control.lastError !== null ? 'degraded' : this.#readiness),
      account: { control, resources, baseUrl: () => this.#apiUrl, version: packageVersion() },
      rate: api.rate_limit,
      corsOrigins: api.cors_origins,
      metrics: metrics ? () => this.#metrics.registry.metrics() : undefined,
      fault: (error, operationId) => log.error({ err: error, operation_id: operationId }, 'the API failed')
    })
  }
}

function storeAddress({ store, data }: Options): string {
  return store ?? (data === IN_MEMORY ? IN_MEMORY : join(data, 'sluice.db'))
}

/** May other processes have the same store open? */
function isShared(address: string): boolean {
  return /^postgres(ql)?:/i.test(address)
}

const RANDOM_RANGE = 2 ** 48 - 1

/** In [0, 1); a client that has seen many of them cannot tell the next. */
function unpredictable(): number {
  return randomInt(RANDOM_RANGE) / RANDOM_RANGE
}

function trustedSet(networks: readonly string[]): CidrSet | undefined {
  if (networks.length === 0) return undefined
  return new CidrSet(networks.flatMap((network) => parseCidr(network) ?? []))
}

async function read(path: string, option: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw new CodedError('FILE_UNREADABLE', `${option}: cannot read ${path}`, { cause: error })
  }
}

/** Paths below the working directory are shown relative to it. */
function shown(path: string): string {
  const near = relative(process.cwd(), path)
  return near.startsWith('..') ? path : near
}
