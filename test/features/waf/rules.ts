import { setRequestBody, setResponseBody, setResponseHead } from '../../../src/features/waf/engine/body-values.js'
import { setRequestHead } from '../../../src/features/waf/engine/request-values.js'
import { RuleSet } from '../../../src/features/waf/engine/rule-set.js'
import { Transaction } from '../../../src/features/waf/engine/transaction.js'
import { readRuleSet } from '../../../src/features/waf/seclang/reader.js'
import { atOnce } from '../../../src/lib/slices.js'

/** Compiles rules of a test. `data`: files beside them. */
export function compileRules(text: string, data: Readonly<Record<string, string>> = {}, skipUnknown = false): RuleSet {
  const source = readRuleSet([{ name: 'test.conf', text }], skipUnknown)
  return atOnce(RuleSet.compile(source, { digest: 'test', data: (name) => data[name], skipUnknown }))
}

interface Request {
  readonly method?: string
  readonly target?: string
  readonly headers?: readonly string[]
  readonly body?: string
  readonly response?: { readonly status?: number; readonly headers?: readonly string[]; readonly body?: string }
  readonly level?: number
  readonly budget?: number
  /** Changes the transaction before the first phase. */
  readonly before?: (transaction: Transaction) => void
}

/** Evaluates all phases for a request, and for its response if there is one. */
export function evaluate(rules: RuleSet, request: Request = {}): Transaction {
  const { method = 'GET', target = '/', headers = ['Host', 'app.example.com'], body, response, level } = request
  const plan = rules.plan(level)
  const transaction = new Transaction({ budget: request.budget ?? 1_000_000, fixed: plan.fixed })
  request.before?.(transaction)
  const server = { serverName: 'app.example.com', serverPort: 443 }
  const client = { clientAddress: '192.0.2.10', clientPort: 40_000 }
  setRequestHead(transaction, { id: 'r1', method, target, protocol: 'HTTP/1.1', headers, ...server, ...client })
  atOnce(plan.run(1, transaction))
  if (body !== undefined) setRequestBody(transaction, { bytes: Buffer.from(body), truncated: false }, headers)
  atOnce(plan.run(2, transaction))
  if (response === undefined) return transaction
  const { status = 200, headers: fields = [], body: content = '' } = response
  setResponseHead(transaction, { status, protocol: 'HTTP/1.1', headers: fields })
  atOnce(plan.run(3, transaction))
  setResponseBody(transaction, { bytes: Buffer.from(content), truncated: false })
  atOnce(plan.run(4, transaction))
  return transaction
}

/** Ids of the reported rules. */
export function matchedIds(transaction: Transaction): number[] {
  return transaction.reported.map(({ id }) => id)
}
