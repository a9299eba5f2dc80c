import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { encodingOf } from '../src/capabilities/traces/otlp/encoding.js'
import { TRACES } from '../src/capabilities/traces/otlp/messages.js'
import { Sampler, type SamplerSettings } from '../src/capabilities/traces/sampler.js'
import { spansOf } from '../src/capabilities/traces/spans.js'
import type { TracedExchange } from '../src/capabilities/traces/traced-exchange.js'
import { Tracer } from '../src/capabilities/traces/tracer.js'
import type { ConnectionFacts, Exchange } from '../src/flow/exchange.js'
import { Flow, type FlowRequest } from '../src/flow/flow.js'
import { HeaderFields } from '../src/flow/headers.js'
import { RequestTarget } from '../src/flow/target.js'
import { systemClock } from '../src/lib/clock.js'
import type { ExchangeRecord } from '../src/telemetry/access-log.js'
import { type MicroResult, timed } from './timing.js'

const PEER = { address: '192.0.2.1', port: 40_000 }
const FIELDS = ['Host', 'app.example', 'User-Agent', 'bench/1', 'Accept', '*/*', 'X-Forwarded-For', '192.0.2.1']
const UNSAMPLED = ['traceparent', '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00']

const connection = {
  id: 1,
  listener: 'listen',
  peer: PEER,
  local: { address: '192.0.2.2', port: 80 },
  startedAt: 0,
  bytesIn: 0,
  bytesOut: 0
} satisfies ConnectionFacts

const head = {
  method: 'GET',
  target: '/a/b?c=d',
  authority: 'app.example',
  scheme: 'http',
  version: '1.1',
  headers: FIELDS
} as const
const entry = { id: 'listen', protocol: 'http', host: 'app.example', port: 80, region: '' } as const
const sent = { bytesIn: 100, bytesOut: 200, firstByteAt: 1, endedAt: 2 }
const tried = {
  at: 2,
  backend: 'bkds_1',
  name: 'shop',
  server: 'http://127.0.0.1:3000',
  status: 200,
  failure: undefined
}
const route = { edge: 'edge', id: 'route', path: '/a', match: 'prefix' } as const

function makeFlow(fields: readonly string[]): Flow & { readonly request: FlowRequest } {
  const flow = new Flow(connection, entry, PEER.address, PEER.port)
  flow.request = {
    head,
    version: '1.1',
    scheme: 'http',
    authority: 'app.example',
    method: 'GET',
    target: RequestTarget.fromRequestLine(head.method, head.target, head.authority, head.scheme) as RequestTarget,
    pathForm: 'strict',
    headers: new HeaderFields(fields),
    body: new Uint8Array(0),
    receivedAt: 0
  }
  return flow as Flow & { readonly request: FlowRequest }
}

/** The whole of what an exchange pays: its beginning, one try, its end. The same without a tracer is taken off. */
function exchange(
  settings: SamplerSettings,
  fields: readonly string[],
  take: (traced: TracedExchange) => void
): number {
  const sampler = new Sampler(settings)
  const tracer = new Tracer({ clock: systemClock, sampler, propagates: true, buckets: true, take })
  const request = head as unknown as Exchange['request']
  const run = (traced: boolean) => {
    const flow = made[at++ & MASK] as ReturnType<typeof makeFlow>
    flow.request.headers = new HeaderFields(fields)
    flow.explainer = undefined
    const id = flow.requestId
    flow.trace = traced ? tracer.begins(flow, 1) : undefined
    flow.trace?.sends(flow.request.headers, 1)
    // As the forwarder does, with or without a trace.
    flow.request.headers.append('x-request-id', id)
    flow.trace?.answered(tried)
    const record: ExchangeRecord = {
      connection,
      request,
      flow,
      route,
      site: undefined,
      routeName: undefined,
      revision: 1,
      status: 200,
      code: undefined,
      sent,
      duration: 3,
      upstreamDuration: 1,
      reusedConnection: true,
      tries: undefined
    }
    if (traced) tracer.ended(record, 1)
    return id.length
  }
  const made = Array.from({ length: MASK + 1 }, () => makeFlow(fields))
  let at = 0
  const without = timed(CALLS, () => run(false))
  return timed(CALLS, () => run(true)) - without
}

const MASK = 1_023
const CALLS = 200_000

interface Case {
  readonly settings: SamplerSettings
  readonly fields: readonly string[]
}

/** What an exchange pays in a thread of its own: a process has one sampler, and code that has run with several is slower. */
async function alone(one: Case): Promise<number> {
  const worker = new Worker(new URL(import.meta.url), { workerData: one })
  try {
    return await new Promise<number>((resolve, reject) => worker.once('message', resolve).once('error', reject))
  } finally {
    await worker.terminate()
  }
}

/** What traces cost an exchange, and what its spans cost beside it. */
export async function tracesMicro(): Promise<MicroResult[]> {
  const off = { sampler: 'always_off', ratio: 0 } as const
  const parent = { sampler: 'parentbased_always_on', ratio: 1 } as const
  const ratio = { sampler: 'traceidratio', ratio: 0.000_001 } as const
  const on = { sampler: 'always_on', ratio: 1 } as const
  let last: TracedExchange | undefined
  const sampled = exchange(on, FIELDS, (traced) => {
    last = traced
  })
  const withParent = [...FIELDS, ...UNSAMPLED]
  const results: MicroResult[] = [
    { name: 'not sampled, the trace begins here', nanoseconds: await alone({ settings: off, fields: FIELDS }) },
    { name: 'not sampled by ratio', nanoseconds: await alone({ settings: ratio, fields: FIELDS }) },
    { name: 'not sampled, as the parent says', nanoseconds: await alone({ settings: parent, fields: withParent }) },
    { name: 'sampled, with one try', nanoseconds: sampled }
  ]
  const traced = last as unknown as TracedExchange
  for (const protocol of ['http/protobuf', 'http/json'] as const) {
    const encoding = encodingOf(protocol, TRACES, { attributes: [], version: '' })
    const nanoseconds = timed(20_000, () => {
      for (const span of spansOf(traced)) encoding.item(span)
    })
    results.push({ name: `its two spans as ${protocol}, beside traffic`, nanoseconds })
  }
  return results
}

if (!isMainThread) {
  const { settings, fields } = workerData as Case
  parentPort?.postMessage(exchange(settings, fields, () => undefined))
}
