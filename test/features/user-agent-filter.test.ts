import t from 'tap'
import { outcome, startRoute } from './route.js'

const REFUSED = '403 USER_AGENT_REFUSED'

t.test('a user agent that is denied passes only when it is allowed', async (t) => {
  const { get, put, remove, api, path } = await startRoute(t, (_, response) => response.end('ok'), {
    user_agent_filter: { allow: ['(?i)goodbot/[2-9]'], deny: ['(?i)bot', '^curl/'] }
  })
  const as = async (name?: string) => outcome(await get(name === undefined ? {} : { headers: { 'user-agent': name } }))
  t.equal(await as('Mozilla/5.0'), '200')
  t.equal(await as('EvilBot/1'), REFUSED)
  t.equal(await as('curl/8.0'), REFUSED)
  t.equal(await as('not curl/8.0'), '200')
  t.equal(await as('GoodBot/1'), REFUSED)
  t.equal(await as('GoodBot/2'), '200')
  t.equal(await as(), '200', 'no name')
  await put('user_agent_filter', { deny: ['^$'] })
  t.equal(await as(), REFUSED)
  t.equal(await as(''), REFUSED)
  t.equal(await as('curl/8.0'), '200')
  const alone = await api('PUT', `${path}/user_agent_filter`, { allow: ['x'] })
  t.match(alone, { status: 400, json: { msg: /only makes exceptions/ } }, 'allow alone would refuse nobody')
  t.equal(await as('curl/8.0'), '200', 'nothing has changed')
  await put('user_agent_filter', { enabled: false, deny: ['.*'] })
  t.equal(await as('curl/8.0'), '200')
  await put('user_agent_filter', { deny: ['.*'] })
  t.equal(await as('curl/8.0'), REFUSED)
  await remove('user_agent_filter')
  t.equal(await as('curl/8.0'), '200')
})

t.test('a name of any length costs little', async (t) => {
  const { get, put } = await startRoute(t, (_, response) => response.end('ok'))
  const deny = Array.from({ length: 50 }, (_, i) => `(a+)+${i}$|(x|y|z)*${i}b`)
  await put('user_agent_filter', { deny })
  const longest = { headers: { 'user-agent': 'a'.repeat(2_048) } }
  t.equal(outcome(await get(longest)), '200')
  const before = process.cpuUsage()
  for (let i = 0; i < 10; i++) await get({ headers: { 'user-agent': `${'a'.repeat(2_040)}${i}c` } })
  const { user, system } = process.cpuUsage(before)
  t.ok((user + system) / 10 < 100_000, `${(user + system) / 10} microseconds a request`)
  t.equal(outcome(await get({ headers: { 'user-agent': 'a'.repeat(2_049) } })), REFUSED)
})

t.test('what is no regular expression is refused', async (t) => {
  const { api, path } = await startRoute(t, (_, response) => response.end('ok'))
  for (const pattern of ['(', 'a(?=b)', '(a)\\1']) {
    t.equal((await api('PUT', `${path}/user_agent_filter`, { deny: [pattern] })).status, 400, pattern)
  }
})
