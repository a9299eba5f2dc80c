import { pino } from 'pino'
import type { Expressions } from '../src/expression/expression.js'
import { createExpressions } from '../src/expression/expressions.js'
import type { ConnectionFacts } from '../src/flow/exchange.js'
import { Flow, type FlowRequest } from '../src/flow/flow.js'
import { HeaderFields } from '../src/flow/headers.js'
import { RequestTarget } from '../src/flow/target.js'
import { systemClock } from '../src/lib/clock.js'
import { CidrSet, parseCidr } from '../src/lib/ip.js'
import { CompiledPhase } from '../src/policy/run.js'
import { Metrics } from '../src/telemetry/metrics.js'
import type { MicroResult } from './timing.js'

/** What a rule says, beside the closure that one would write by hand for it. */
type Row = readonly [source: string, byHand: (flow: Flow) => unknown]

const LISTED = new Set(['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4', '192.0.2.5'])
const NETWORK = networks('198.51.100.0/24')
const NETWORKS = networks('10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '203.0.113.0/24', '2001:db8::/32')
const PRIVATE = networks('10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16')
const DEADLINE = Date.UTC(2030, 0, 1)
const API = /^\/api\/v[0-9]+\//
const BOT = /bot|crawler|spider/i
const headersOf = (flow: Flow) => (flow.request as FlowRequest).headers.byName

const ROWS: readonly Row[] = [
  ["req.method == 'POST'", ({ request }) => request?.method === 'POST'],
  [
    "req.method == 'POST' && req.url.path.startsWith('/api/')",
    ({ request }) => request?.method === 'POST' && request.target.path.startsWith('/api/')
  ],
  ["req.method in ['GET', 'HEAD']", ({ request }) => request?.method === 'GET' || request?.method === 'HEAD'],
  ["!req.url.path.endsWith('.html')", ({ request }) => request?.target.path.endsWith('.html') === false],
  ["req.url.path.contains('/v1/')", ({ request }) => request?.target.path.includes('/v1/')],
  ["req.url.path.matches('^/api/v[0-9]+/')", ({ request }) => API.test(request?.target.path as string)],
  [
    "req.headers['user-agent'][0].matches('(?i)bot|crawler|spider')",
    (flow) => BOT.test(headersOf(flow).get('user-agent')?.[0] as string)
  ],
  [
    "conn.client_ip in ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4', '192.0.2.5']",
    ({ clientAddress }) => LISTED.has(clientAddress)
  ],
  ["inCidrRange(conn.client_ip, '198.51.100.0/24')", (flow) => NETWORK.match(flow.clientAddress) !== undefined],
  [
    "inCidrRanges(conn.client_ip, ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '203.0.113.0/24', '2001:db8::/32'])",
    (flow) => NETWORKS.match(flow.clientAddress) !== undefined
  ],
  ['isPrivateIp(conn.client_ip)', (flow) => PRIVATE.match(flow.clientAddress) !== undefined],
  ["'x-api-key' in req.headers", (flow) => headersOf(flow).has('x-api-key')],
  ["hasReqHeader('X-Api-Key')", (flow) => headersOf(flow).has('x-api-key')],
  ["req.headers['x-user'][0] == 'bob'", (flow) => headersOf(flow).get('x-user')?.[0] === 'bob'],
  ["getReqHeader('x-user')[0] == 'bob'", (flow) => headersOf(flow).get('x-user')?.[0] === 'bob'],
  [
    "req.headers['authorization'][0] == 'x' || req.method == 'POST'",
    (flow) => headersOf(flow).get('authorization')?.[0] === 'x' || flow.request?.method === 'POST'
  ],
  [
    "req.headers['x-user'][0].lowerAscii() == 'bob'",
    (flow) => headersOf(flow).get('x-user')?.[0]?.toLowerCase() === 'bob'
  ],
  [
    "req.headers.exists(h, h.startsWith('x-'))",
    (flow) => {
      for (const name of headersOf(flow).keys()) if (name.startsWith('x-')) return true
      return false
    }
  ],
  ['size(req.headers) > 20', (flow) => headersOf(flow).size > 20],
  [
    'req.content_length > 1000000',
    ({ request }) => request?.body instanceof Uint8Array && request.body.length > 1_000_000
  ],
  ["req.url.query_params['page'][0] == '2'", ({ request }) => request?.target.parameters.get('page')?.[0] === '2'],
  [
    "int(req.url.query_params['page'][0]) > 1",
    ({ request }) => Number(request?.target.parameters.get('page')?.[0]) > 1
  ],
  ["timestamp(time.now) < timestamp('2030-01-01T00:00:00Z')", () => Date.now() < DEADLINE],
  ['type(req.method) == string', ({ request }) => typeof request?.method === 'string'],
  [
    "conn.client_ip + ':' + req.method + ':' + req.url.path",
    ({ clientAddress, request }) => `${clientAddress}:${request?.method}:${request?.target.path}`
  ],
  [
    "req.method == 'GET' ? req.url.path == '/' : conn.client_port > 1024",
    ({ clientPort, request }) => (request?.method === 'GET' ? request.target.path === '/' : clientPort > 1024)
  ]
]

/** Nanoseconds of each expression beside a closure by hand; the last lines are the geometric mean, and whole rules. */
export function expressionMicro(): MicroResult[] {
  const expressions = createExpressions({ results: {}, clock: systemClock, random: Math.random })
  const flow = sampleFlow()
  const ratios: number[] = []
  const lines = ROWS.map(([source, byHand]): MicroResult => {
    const compiled = expressions.expression(source, 'on_http_request')
    if (!compiled.ok) throw new Error(`Does not compile: ${source}`)
    if (compiled.value.evaluate(flow) !== byHand(flow)) throw new Error(`Not what the closure gives: ${source}`)
    const expression = compiled.value
    const [ours, hand] = beside(
      () => expression.outcome(flow),
      () => byHand(flow)
    )
    ratios.push(ours / hand)
    return { name: source, nanoseconds: ours, note: `${(ours / hand).toFixed(1)} × ${hand.toFixed(1)} ns by hand` }
  })
  const mean = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length)
  const worst = Math.max(...ratios)
  return [
    ...lines,
    { name: 'all', nanoseconds: 0, note: `geometric mean ${mean.toFixed(2)} ×, largest ${worst.toFixed(1)} ×` },
    ...ruleMicro(expressions, flow)
  ]
}

/** A rule that does not match, and one that misses a value: a client chooses which of the two a request meets. */
function ruleMicro(expressions: Expressions, flow: Flow): MicroResult[] {
  const unmatched = phaseOf(expressions, "req.headers['x-user'][0] == 'alice'")
  const absent = phaseOf(expressions, "req.headers['authorization'][0] == 'alice'")
  const [without, missing] = beside(
    () => unmatched.run(flow),
    () => absent.run(flow)
  )
  return [
    { name: 'a rule that does not match', nanoseconds: without },
    {
      name: 'a rule that misses a value',
      nanoseconds: missing,
      note: `${(missing - without).toFixed(0)} ns more than one that does not match`
    }
  ]
}

function phaseOf(expressions: Expressions, source: string): CompiledPhase {
  const compiled = expressions.expression(source, 'on_http_request')
  if (!compiled.ok) throw new Error(`Does not compile: ${source}`)
  const phase = 'on_http_request'
  const { policy } = new Metrics()
  const rule = {
    name: '#0',
    place: { line: 1, column: 1 },
    places: [{ line: 1, column: 1 }],
    expressions: [compiled.value],
    actions: [],
    matched: policy.matched('bench', phase, '#0'),
    absent: policy.failed('bench', phase, '#0', 'absent'),
    failed: policy.failed('bench', phase, '#0', 'failed'),
    failedBy: { phase, rule: '#0', action: 'expression' }
  } as const
  return new CompiledPhase({ phase, owner: 'bench', rules: [rule], strict: false, log: pino({ level: 'info' }) })
}

/** Nanoseconds of one call of each: the medians of eleven rounds in turns, so that a change of the machine hits both. */
function beside(one: () => unknown, other: () => unknown): [number, number] {
  const times: [number[], number[]] = [[], []]
  for (let i = 0; i < 12; i++) {
    const ours = round(one)
    const theirs = round(other)
    if (i === 0) continue
    times[0].push(ours)
    times[1].push(theirs)
  }
  return [median(times[0]), median(times[1])]
}

function round(run: () => unknown): number {
  const times = 50_000
  const from = process.hrtime.bigint()
  let last: unknown
  for (let i = 0; i < times; i++) last = run()
  const took = Number(process.hrtime.bigint() - from) / times
  // Else the call could be left out, as its result would be of no use.
  if (last === round) throw new Error('No expression gives this')
  return took
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1] as number
}

function networks(...texts: string[]): CidrSet {
  return new CidrSet(texts.flatMap((text) => parseCidr(text) ?? []))
}

function sampleFlow(): Flow {
  const connection: ConnectionFacts = {
    id: 1,
    listener: 'bench',
    peer: { address: '198.51.100.7', port: 40_000 },
    local: { address: '127.0.0.1', port: 8080 },
    startedAt: 0,
    bytesIn: 0,
    bytesOut: 0
  }
  const entry = { id: 'bench', protocol: 'http', host: 'bench.example', port: 8080, region: '' } as const
  const flow = new Flow(connection, entry, '198.51.100.7', 40_000)
  const target = '/api/v1/items?page=2'
  const headers = ['Host', 'bench.example', 'Accept', '*/*', 'X-User', 'bob', 'X-Api-Key', 'k', 'User-Agent', 'curl/8']
  const parsed = RequestTarget.fromRequestLine('POST', target, 'bench.example', 'http')
  if (parsed === undefined) throw new Error('The sample target is malformed')
  flow.request = {
    head: { method: 'POST', target, authority: 'bench.example', scheme: 'http', version: '1.1', headers },
    version: '1.1',
    scheme: 'http',
    authority: 'bench.example',
    method: 'POST',
    target: parsed,
    headers: new HeaderFields(headers),
    body: new Uint8Array(512),
    pathForm: 'strict',
    receivedAt: 0
  }
  return flow
}
