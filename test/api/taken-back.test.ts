import { join } from 'node:path'
import t from 'tap'
import { createKey, listKeys, revokeKey } from '../../src/control/operator-keys.js'
import { Sessions } from '../../src/control/sessions.js'
import { EndedSessions } from '../../src/features/login/ended-sessions.js'
import { systemClock } from '../../src/lib/clock.js'
import { newSealKey, parseSealKey, Sealer } from '../../src/lib/seal.js'
import { openStore } from '../../src/store/open-store.js'
import { ManualClock } from '../helpers/clock.js'
import { API_KEY, startSluice } from '../helpers/sluice.js'
import { operation } from '../store/opened.js'
import { make, openAccount } from './account.js'
import { type Answer, asker, KEY, word } from './asking.js'
import { bearer, follow } from './following.js'

/** What is taken back ends within this time. Milliseconds. */
const WITHIN = 1_000

async function signIn(ask: Awaited<ReturnType<typeof openAccount>>['ask'], key = KEY): Promise<string> {
  return pairOf(await ask('/session', { method: 'POST', key: null, body: { key } }))
}

function pairOf(answer: Answer): string {
  const [line = ''] = [answer.headers['set-cookie'] ?? []].flat()
  return line.split('; ')[0] ?? ''
}

const withCookie = (cookie: string) => ({ key: null, headers: { cookie } })

t.test('a stream ends within a second after the right of its caller was taken back', async (t) => {
  const account = await openAccount(t, { traffic: true })
  const { ask, port, control } = account
  const bot = await make(ask, '/bot_users', { name: 'reader' })
  const keyOf = (owner: string) => make(ask, '/api_keys', { owner_id: owner })
  const control1 = await follow(port, bearer(KEY))
  t.teardown(() => control1.end())
  const own = await make(ask, '/api_keys')
  const store = control.serviceAccount.store
  // As another process writes it; what it wrote is applied before the next write here.
  const change = async (role: string) => {
    await store.transact(operation(), (tx) => tx.update('user', own.owner_id, { body: { role } }))
    await make(ask, '/ip_policies')
  }

  const cases: Record<string, () => Promise<{ headers: Record<string, string>; take: () => Promise<unknown> }>> = {
    'its key is deleted': async () => {
      const key = await keyOf(bot.id)
      return { headers: bearer(key.token), take: () => ask(`/api_keys/${key.id}`, { method: 'DELETE' }) }
    },
    'the key of its session is deleted': async () => {
      const key = await keyOf(bot.id)
      const cookie = await signIn(ask, key.token)
      return { headers: { cookie }, take: () => ask(`/api_keys/${key.id}`, { method: 'DELETE' }) }
    },
    'its session is signed out': async () => {
      const cookie = await signIn(ask)
      return { headers: { cookie }, take: () => ask('/session', { method: 'DELETE', ...withCookie(cookie) }) }
    },
    'its owner has another role': async () => ({ headers: bearer(own.token), take: () => change('member') }),
    'its owner is switched off': async () => {
      const key = await keyOf(bot.id)
      const take = () => ask(`/bot_users/${bot.id}`, { method: 'PATCH', body: { active: false } })
      return { headers: bearer(key.token), take }
    },
    'a restriction of the dashboard excludes its address': async () => {
      const cookie = await signIn(ask)
      const policy = await make(ask, '/ip_policies')
      const body = { type: 'dashboard', ip_policy_ids: [policy.id], enforced: true }
      return { headers: { cookie }, take: () => ask('/ip_restrictions', { method: 'POST', body }) }
    }
  }
  for (const [name, prepare] of Object.entries(cases)) {
    const { headers, take } = await prepare()
    const stream = await follow(port, headers)
    t.equal(stream.status, 200, name)
    await take()
    t.ok((await stream.endedSince(performance.now())) < WITHIN, name)
    const again = await follow(port, headers)
    t.equal(again.status === 200, name === 'its owner has another role', `${name}: a new one`)
    again.end()
    t.ok(control1.open, 'the streams of others go on')
  }
  const policy = await make(ask, '/ip_policies')
  const body = { type: 'api', ip_policy_ids: [policy.id], enforced: true }
  t.equal((await ask('/ip_restrictions?force=true', { method: 'POST', body })).status, 201)
  t.ok((await control1.endedSince(performance.now())) < WITHIN, 'a restriction of the API ends streams of keys')
})

t.test('a restriction that is not enforced ends no stream and is not logged for each look', async (t) => {
  const { ask, port, logged } = await openAccount(t, { traffic: true })
  const policy = await make(ask, '/ip_policies')
  await make(ask, '/ip_restrictions', { type: 'api', ip_policy_ids: [policy.id], enforced: false })
  const stream = await follow(port, bearer(KEY))
  t.teardown(() => stream.end())
  const lines = logged.length
  await new Promise((resolve) => setTimeout(resolve, 600))
  t.ok(stream.open)
  t.equal(logged.length, lines)
})

t.test('a key that another process revokes ends its streams, and those of sessions of it', async (t) => {
  const data = join(t.testdir(), 'data')
  const sluice = await startSluice(t, { options: { DATA: data } })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const key = await createKey(data, systemClock, 'revoked')
  const cookie = await signIn(ask, key)
  const streams = [
    await follow(sluice.apiPort, bearer(key)),
    await follow(sluice.apiPort, bearer(key), '/exchanges/stream'),
    await follow(sluice.apiPort, { cookie }, '/exchanges/stream')
  ]
  const other = await follow(sluice.apiPort, bearer(API_KEY))
  t.teardown(() => other.end())
  t.same(
    streams.map(({ status }) => status),
    [200, 200, 200]
  )
  const [id = ''] = (await listKeys(data)).filter(({ name }) => name === 'revoked').map((one) => one.id)
  await revokeKey(data, id)
  const revoked = performance.now()
  for (const stream of streams) t.ok((await stream.endedSince(revoked)) < WITHIN)
  t.equal(word(t, await ask('/bot_users', withCookie(cookie))), 'SESSION_ENDED')
  t.ok(other.open)
})

t.test('a session that is signed out neither reads nor writes, with any cookie it had', async (t) => {
  const clock = new ManualClock()
  const { ask } = await openAccount(t, { clock, traffic: true })
  const first = await signIn(ask)
  const other = await signIn(ask)
  clock.advance(10 * 60_000)
  const renewed = pairOf(await ask('/bot_users', withCookie(first)))
  t.not(renewed, first)
  t.equal((await ask('/session', { method: 'DELETE', ...withCookie(first) })).status, 204)
  for (const cookie of [first, renewed]) {
    t.equal(word(t, await ask('/bot_users', withCookie(cookie))), 'SESSION_ENDED')
    const written = await ask('/ip_policies', { method: 'POST', body: {}, ...withCookie(cookie) })
    t.equal(word(t, written), 'SESSION_ENDED')
  }
  t.equal((await ask('/bot_users', withCookie(other))).status, 200, 'another session of the same key goes on')
})

t.test('a sign-out holds in every process on the store, and after a restart', async (t) => {
  const clock = new ManualClock()
  const log = { info: () => undefined, warn: () => undefined }
  const store = await openStore(':memory:', { log, clock, onRevision: () => undefined })
  t.teardown(() => store.close())
  const seal = new Sealer(parseSealKey(newSealKey()))
  const principal = { id: 'usr_1', role: 'administrator', subject: 'operator', key: null } as const
  const access = { authenticate: async () => principal }
  const process = async () => {
    const ended = new EndedSessions(clock)
    await ended.attach(store.endedSessions)
    const lifetimes = { idle: 1e6, longest: 1e7 }
    return { ended, sessions: new Sessions({ seal, access, ended, clock, lifetimes, resources: [] }) }
  }
  const [one, two] = [await process(), await process()]
  const { cookie } = await one.sessions.open({ key: 'a-key-that-is-good' }, undefined)
  t.match(await two.sessions.resume(cookie, undefined), { principal: { id: 'usr_1' } })
  t.match(await two.sessions.watching(cookie, undefined), { id: 'usr_1' })
  t.equal(await one.sessions.end(cookie), true)
  t.equal(await one.sessions.end('no cookie of ours'), false)
  await two.ended.follow()
  const restarted = await process()
  for (const { sessions } of [one, two, restarted]) {
    t.equal(await sessions.resume(cookie, undefined), undefined)
    t.equal(await sessions.watching(cookie, undefined), undefined)
  }
})

t.test('a stream counts as use of its session, up to the longest time that one lasts', async (t) => {
  const clock = new ManualClock()
  const { ask, port } = await openAccount(t, { clock, traffic: true })
  const stream = await follow(port, { cookie: await signIn(ask) })
  clock.advance(40 * 60_000)
  await new Promise((resolve) => setTimeout(resolve, 600))
  t.ok(stream.open, 'half an hour without another call')
  clock.advance(12 * 60 * 60_000)
  t.ok((await stream.endedSince(performance.now())) < WITHIN)
})

t.test('a caller has so many streams open at a time', async (t) => {
  const { ask, port } = await openAccount(t, { traffic: true })
  const bot = await make(ask, '/bot_users', { name: 'reader' })
  const [one, two] = [
    await make(ask, '/api_keys', { owner_id: bot.id }),
    await make(ask, '/api_keys', { owner_id: bot.id })
  ]
  const streams = await Promise.all(Array.from({ length: 16 }, () => follow(port, bearer(one.token))))
  t.teardown(() => {
    for (const stream of streams) stream.end()
  })
  const path = '/traffic/stream'
  const refused = await ask(path, { key: two.token })
  t.equal(word(t, refused), 'STREAMS_LIMITED', 'with whichever of its keys')
  t.equal(refused.headers['retry-after'], '5')
  const others = await follow(port, bearer(KEY))
  t.equal(others.status, 200, 'another caller has its own')
  others.end()
  streams.pop()?.end()
  let again = await follow(port, bearer(two.token))
  while (again.status === 429) again = await follow(port, bearer(two.token))
  t.equal(again.status, 200)
  again.end()
})

t.test('an old cookie before the good one is no reason to refuse', async (t) => {
  const { ask } = await openAccount(t, { traffic: true })
  const good = await signIn(ask)
  const [name = ''] = good.split('=')
  const ended = await signIn(ask)
  await ask('/session', { method: 'DELETE', ...withCookie(ended) })
  for (const cookie of [
    `${name}=stale; ${good}`,
    `${ended}; ${good}`,
    `__Host-${ended}; ${good}`,
    `${good}; ${ended}`
  ]) {
    const answer = await ask('/bot_users', withCookie(cookie))
    t.equal(answer.status, 200, cookie.slice(0, 60))
    const lines = [answer.headers['set-cookie'] ?? []].flat()
    const forgotten = cookie.startsWith('__Host-') ? [`__Host-${name}=`] : []
    t.same(
      lines.map((line) => line.split(';')[0]),
      forgotten,
      'the browser forgets one of another name'
    )
  }
  t.equal(word(t, await ask('/bot_users', withCookie(`${name}=stale; ${ended}`))), 'SESSION_ENDED')
  const many = `${`${name}=stale; `.repeat(4)}${good}`
  t.equal(word(t, await ask('/bot_users', withCookie(many))), 'SESSION_ENDED', 'four of them are looked at')
})

t.test('keys that open nothing are throttled, wherever they come, and good ones that were seen are not', async (t) => {
  const clock = new ManualClock()
  const { ask } = await openAccount(t, { clock, traffic: true })
  const bot = await make(ask, '/bot_users', { name: 'robot' })
  const fresh = await make(ask, '/api_keys', { owner_id: bot.id })
  const session = (key: string) => ask('/session', { method: 'POST', key: null, body: { key } })
  for (let time = 0; time < 10; time++) t.equal((await session('the-same-wrong-key')).status, 401)
  const refused = await session('the-same-wrong-key')
  t.equal(word(t, refused), 'KEYS_THROTTLED')
  t.equal(refused.headers['retry-after'], '60')
  t.equal((await ask('/bot_users', { key: 'the-same-wrong-key' })).status, 429, 'as a key of the API as well')
  for (let time = 0; time < 45; time++) {
    t.equal((await session(`guess-${time}`)).status, 401)
    t.equal((await ask('/bot_users', { key: `other-${time}` })).status, 401)
  }
  for (const answer of [await session('new-guess'), await ask('/bot_users', { key: 'new-guess' })])
    t.equal(word(t, answer), 'KEYS_THROTTLED')
  t.equal((await ask('/bot_users')).status, 200, 'the key that was let in before')
  t.equal((await session(KEY)).status, 201)
  t.equal((await ask('/bot_users', { key: fresh.token })).status, 429, 'nobody tells a good key from a wrong one now')
  clock.advance(60_000)
  t.equal((await ask('/bot_users', { key: fresh.token })).status, 200)
  await ask(`/bot_users/${bot.id}`, { method: 'PATCH', body: { active: false } })
  for (let time = 0; time < 10; time++) t.equal((await ask('/bot_users', { key: fresh.token })).status, 403)
  t.equal((await ask('/bot_users', { key: fresh.token })).status, 429, 'the key of an owner who is switched off')
})
