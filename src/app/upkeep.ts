import type { ControlPlane } from '../control/control-plane.js'
import type { Login } from '../features/login/service.js'
import { isShared, storeAddress } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import type { PolicyServices } from '../policy/services.js'
import { backendOf } from '../proxy/unit-servers.js'
import type { UnitNames } from '../runtime/names.js'
import {
  type NameResolution,
  observeAgents,
  observeDeliveries,
  observeLog,
  observeRestrictions,
  observeStore,
  observeUpstreamNames,
  observeUpstreams
} from '../telemetry/observed-metrics.js'
import type { DataPlane } from './data-plane.js'
import type { Foundation } from './foundation.js'
import type { OpenedParts } from './opened-parts.js'
import { AGENT_NUMBERS, EVENT_DELIVERY, TRAFFIC_CARRIERS } from './ports.js'
import type { StartingStore } from './store-copy.js'
import { byName, together, upstreamStates } from './upstream-states.js'

/** Interval and maximum duration of the limiter's search for empty buckets (ms). */
const SWEEP = { every: 250, atMost: 1 }
/** Interval of log lines about memory pressure of the limiter (ms). */
const PRESSURE_EVERY = 60_000
/** Interval of forgetting keys that are no longer rejected (ms). */
const REFUSED_EVERY = 30_000
/** Interval of pruning old revisions (ms). */
const FORGET_EVERY = 60_000
/** Interval of reading sessions that other processes on the store have ended (ms). */
const ENDED_EVERY = 500

interface UpkeepStage {
  readonly services: PolicyServices
  readonly opened: OpenedParts
  readonly login: Login
  readonly control: ControlPlane
  readonly store: StartingStore
  readonly dataPlane: Pick<DataPlane, 'upstreams'>
}

/** Starts the periodic tasks, and registers metrics that are read from the parts on demand. */
export function beginUpkeep(options: Options, foundation: Foundation, stage: UpkeepStage): void {
  const { metrics, output, limiter, refusedKeys, clock, lifecycle, holder } = foundation
  const { services, opened, login, control, store, dataPlane } = stage
  const [agents, events] = [opened.find(AGENT_NUMBERS), opened.find(EVENT_DELIVERY)]
  const { registry } = metrics
  metrics.observeProcess()
  metrics.observe(services)
  observeStore(registry, () => control.configuration.divergences)
  observeLog(registry, () => output?.dropped ?? 0)
  observeUpstreams(registry, () =>
    byName(together(upstreamStates(dataPlane), opened.find(TRAFFIC_CARRIERS)?.upstreams() ?? []), holder.names)
  )
  observeUpstreamNames(registry, () => upstreamNames(dataPlane, holder.names))
  if (agents !== undefined) observeAgents(registry, () => agents.statistics)
  const restricted = () => (agents === undefined ? {} : { agent: agents.addressCounts })
  observeRestrictions(registry, () => ({ ...restricted(), ...control.access.addressCounts }))
  if (events !== undefined) observeDeliveries(registry, () => events.counts())
  const followsEnded = isShared(storeAddress(options)) || store.degraded !== null
  const timers = [
    ...(followsEnded ? [every(ENDED_EVERY, () => void login.ended.follow().catch(() => undefined))] : []),
    every(SWEEP.every, () => limiter.sweep(SWEEP.atMost)),
    every(PRESSURE_EVERY, pressureReport(foundation)),
    every(REFUSED_EVERY, () => refusedKeys?.sweep(clock.monotonic())),
    every(FORGET_EVERY, () => void forgetHistory(options, foundation, stage))
  ]
  lifecycle.opens('timers', {
    begin() {
      for (const timer of timers) clearInterval(timer)
    }
  })
}

/** Yields each backend or option with host names, and whether they resolve: all of those of one backend. */
function upstreamNames({ upstreams }: UpkeepStage['dataPlane'], names: UnitNames): Iterable<NameResolution> {
  const found = new Map<string, NameResolution>()
  for (const [key, { state }] of upstreams.servers.names()) {
    if (state === 'unknown') continue
    const id = backendOf(key)
    const backend = names.backendOf(id) ?? id
    found.set(backend, { backend, resolved: state === 'resolved' && found.get(backend)?.resolved !== false })
  }
  return found.values()
}

function every(milliseconds: number, work: () => void): NodeJS.Timeout {
  return setInterval(work, milliseconds).unref()
}

/** A store that cannot be reached keeps its history, and logouts that are past, a while longer. */
async function forgetHistory(options: Options, { log }: Foundation, { control, login }: UpkeepStage): Promise<void> {
  try {
    await control.revisions.forget(options.history)
    await login.visitors.flush()
    await login.ended.forget()
    await login.keeper.forget()
  } catch (error) {
    log.warn({ err: error }, 'what is past could not be forgotten')
  }
}

/** While the limiter's memory is full, keys share estimates and may be refused early: the operator has to know. */
function pressureReport({ limiter, log }: Foundation): () => void {
  let reported = 0
  return () => {
    const { folded, sketchDecisions, sketchRefusals, buckets, bytesReserved } = limiter.statistics()
    if (folded + sketchDecisions === reported) return
    reported = folded + sketchDecisions
    log.warn(
      { folded, sketchDecisions, sketchRefusals, buckets, bytesReserved },
      'the memory of the rate limiter is full: buckets are folded and clients may be refused early; raise limiter.budget'
    )
  }
}
