import { imaginedConnection, imaginedHead } from '../../src/capabilities/explain/imagined-exchange.js'
import { labExpressions, labServices } from '../../src/capabilities/explain/running-lab.js'
import { fileUnits } from '../../src/control/file-units.js'
import { LimiterTable } from '../../src/features/rate-limit/limiter/table.js'
import { actions } from '../../src/features/registry.js'
import { noGeo } from '../../src/lib/geo.js'
import { Admission } from '../../src/proxy/admission.js'
import { trustingProxies } from '../../src/proxy/client-address.js'
import type { Forwards } from '../../src/proxy/forwarder.js'
import { HeaderKinds } from '../../src/proxy/header-sanitizing.js'
import { InternalExchange } from '../../src/proxy/internal-exchange.js'
import { Observers } from '../../src/proxy/observers.js'
import { Pipeline } from '../../src/proxy/pipeline.js'
import { AddressFilter } from '../../src/runtime/address-filter.js'
import { prepare } from '../../src/runtime/compile.js'
import { PersistentState } from '../../src/runtime/persistent-state.js'
import { Snapshot, SnapshotHolder } from '../../src/runtime/snapshot.js'
import { TrafficEventSource } from '../../src/telemetry/event-fields.js'
import { Metrics } from '../../src/telemetry/metrics.js'
import { ManualClock } from './clock.js'

const nothing = () => undefined
export const SILENT = { info: nothing, warn: nothing, error: nothing }

/** The pipeline of the product with one policy, upstreams as `forward` has them, and a time of its own. */
export function pipelineWith(
  text: string,
  forward: Forwards['forward'],
  log: { error(fields: object): void } = SILENT
) {
  const clock = new ManualClock()
  const observers = new Observers()
  const limiter = new LimiterTable({ budgetBytes: 4 * 1024 * 1024, clock })
  const metrics = new Metrics()
  const holder = new SnapshotHolder(Snapshot.empty())
  const services = labServices(
    { internal: { request: () => Promise.reject(new Error('no policy asks')) } },
    {
      clock,
      expressions: labExpressions(clock, noGeo, Math.random),
      rateLimitHeaders: 'none',
      limits: limiter,
      outside: nothing
    }
  )
  const state = new PersistentState()
  const compiled = (text: string) => {
    const units = fileUnits({
      listen: { host: '127.0.0.1', port: 80 },
      listeners: [],
      path_form: 'strict',
      edges_on_http: 'serve',
      hsts: undefined,
      upstream: { protocol: 'http', host: 'upstream.invalid', port: 80 },
      certificateAuthorities: undefined,
      policy: { source: 'policy.yaml', text }
    })
    const running = holder.current()
    const change = { from: running.plan.number, to: running.plan.number + 1, put: [...units], drop: [] }
    const prepared = prepare(running, change, new Map(), { services, actions, persistentState: state })
    if (!prepared.ok) throw new Error(JSON.stringify(prepared.problems))
    prepared.commit()
    return prepared.snapshot
  }
  holder.swap(compiled(text))
  const pipeline = new Pipeline({
    holder,
    admission: new Admission({
      kinds: new HeaderKinds(),
      forwarding: trustingProxies(undefined),
      clock,
      endpoints: new AddressFilter('endpoints', { log: SILENT }),
      tls: { misdirected: () => false }
    }),
    forwarder: { forward },
    observers,
    clock,
    metrics,
    challenge: nothing,
    listenerPort: nothing,
    accessLog: undefined,
    events: new TrafficEventSource({ wants: () => false, put: nothing }),
    log
  })
  const entry = { id: 'default', protocol: 'http', host: '127.0.0.1', port: 80, region: '' } as const
  const send = (path: string, clientAddress = '192.0.2.1', method = 'GET') => {
    const url = new URL(`http://shop.test${path}`)
    const asked = { method, url, headers: [], version: '1.1', clientAddress, clientPort: 1 } as const
    const exchange = new InternalExchange(
      imaginedConnection(asked, entry, clock.wall()),
      imaginedHead(asked),
      undefined,
      1_024,
      clock
    )
    return { exchange, served: pipeline.serveToEnd(exchange, entry, undefined) }
  }
  return { clock, observers, limiter, metrics, holder, compiled, send }
}
