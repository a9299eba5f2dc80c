import t from 'tap'
import type { ExplainedExpression, ExplainedRule, Explanation } from '../../../src/capabilities/explain/answers.js'
import { PolicyBench } from '../../../src/capabilities/explain/running-lab.js'

interface Asking {
  readonly path?: string
  readonly headers?: readonly string[]
  readonly status?: number
  readonly reveal?: boolean
}

/** A lab with this policy, and what asks it. */
function labOf(text: string, { status = 200, reveal = false }: Asking = {}) {
  const bench = new PolicyBench({ policy: { source: 'p.yaml', text }, random: () => 0.5, reveal })
  const asked: string[] = []
  const stub = { status, headers: [], body: undefined }
  const made = bench.open({ now: Date.UTC(2026, 0, 1), stub, outside: ({ url }) => void asked.push(url) })
  if ('problems' in made) throw new Error(JSON.stringify(made.problems))
  const ask = ({ path = '/', headers = [] }: Asking = {}): Promise<Explanation> =>
    made.lab.ask({
      method: 'GET',
      url: new URL(`http://shop.example.com${path}`),
      headers,
      version: '1.1',
      clientAddress: '203.0.113.9',
      clientPort: 40_000
    })
  return { ask, clock: made.clock, notAsked: () => asked.splice(0) }
}

function rulesOf({ steps }: Explanation, phase: string): readonly ExplainedRule[] {
  return steps.flatMap(({ phases }) => phases.filter((one) => one.phase === phase).flatMap(({ rules }) => rules))
}

const partsOf = ({ source, parts }: ExplainedExpression) =>
  parts.map(({ offset, length, value, missing, times }) => [
    source.slice(offset, offset + length),
    missing ?? value,
    times ?? 1
  ])

t.test('each part of an expression has its value, and what was not evaluated has none', async (t) => {
  const { ask } = labOf(`
on_http_request:
  - name: closed
    expressions:
      - "req.method == 'POST' && req.url.path == '/x'"
    actions: [{ type: deny }]
  - name: many
    expressions:
      - "[1, 2, 3].exists(n, n + 1 == 3)"
    actions: [{ type: deny }]
  - name: after
    actions: [{ type: deny }]
`)
  const explanation = await ask({ path: '/x' })
  const [closed, many, after] = rulesOf(explanation, 'on_http_request')
  t.match(closed, { name: 'closed', outcome: 'not_matched', place: { line: 3, column: 5 }, actions: [] })
  t.same(partsOf(closed?.expressions[0] as ExplainedExpression), [
    ["req.method == 'POST' && req.url.path == '/x'", false, 1],
    ["req.method == 'POST'", false, 1],
    ['req.method', 'GET', 1]
  ])
  t.match(many, { outcome: 'matched', actions: [{ type: 'deny', outcome: 'ended', place: { line: 10 } }] })
  t.same(partsOf(many?.expressions[0] as ExplainedExpression).slice(1), [
    ['n + 1 == 3', true, 2],
    ['n + 1', 3, 2],
    ['n', 2, 2]
  ])
  t.match(after, { outcome: 'not_reached', expressions: [], actions: [] })
  t.match(explanation.decision, {
    outcome: 'answered',
    status: 403,
    by: { phase: 'on_http_request', rule: 'many', action: 'deny' }
  })
})

t.test('a value that is absent, one that fails, and a strict policy', async (t) => {
  const rule = (expression: string) => `
  - expressions: ["${expression}"]
    actions: [{ type: deny }]`
  const open = await labOf(`on_http_request:${rule("req.headers['x-token'][0] != 'a'")}`).ask()
  t.match(rulesOf(open, 'on_http_request'), [{ outcome: 'absent', reason: /no such key/ }])
  t.equal(open.decision.outcome, 'forwarded')
  const strict = await labOf(
    `strict_expressions: true\non_http_request:${rule("req.headers['x-token'][0] != 'a'")}`
  ).ask()
  t.match(rulesOf(strict, 'on_http_request'), [{ outcome: 'failed', reason: /no such key/ }])
  t.match(strict.decision, { outcome: 'answered', status: 500, code: 'POLICY_VALUE_ABSENT' })
})

t.test('actions say what they published and changed, on the way there and back', async (t) => {
  const { ask, clock } = labOf(
    `
on_http_request:
  - actions:
      - { type: set-vars, config: { vars: [{ who: "\${conn.client_ip}" }] } }
      - { type: add-headers, config: { headers: { x-who: "\${vars.who}" } } }
      - type: rate-limit
        config: { name: all, algorithm: sliding_window, capacity: 3, cost: 'size(req.method)', rate: 60s, bucket_key: [conn.client_ip] }
on_http_response:
  - actions: [{ type: remove-headers, config: { headers: [x-not-there] } }]
`,
    { status: 404 }
  )
  const first = await ask()
  const [vars, headers, limit] = (rulesOf(first, 'on_http_request')[0] as ExplainedRule).actions
  t.same(vars?.edits, [{ of: 'vars.who', before: null, after: '203.0.113.9' }])
  t.same(headers?.edits, [{ of: 'request.headers.x-who', before: null, after: ['203.0.113.9'] }])
  t.match(limit?.published, { rate_limit: { limited: false, remaining: 0, capacity: 3, cost: 3 } })
  t.match(first, { decision: { outcome: 'forwarded', status: 404, by: null }, response: { status: 404 } })
  t.ok(first.upstream?.headers.join().includes('x-who,203.0.113.9'), 'the upstream sees the change')
  t.equal(rulesOf(first, 'on_http_response')[0]?.outcome, 'matched')
  const second = await ask()
  t.match(second.decision, { status: 429, by: { action: 'rate-limit' } }, 'counters go on within a lab')
  clock.advance(60_001)
  t.equal((await ask()).decision.outcome, 'forwarded', 'and follow its time')
})

t.test('what sounds like a secret is not shown unless it is asked for', async (t) => {
  const text = `
on_http_request:
  - expressions: ["req.headers['authorization'][0].startsWith('Bearer') && req.cookies['sid'][0].value == 'x'"]
    actions: [{ type: deny }]
  - actions: [{ type: add-headers, config: { headers: { x-copy: "\${getQueryParam('token')[0]}" } } }]
`
  const asked = { path: '/?token=t0p', headers: ['authorization', 'Bearer s3cret', 'cookie', 'sid=y'] }
  const hidden = JSON.stringify(await labOf(text).ask(asked))
  t.notMatch(hidden, /s3cret/)
  t.match(hidden, /\[redacted\]/)
  t.match(JSON.stringify(await labOf(text, { reveal: true }).ask(asked)), /s3cret/)
})

t.test('nobody is asked, and that is said', async (t) => {
  const { ask, notAsked } = labOf(`
on_http_request:
  - actions:
      - { type: http-request, config: { url: "https://auth.example.com/check", on_error: continue } }
`)
  t.equal((await ask()).decision.outcome, 'forwarded')
  t.same(notAsked(), ['https://auth.example.com/check'])
})

t.test('values and records have a bound', async (t) => {
  const { ask } = labOf(`
on_http_request:
  - expressions: ["req.headers['x-long'][0].size() > 10"]
    actions: [{ type: log, config: { metadata: { a: "\${req.headers['x-long'][0]}" } } }]
`)
  const text = JSON.stringify(await ask({ headers: ['x-long', 'y'.repeat(50_000)] }))
  t.match(text, /\(50000 characters\)/)
})
