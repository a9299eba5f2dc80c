import type { Expression, Expressions } from '../../src/expression/expression.js'
import { createExpressions, type ExpressionSources } from '../../src/expression/expressions.js'
import type { ConnectionFacts } from '../../src/flow/exchange.js'
import { type EntryFacts, Flow, NO_UNITS } from '../../src/flow/flow.js'
import { HeaderFields, type HeaderList } from '../../src/flow/headers.js'
import { RequestTarget } from '../../src/flow/target.js'

export const START = Date.UTC(2026, 10, 20, 12, 30, 15)

export interface FlowOptions {
  readonly method?: string
  readonly target?: string
  readonly host?: string
  readonly headers?: HeaderList
  readonly body?: Uint8Array
  readonly client?: string
  readonly connection?: Partial<ConnectionFacts>
  readonly entry?: Partial<EntryFacts>
  readonly response?: { readonly status?: number; readonly headers?: HeaderList; readonly body?: Uint8Array }
}

/** A flow with a request and, when asked for, a response. */
export function sampleFlow(options: FlowOptions = {}): Flow {
  const { method = 'GET', target = '/', host = 'app.test', headers = [], body = new Uint8Array() } = options
  const connection: ConnectionFacts = {
    id: 1,
    listener: 'public',
    peer: { address: '198.51.100.7', port: 40_001 },
    local: { address: '192.0.2.10', port: 8443 },
    startedAt: START,
    bytesIn: 120,
    bytesOut: 30,
    ...options.connection
  }
  const entry: EntryFacts = {
    id: 'edge_1',
    protocol: 'https',
    host: 'app.test',
    port: 443,
    region: 'eu',
    ...options.entry
  }
  const flow = new Flow(connection, entry, options.client ?? '198.51.100.7', 40_001)
  flow.units = { ...NO_UNITS, secret: (vault, name) => (vault === 'main' && name === 'key' ? 's3cret' : undefined) }
  const parsed = RequestTarget.fromRequestLine(method, target, host, 'https')
  if (parsed === undefined) throw new Error(`Malformed target ${target}`)
  const list = ['Host', host, ...headers]
  flow.request = {
    head: { method, target, authority: host, scheme: 'https', version: '1.1', headers: list },
    version: '1.1',
    scheme: 'https',
    authority: parsed.authority,
    method,
    target: parsed,
    headers: new HeaderFields(list),
    body,
    pathForm: 'strict',
    receivedAt: START + 5
  }
  if (options.response !== undefined) {
    const { status = 200, headers: own = [], body: bytes } = options.response
    flow.response = {
      status,
      reason: '',
      headers: new HeaderFields([...own]),
      body: bytes,
      local: false,
      transforms: [],
      trailers: undefined
    }
  }
  return flow
}

/** The documented language with a clock that stands still. */
export function sampleExpressions(sources: Partial<ExpressionSources> = {}) {
  return createExpressions({
    results: {
      rate_limit: { limited: 'bool', bucket_key: 'string', remaining: 'int', 'error.code': 'string' },
      basic_auth: { 'credentials.presented': 'bool', 'credentials.username': 'string' },
      http_request: { res: 'dyn' }
    },
    clock: { wall: () => START, monotonic: () => 0 },
    random: () => 0.5,
    ...sources
  })
}

/** A text or a whole number of the language. */
const CONSTANT = /(?<!\w)'(?:[^'\\]|\\.)*'|(?<![\w.'"])\d+(?![\w.'"])/g

/**
 * Compiles an expression. Constants that fail for every exchange are refused when they are written; so that tests can see
 * them fail when they run, the constants of such an expression come from variables.
 */
export function compileSample(expressions: Expressions, source: string): Expression {
  const result = expressions.expression(source, 'on_http_request')
  if (result.ok) return result.value
  if (!result.problems.every(({ code }) => code === 'EXPRESSION_FAILS'))
    throw new Error(`${source}: ${result.problems.map(({ message }) => message).join()}`)
  const vars = new Map<string, unknown>()
  const moved = source.replace(CONSTANT, (constant) => {
    const compiled = expressions.expression(`[${constant}][0]`, 'on_http_request')
    const name = `c${vars.size}`
    vars.set(name, compiled.ok ? compiled.value.evaluate(sampleFlow()) : undefined)
    return `vars.${name}`
  })
  const again = expressions.expression(moved, 'on_http_request')
  if (!again.ok) throw new Error(`${moved}: ${again.problems.map(({ message }) => message).join()}`)
  const { value } = again
  const { type, variables, constant } = value
  const filled = (flow: Flow) => {
    flow.vars = vars
    return flow
  }
  const evaluate = (flow: Flow) => value.evaluate(filled(flow))
  return { source, type, variables, constant, evaluate, outcome: (flow) => value.outcome(filled(flow)) }
}
