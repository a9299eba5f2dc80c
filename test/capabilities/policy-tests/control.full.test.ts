import t, { type Test } from 'tap'
import { policyTesting, STORED_TESTS } from '../../../src/capabilities/policy-tests/stored-tests.js'
import { account, create, visit } from '../../helpers/account.js'
import { startSluice } from '../../helpers/sluice.js'
import { startPostgres } from '../../store/postgres-server.js'

const answering = (status: number) =>
  `on_http_request:\n  - name: answer\n    actions:\n      - type: custom-response\n        config: { status_code: ${status} }\n`
const expecting = (status: number) =>
  `cases:\n  - name: everybody is answered\n    request: { path: /a }\n    expect: { status: ${status} }\n`

const refusal = (found: number) => ({
  status: 400,
  json: {
    error_code: 'ERR_SLUICE_POLICY_TESTS_FAILED',
    msg: `policy_tests, line 2: the case "everybody is answered" expected status 201 and found ${found} in step 1`,
    details: {
      field: 'policy_tests',
      case: 'everybody is answered',
      line: '2',
      column: '5',
      path: 'cases[0]',
      what: 'status',
      expected: '201',
      found: String(found)
    }
  }
})

function cases(t: Test, optionsOf: () => Promise<Readonly<Record<string, string>>>): void {
  t.test('a write whose tests fail is refused with the case, and changes nothing', async (t) => {
    const sluice = await startSluice(t, { options: await optionsOf() })
    const ask = account(sluice)
    const edge = await create(sluice, '/edges/https', { hostports: ['a.example.com:443'] })
    const routes = `/edges/https/${edge.id}/routes`
    const body = { match: '/', traffic_policy: { value: answering(201) }, policy_tests: expecting(201) }
    const bad = { ...body, traffic_policy: { value: answering(200) } }
    t.match(await ask(routes, { method: 'POST', body: bad }), refusal(200))
    t.match((await ask(routes, { method: 'POST', body: { ...body, policy_tests: 'recorded: [a.har]' } })).json, {
      msg: /recorded names a file/
    })
    t.match(await ask(`${routes}?dry_run=true`, { method: 'POST', body: bad }), refusal(200), 'a dry run says the same')
    t.equal((await ask(`/edges/https/${edge.id}`)).json.routes.length, 0)
    const route = await create(sluice, routes, body)
    const path = `${routes}/${route.id}`
    const last = async () => Number((await ask('/revisions?limit=1')).json.revisions[0].id)
    const revision = await last()
    const policy = { value: answering(202) }
    t.match(await ask(path, { method: 'PATCH', body: { traffic_policy: policy } }), refusal(202))
    t.match(await ask(`${path}/traffic_policy`, { method: 'PUT', body: policy }), refusal(202), 'the module alone')
    const other = { policy_tests: expecting(204) }
    t.match(await ask(path, { method: 'PATCH', body: other }), { status: 400, json: { details: { expected: '204' } } })
    t.equal(await last(), revision, 'no revision was made')
    t.match((await ask(path)).json, { policy_tests: expecting(201), traffic_policy: { value: answering(201) } })
    t.equal((await visit(sluice, 'a.example.com', { path: '/a' })).status, 201)
    const both = { traffic_policy: policy, policy_tests: expecting(202) }
    t.equal((await ask(path, { method: 'PATCH', body: both })).status, 200, 'both change together')
    t.equal((await visit(sluice, 'a.example.com', { path: '/a' })).status, 202)
    const changed = await last()
    t.equal((await ask(path, { method: 'PATCH', body: { policy_tests: null } })).status, 200)
    t.equal((await ask(path, { method: 'PATCH', body: { traffic_policy: { value: answering(205) } } })).status, 200)
    t.equal((await ask(path, { method: 'PATCH', body: { policy_tests: expecting(205) } })).status, 200)
    const reverted = await ask(`/revisions/${revision}/revert`, { method: 'POST' })
    t.match(reverted, { status: 200 }, 'the revert of what made the record deletes it')
    t.equal((await ask(`/revisions/${await last()}/revert`, { method: 'POST' })).status, 200)
    t.match((await ask(path)).json.policy_tests, expecting(205))
    t.ok(changed > revision)
  })

  t.test('a revert that brings back what the tests of today refuse is refused', async (t) => {
    const sluice = await startSluice(t, { options: await optionsOf() })
    const ask = account(sluice)
    const edge = await create(sluice, '/edges/https', { hostports: ['a.example.com:443'] })
    const route = await create(sluice, `/edges/https/${edge.id}/routes`, {
      match: '/',
      traffic_policy: { value: answering(200) }
    })
    const path = `/edges/https/${edge.id}/routes/${route.id}`
    const patched = await ask(path, { method: 'PATCH', body: { traffic_policy: { value: answering(201) } } })
    await ask(path, { method: 'PATCH', body: { policy_tests: expecting(201) } })
    const revert = `/revisions/${patched.headers['service-revision']}/revert`
    t.match(await ask(revert, { method: 'POST' }), refusal(200))
    t.equal((await ask(path)).json.traffic_policy.value, answering(201))
  })

  t.test(
    'tests wait for a policy, and are those of a TCP edge too; their form is checked with its place',
    async (t) => {
      const sluice = await startSluice(t, { options: await optionsOf() })
      const ask = account(sluice)
      const edge = await create(sluice, '/edges/https', { hostports: ['a.example.com:443'] })
      const routes = `/edges/https/${edge.id}/routes`
      const wrong = await ask(routes, { method: 'POST', body: { match: '/', policy_tests: 'cases:\n  - nam: x\n' } })
      t.match(wrong, {
        status: 400,
        json: { error_code: 'ERR_SLUICE_POLICY_CONFIG_INVALID', details: { field: 'policy_tests', line: '2' } }
      })
      t.match(await ask(routes, { method: 'POST', body: { match: '/', policy_tests: 'cases: [' } }), {
        status: 400,
        json: { error_code: 'ERR_SLUICE_POLICY_DOCUMENT_SYNTAX' }
      })
      const route = await create(sluice, routes, { match: '/', policy_tests: expecting(201) })
      const put = (status: number) =>
        ask(`${routes}/${route.id}/traffic_policy`, { method: 'PUT', body: { value: answering(status) } })
      t.match(await put(200), refusal(200))
      t.equal((await put(201)).status, 200)
      const value = `on_tcp_connect:\n  - expressions: ["conn.client_ip == '203.0.113.9'"]\n    actions: [{ type: deny }]\n`
      const closed = (ip: string) =>
        `cases: [{ name: closed, request: { client_ip: ${ip} }, expect: { status: 0, outcome: closed } }]`
      const tcp = (ip: string) => ({ hostports: [], traffic_policy: { value }, policy_tests: closed(ip) })
      t.equal((await ask('/edges/tcp', { method: 'POST', body: tcp('203.0.113.9') })).status, 201)
      t.match(await ask('/edges/tcp', { method: 'POST', body: tcp('203.0.113.10') }), {
        status: 400,
        json: { details: { case: 'closed', what: 'status', expected: '0' } }
      })
    }
  )
}

t.test('SQLite', async (t) => cases(t, async () => ({})))

t.test('PostgreSQL', async (t) => {
  const server = await startPostgres(t)
  cases(t, async () => ({ STORE: await server.database() }))
})

t.test('cases, requests and time are bounded, and the loop has its turns', async (t) => {
  const run = policyTesting()
  const policy = answering(201)
  const numbers = Array.from({ length: 40 }, (_, at) => at)
  const matrix = `matrix: { a: [${numbers}], b: [${numbers}] }`
  const many = `cases: [{ name: x, ${matrix}, request: {}, expect: { status: 201 } }]`
  t.match(await run({ policy, tests: many }), [{ message: `tests make at most ${STORED_TESTS.cases} cases` }])
  const repeated = `cases: [{ name: x, request: {}, repeat: ${STORED_TESTS.requests + 1}, expect: { status: 201 } }]`
  t.match(await run({ policy, tests: repeated }), [{ message: /make more than 20000 requests/ }])
  let time = 0
  const slow = policyTesting({ now: () => (time += 100) })
  const some = 'cases: [{ name: slow one, request: {}, repeat: 1000, expect: { status: 201 } }]'
  t.match(await slow({ policy, tests: some }), [{ message: /longer than 5 s; the case "slow one" was not finished/ }])
  let turns = 0
  const counting = setInterval(() => turns++, 1)
  // A clock of its own: on a busy machine they take longer.
  let little = 0
  const quick = policyTesting({ now: () => (little += 0.05) })
  t.same(await quick({ policy, tests: some.replace('1000', '5000') }), [])
  clearInterval(counting)
  t.ok(turns > 5, `${turns} turns`)
})

t.test('vaults, IP policies and servers are those of the tests', async (t) => {
  const run = policyTesting()
  const policy = `on_http_request:
  - expressions: ["secrets.get('keys', 'upstream') != 'for-tests'"]
    actions: [{ type: deny }]
`
  const tests = `secrets: { keys: { upstream: for-tests } }
cases:
  - name: the key fits
    request: {}
    expect: { outcome: forwarded }
`
  t.same(await run({ policy, tests }), [])
  t.match(await run({ policy, tests: tests.replace(': for-tests', ': another') }), [
    { code: 'POLICY_TESTS_FAILED', line: 3, failed: { case: 'the key fits', what: 'outcome', found: '"answered"' } }
  ])
})
