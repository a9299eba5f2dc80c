import type { Expression } from '../src/expression/expression.js'
import { createExpressions } from '../src/expression/expressions.js'
import type { ConnectionFacts } from '../src/flow/exchange.js'
import { Flow } from '../src/flow/flow.js'
import { HeaderFields } from '../src/flow/headers.js'
import { RequestTarget } from '../src/flow/target.js'
import { systemClock } from '../src/lib/clock.js'

/** Rules as policies write them; each is measured alone. */
const RULES = [
  "req.method == 'POST'",
  "req.method == 'POST' && req.url.path.startsWith('/api/')",
  "req.url.path.matches('^/api/v[0-9]+/')",
  "conn.client_ip in ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4', '192.0.2.5']",
  "'x-api-key' in req.headers",
  "req.headers['x-user'][0] == 'bob'",
  "getReqHeader('x-user')[0] == 'bob'",
  "req.headers['authorization'][0] == 'x' || req.method == 'POST'",
  "req.headers.exists(h, h.startsWith('x-'))",
  'req.content_length > 1000000',
  "req.url.query_params['page'][0] == '2'",
  "inCidrRange(conn.client_ip, '198.51.100.0/24')",
  "conn.client_ip + ':' + req.method + ':' + req.url.path"
] as const

/** Nanoseconds per evaluation of each rule: the median of seven rounds. */
export function expressionMicro(): { name: string; nanoseconds: number }[] {
  const expressions = createExpressions({
    results: {},
    clock: systemClock,
    random: Math.random
  })
  const flow = sampleFlow()
  return RULES.map((source) => {
    const compiled = expressions.expression(source, 'on_http_request')
    if (!compiled.ok) throw new Error(`Does not compile: ${source}`)
    return { name: source, nanoseconds: median(Array.from({ length: 7 }, () => round(compiled.value, flow))) }
  })
}

function round(expression: Expression, flow: Flow): number {
  const times = 50_000
  const from = process.hrtime.bigint()
  for (let i = 0; i < times; i++) expression.evaluate(flow)
  return Number(process.hrtime.bigint() - from) / times
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1] as number
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
    method: 'POST',
    target: parsed,
    headers: new HeaderFields(headers),
    body: new Uint8Array(512),
    pathForm: 'strict',
    receivedAt: 0
  }
  return flow
}
