import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { openKeys } from '../../src/control/operator-keys.js'
import { systemClock } from '../../src/lib/clock.js'
import { newSealKey, parseSealKey, Sealer } from '../../src/lib/seal.js'
import { bearer, follow } from '../api/following.js'
import { call, KEY, started } from '../capabilities/site-file/site-kit.js'
import { sluice } from '../capabilities/transfer/transfer-stand.js'
import { startPostgres } from '../store/postgres-server.js'
import { SluiceProcess } from './process.js'

const DATA = ['--data', 'data']
/** What is taken back ends within this time. Milliseconds. */
const WITHIN = 1_000

/** The cookie of a session that `key` opens. */
async function signIn(api: string, key: string): Promise<string> {
  const body = JSON.stringify({ key })
  const answer = await fetch(`${api}/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'service-version': '2' },
    body
  })
  return (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
}

/** What a call with these fields is answered with. */
async function statusOf(api: string, headers: Readonly<Record<string, string>>, method = 'GET', path = '/vaults') {
  return (await fetch(`${api}${path}`, { method, headers: { 'service-version': '2', ...headers } })).status
}

t.test('keys are made, listed without the keys, and revoked, while a process runs', async (t) => {
  const cwd = t.testdir()
  const running = new SluiceProcess(t, ['start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', ...DATA], { cwd })
  const { api } = (await running.logged('listening')) as { api: string }
  await running.told('API key')
  const shown = (await readFile(join(cwd, 'data', 'api.key'), 'utf8')).trim()
  const status = async (key: string) =>
    (await fetch(`${api}/vaults`, { headers: { authorization: `Bearer ${key}`, 'service-version': '2' } })).status

  const unused = await sluice(t, cwd, ['api-key', 'list', ...DATA])
  t.match(unused, { code: 0, out: /^ak_\S+ {2}\S+Z {2}- {2}\(not used yet: each start prints it\)$/ })
  t.equal(await status(shown), 200)
  const made = await sluice(t, cwd, ['api-key', 'create', '--name', 'ci', ...DATA])
  const key = made.out.trim()
  t.equal(await status(key), 200, 'it counts at once')

  const listed = await sluice(t, cwd, ['api-key', 'list', '--json', ...DATA])
  const [first, second] = listed.out.split('\n').map((line) => JSON.parse(line))
  t.match(
    [first, second],
    [
      { name: null, used: true },
      { name: 'ci', used: true }
    ]
  )
  t.same(Object.keys(second).sort(), ['created_at', 'id', 'name', 'used'])
  for (const secret of [shown, key]) t.notOk(listed.out.includes(secret))

  const cookie = await signIn(api, key)
  const port = Number(new URL(api).port)
  const [kept, ...revoked] = await Promise.all([
    follow(port, bearer(shown)),
    follow(port, bearer(key)),
    follow(port, bearer(key), '/exchanges/stream'),
    follow(port, { cookie })
  ])
  t.same(
    [kept, ...revoked].map(({ status }) => status),
    [200, 200, 200, 200]
  )
  t.match(await sluice(t, cwd, ['api-key', 'revoke', second.id, ...DATA]), { code: 0, out: `${second.id} is revoked` })
  const told = performance.now()
  t.equal(await status(key), 401, 'it opens nothing any more')
  for (const stream of revoked) t.ok((await stream.endedSince(told)) < WITHIN, 'its streams end')
  t.equal(await statusOf(api, { cookie }), 401, 'nor does a session that it has opened')
  t.ok(kept.open)
  t.equal(await status(shown), 200)
  const last = await sluice(t, cwd, ['api-key', 'revoke', first.id, ...DATA])
  t.match(last, { code: 0, err: /data has no key left: the next start creates one and prints it$/ })
  t.equal(await status(shown), 401, 'the key of the first start too')
  t.ok((await kept.endedSince(performance.now())) < WITHIN)
  t.equal((await stat(join(cwd, 'data', 'api-keys.json'))).mode & 0o777, 0o600)
})

t.test('a name is visible characters, and what is no file of keys is told', async (t) => {
  const cwd = t.testdir()
  for (const name of ['', '\u001b[31m', 'x'.repeat(101)]) {
    const told = await sluice(t, cwd, ['api-key', 'create', '--name', name, ...DATA])
    t.match(told, { code: 1, err: /a name has 1 to 100 visible characters; give at most/ })
  }
  t.match(await sluice(t, cwd, ['api-key', 'list', ...DATA]), { code: 0, out: '', err: /the next start creates one/ })
  t.equal((await sluice(t, cwd, ['api-key', 'create', ...DATA])).code, 0)
  await writeFile(join(cwd, 'data', 'api-keys.json'), 'text')
  const told = await sluice(t, cwd, ['api-key', 'list', ...DATA])
  t.match(told, { code: 1, err: /is not a file of API keys; move it away to start with a new key$/ })
})

t.test('a key that was shown and revoked before its first use does not come back', async (t) => {
  const folder = t.testdir()
  const seal = new Sealer(parseSealKey(newSealKey()))
  const { keys, unused = '' } = await openKeys(folder, undefined, { clock: systemClock, seal: async () => seal })
  t.equal(await keys.accepts('x'.repeat(20)), false)
  await keys.keepShown()
  const path = join(folder, 'api-keys.json')
  await writeFile(path, '{"keys": []}')
  t.equal(await keys.accepts(unused), false)
  t.same(JSON.parse(await readFile(path, 'utf8')), { keys: [] })
})

t.test('what one process takes back ends in another on the same store', async (t) => {
  const store = await (await startPostgres(t)).database()
  const cwd = t.testdir({ 'sites.yaml': 'sites: {}\n' })
  const [a, b] = [await started(t, cwd, { SLUICE_STORE: store }), await started(t, cwd, { SLUICE_STORE: store })]
  const port = Number(new URL(b.api).port)
  const make = async (path: string, body: object) => (await call(a.api, 'POST', path, body)).body
  const bot = await make('/bot_users', { name: 'reader' })
  const keyOf = async () => (await make('/api_keys', { owner_id: bot.id })) as { id: string; token: string }
  const control = await follow(port, bearer(KEY))
  t.equal(control.status, 200)
  const [one, two, three] = [await keyOf(), await keyOf(), await keyOf()]
  const cookies = [await signIn(a.api, one.token), await signIn(a.api, two.token)] as const
  const dashboard = await signIn(a.api, KEY)
  const policy = await make('/ip_policies', {})
  const restriction = { type: 'dashboard', ip_policy_ids: [policy.id], enforced: true }
  const cases: Readonly<Record<string, readonly [Record<string, string>, () => Promise<unknown>]>> = {
    'a key is deleted': [bearer(one.token), () => call(a.api, 'DELETE', `/api_keys/${one.id}`)],
    'a session is signed out': [
      { cookie: cookies[1] },
      () => statusOf(a.api, { cookie: cookies[1] }, 'DELETE', '/session')
    ],
    'a bot is switched off': [
      bearer(three.token),
      () => call(a.api, 'PATCH', `/bot_users/${bot.id}`, { active: false })
    ],
    'a restriction excludes its address': [{ cookie: dashboard }, () => make('/ip_restrictions', restriction)]
  }
  for (const [name, [headers, take]] of Object.entries(cases)) {
    const stream = await follow(port, headers)
    t.equal(stream.status, 200, name)
    await take()
    t.ok((await stream.endedSince(performance.now())) < WITHIN, name)
    t.not(await statusOf(b.api, headers), 200, `${name}: the next call`)
  }
  t.equal(await statusOf(b.api, { cookie: cookies[0] }), 401, 'the session of a key that is deleted')
  t.ok(control.open, 'the streams of others go on')
  control.end()
})
