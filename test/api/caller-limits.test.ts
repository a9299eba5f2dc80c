import t from 'tap'
import { CALLER_LIMITS } from '../../src/lib/caller-limits.js'
import { account, create } from '../helpers/account.js'
import { ManualClock } from '../helpers/clock.js'
import { startSluice } from '../helpers/sluice.js'
import { make, openAccount } from './account.js'
import { asker, word } from './asking.js'

const DENY = 'on_http_request:\n  - actions: [{type: deny}]\n'
const { documents, tests: testLimits, work } = CALLER_LIMITS.member
const rules = (count: number) => `on_http_request:\n${'  - actions: [{type: deny}]\n'.repeat(count)}`
const cases = (count: number, repeat = 1) =>
  `cases:\n${Array.from({ length: count }, (_, i) => `  - {name: c${i}, steps: [{request: {url: "http://a.test/"}, repeat: ${repeat}, expect: {status: 403}}]}\n`).join('')}`

/** A product with a member of its own for each call of `member`. */
async function started(t: Parameters<typeof startSluice>[0]) {
  const sluice = await startSluice(t)
  let members = 0
  const member = async () => {
    const bot = await create(sluice, '/bot_users', { name: `member ${++members}` })
    const { token } = await create(sluice, '/api_keys', { owner_id: bot.id })
    const ask = asker('127.0.0.1', sluice.apiPort)
    return (path: string, body: object, method = 'POST') => ask(path, { method, body, key: token })
  }
  return { sluice, member, administrator: account(sluice) }
}

t.test('documents of a member have bounds that those of an administrator have not', async (t) => {
  const { sluice, member, administrator } = await started(t)
  const edge = await create(sluice, '/edges/https', { hostports: ['a.example.com:443'] })
  const routes = `/edges/https/${edge.id}/routes`
  const limit = { code: 'DOCUMENT_LIMIT' }
  for (const [text, reason] of [
    [rules(documents.rules + 1), /limited to 1000 rules; this one has 1001/],
    [`${DENY}#${'x'.repeat(documents.bytes)}`, /limited to 262144 bytes/]
  ] as const) {
    const ask = await member()
    const { json } = await ask('/policies/check', { text })
    t.match(json, { valid: false, problems: [{ ...limit, message: reason }] })
    const written = await ask(routes, { match: '/', traffic_policy: { value: text } })
    t.equal(written.status, 400)
    t.match(written.json, { error_code: 'POLICY_DOCUMENT_LIMIT', msg: reason })
    const mine = await administrator('/policies/check', { method: 'POST', body: { text } })
    t.equal(mine.json.valid, true, 'the bounds are not those of administrators')
  }
  const ask = await member()
  t.equal((await ask('/policies/check', { text: rules(documents.rules) })).json.valid, true)
  t.equal((await ask(routes, { match: '/', traffic_policy: { value: DENY } })).status, 201)
})

t.test('tests that a member runs, or stores with a policy, have bounds', async (t) => {
  const { sluice, member, administrator } = await started(t)
  const edge = await create(sluice, '/edges/https', { hostports: ['a.example.com:443'] })
  const routes = `/edges/https/${edge.id}/routes`
  const many = cases(testLimits.cases + 1)
  const often = cases(1, testLimits.requests + 1)
  for (const [tests, reason] of [
    [many, /at most 300 cases/],
    [often, /more than 3000 requests/]
  ] as const) {
    const ask = await member()
    t.match((await ask('/policies/test', { text: DENY, tests })).json, { problems: [{ message: reason }] })
    const body = { match: '/', traffic_policy: { value: DENY }, policy_tests: tests }
    const written = await ask(routes, body)
    t.equal(written.status, 400, written.text)
    t.match(written.json.msg, reason)
  }
  t.match((await administrator('/policies/test', { method: 'POST', body: { text: DENY, tests: many } })).json, {
    passed: testLimits.cases + 1
  })
  const ask = await member()
  t.match((await ask('/policies/test', { text: DENY, tests: cases(20) })).json, { passed: 20, failed: 0 })
})

t.test('a member who sends much waits; others do not', async (t) => {
  const { member, administrator } = await started(t)
  const [busy, other] = [await member(), await member()]
  const text = `${DENY}#${'x'.repeat(200_000)}`
  const statuses: number[] = []
  let refused = await busy('/policies/check', { text })
  while (refused.status === 200) {
    statuses.push(refused.status)
    refused = await busy('/policies/check', { text })
  }
  t.equal(word(t, refused), 'WORK_LIMITED')
  const most = Math.ceil(work.burst / text.length) + 1
  t.ok(statuses.length >= 2 && statuses.length <= most, `${statuses.length} of ${most} were looked at`)
  t.ok(Number(refused.headers['retry-after']) >= 1)
  t.equal(refused.json.details.retry_after, refused.headers['retry-after'])
  t.equal((await busy('/policies/test', { text: DENY, tests: cases(1) })).status, 429, 'for every body')
  t.equal((await busy('/ip_policies', {})).status, 429)
  t.equal((await other('/policies/check', { text: DENY })).status, 200)
  t.equal((await administrator('/policies/check', { method: 'POST', body: { text } })).status, 200)
})

t.test('the budget comes back with time, and reading costs nothing of it', async (t) => {
  const clock = new ManualClock()
  const { ask } = await openAccount(t, { clock })
  const bot = await make(ask, '/bot_users', { name: 'member' })
  const { token: key } = await make(ask, '/api_keys', { owner_id: bot.id })
  const write = (body: unknown) => ask('/ip_policies', { method: 'POST', key, body })
  const large = JSON.stringify({ description: 'x'.repeat(work.burst + 2 * work.perSecond) })
  t.equal((await write(large)).status, 400, 'too long for its field, and counted')
  const refused = await write({})
  t.equal(word(t, refused), 'WORK_LIMITED')
  t.equal((await ask('/ip_policies', { key })).status, 200)
  clock.advance(Number(refused.headers['retry-after']) * 1_000 - 1_000)
  t.equal((await write({})).status, 429)
  clock.advance(1_000)
  t.equal((await write({})).status, 201)
  t.equal((await write('{')).status, 400, 'what is no JSON counts too')
})
