import t from 'tap'
import { account } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
import { word } from './asking.js'

const LIMIT = `on_http_request:
  - name: five
    actions: [{type: rate-limit, config: {name: five, algorithm: sliding_window, capacity: 5, rate: 60s, bucket_key: [conn.client_ip]}}]
`

t.test('a policy is checked without being written, as the terminal checks it', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const check = (body: object) => ask('/policies/check', { method: 'POST', body })
  t.same((await check({ text: LIMIT })).json, { valid: true, problems: [] })
  const wrong = `on_http_request:\n  - expressions: ["req.url.paht == '/'"]\n    actions: [{type: denny}]\n`
  const { json } = await check({ text: wrong })
  t.equal(json.valid, false)
  t.match(json.problems, [
    {
      severity: 'error',
      code: 'EXPRESSION_UNKNOWN',
      message: /did you mean req\.url\.path/,
      line: 2,
      column: 20,
      length: 12
    },
    { severity: 'error', code: 'ACTION_UNKNOWN', message: /did you mean "deny"/, line: 3 }
  ])
  const warned = await check({
    text: `on_http_request:\n  - expressions: ["'true' == 'true'"]\n    actions: [{type: deny}]\n`
  })
  t.equal(warned.json.valid, true)
  t.match(warned.json.problems, [{ severity: 'warning', code: 'CONDITION_ALWAYS_TRUE', line: 2 }])
  t.match((await check({ text: LIMIT, layer: 'tcp' })).json.problems, [{ code: 'PHASE' }])
  t.match((await check({ text: 'on_http_request: [' })).json, { valid: false, problems: [{ code: 'DOCUMENT_SYNTAX' }] })
  t.equal((await check({ text: LIMIT, layer: 'udp' })).status, 400)
  t.equal((await check({})).status, 400)
  t.equal(word(t, await check({ text: LIMIT, more: 1 })), 'FIELD_UNKNOWN')
})

t.test('tests run on a policy that serves nowhere', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const test = (text: string, tests: string) => ask('/policies/test', { method: 'POST', body: { text, tests } })
  const step = (status: number, repeat = 1) =>
    `{request: {url: "http://a.example/"}, repeat: ${repeat}, expect: {status: ${status}}}`
  const tests = `cases:
  - {name: five pass, steps: [${step(200, 5)}, ${step(429)}]}
  - {name: six pass, steps: [${step(200, 6)}]}
  - {name: one passes, steps: [${step(200)}]}
`
  t.match((await test(LIMIT, tests)).json, {
    passed: 2,
    failed: 1,
    cases: [
      { name: 'five pass', line: 2, passed: true, failure: null },
      {
        name: 'six pass',
        passed: false,
        failure: { code: 'POLICY_TESTS_FAILED', what: 'status', expected: '200', found: '429', line: 3 }
      },
      { name: 'one passes', passed: true }
    ],
    problems: []
  })
  const many = Array.from({ length: 15 }, (_, at) => `  - {name: n${at}, steps: [${step(500)}]}`).join('\n')
  t.equal((await test(LIMIT, `cases:\n${many}\n`)).json.failed, 15, 'all cases are run')
  t.match((await test(LIMIT, 'cases: 1')).json, { passed: 0, cases: [], problems: [{ line: 1 }] })
  t.match((await test('on_http_request: 1', tests)).json, { cases: [], problems: [{ message: /cannot be tested/ }] })
})

t.test('an editor learns what policies can say', async (t) => {
  const sluice = await startSluice(t)
  const { json } = await account(sluice)('/policies/language')
  t.match(json.schema, {
    title: 'Sluice traffic policy',
    $defs: { 'rate-limit.config': { properties: { capacity: {} } } }
  })
  t.match(
    json.actions.find(({ type }: { type: string }) => type === 'rate-limit'),
    { phases: ['on_http_request'], terminates: 'sometimes' }
  )
  t.match(
    json.variables.find(({ path }: { path: string }) => path === 'conn.client_ip'),
    { type: 'string', phases: 'all' }
  )
  t.match(
    json.variables.find(({ path }: { path: string }) => path === 'res.status_code'),
    { phases: 'response' }
  )
  t.ok(json.functions.some(({ signature }: { signature: string }) => signature.startsWith('string.startsWith(')))
})
