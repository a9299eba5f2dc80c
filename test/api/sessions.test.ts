import t from 'tap'
import { newSealKey, parseSealKey, Sealer } from '../../src/lib/seal.js'
import { ManualClock } from '../helpers/clock.js'
import { make, openAccount } from './account.js'
import { type Answer, KEY, word } from './asking.js'

const MINUTE = 60_000

type Opened = Awaited<ReturnType<typeof openAccount>>

async function signIn({ ask }: Pick<Opened, 'ask'>, key = KEY, headers: Record<string, string> = {}) {
  return await ask('/session', { method: 'POST', key: null, body: { key }, headers })
}

/** Of the cookie that an answer sets. */
function cookieOf(answer: Answer) {
  const [line = ''] = [answer.headers['set-cookie'] ?? []].flat()
  const [pair = '', ...attributes] = line.split('; ')
  return { pair, line, attributes }
}

const withCookie = (pair: string, headers: Record<string, string> = {}) => ({
  key: null,
  headers: { cookie: pair, ...headers }
})

t.test('an API key opens a session that ends when it is not used', async (t) => {
  const clock = new ManualClock()
  const account = await openAccount(t, { clock })
  const { ask } = account
  const opened = await signIn(account)
  t.equal(opened.status, 201)
  t.match(opened.json, {
    principal: { role: 'administrator' },
    rights: { exchanges: true, resources: { bot_user: { create: 'any' } } }
  })
  const { pair, attributes, line } = cookieOf(opened)
  t.same([...attributes].sort(), ['HttpOnly', 'Max-Age=1800', 'Path=/', 'SameSite=Strict'])
  t.match(pair, /^sluice\.dashboard\.session\.sl[0-9a-f]{12}=[\w-]+$/)
  t.notOk(line.includes(KEY) || Buffer.from(pair, 'base64url').toString().includes(KEY), 'the key is not readable')
  t.notOk(opened.text.includes(KEY))
  t.equal(opened.headers['cache-control'], 'no-store')

  const used = await ask('/bot_users', withCookie(pair))
  t.equal(used.status, 200)
  t.equal(used.headers['set-cookie'], undefined, 'it is not renewed with each call')
  t.match((await ask('/session', withCookie(pair))).json, { principal: { role: 'administrator' }, expires_at: /Z$/ })
  t.equal((await ask('/session')).json.expires_at, null, 'a key does not end')
  t.equal((await ask('/session', { key: null })).status, 401)

  clock.advance(10 * MINUTE)
  const renewed = cookieOf(await ask('/bot_users', withCookie(pair))).pair
  t.ok(renewed !== '' && renewed !== pair, 'it is renewed by being used')
  clock.advance(25 * MINUTE)
  const late = await ask('/bot_users', withCookie(pair))
  t.equal(word(t, late), 'SESSION_ENDED', 'the old one has not been used for 35 minutes')
  t.match(cookieOf(late).attributes, ['Path=/', 'HttpOnly', 'SameSite=Strict', 'Max-Age=0'], 'the browser forgets it')
  t.equal((await ask('/bot_users', withCookie(renewed))).status, 200)

  let current = renewed
  for (let passed = 35; passed < 12 * 60 - 20; passed += 20) {
    clock.advance(20 * MINUTE)
    current = cookieOf(await ask('/bot_users', withCookie(current))).pair
  }
  clock.advance(20 * MINUTE)
  t.equal(word(t, await ask('/bot_users', withCookie(current))), 'SESSION_ENDED', 'twelve hours are the longest')
})

t.test('a session ends with its key and its owner', async (t) => {
  const account = await openAccount(t)
  const { ask } = account
  const bot = await make(ask, '/bot_users', { name: 'reader' })
  const key = await make(ask, '/api_keys', { owner_id: bot.id })
  const opened = await signIn(account, key.token)
  t.match(opened.json, {
    principal: { id: bot.id, role: 'member', subject: 'reader' },
    rights: {
      exchanges: false,
      backup: false,
      resources: { vault: { read: 'any', create: 'none' }, api_key: { read: 'own' } }
    }
  })
  const { pair } = cookieOf(opened)
  const create = (path: string) => ask(path, { method: 'POST', body: {}, ...withCookie(pair) })
  t.equal((await create('/ip_policies')).status, 201, "it may do what its owner's key may")
  t.equal(word(t, await create('/vaults')), 'ADMIN_REQUIRED')
  await ask(`/bot_users/${bot.id}`, { method: 'PATCH', body: { active: false } })
  t.equal(word(t, await ask('/ip_policies', withCookie(pair))), 'FORBIDDEN', 'its owner is switched off')
  t.equal(word(t, await signIn(account, key.token)), 'FORBIDDEN')
  await ask(`/bot_users/${bot.id}`, { method: 'PATCH', body: { active: true } })
  t.equal((await ask('/ip_policies', withCookie(pair))).status, 200)
  await ask(`/api_keys/${key.id}`, { method: 'DELETE' })
  t.equal(word(t, await ask('/ip_policies', withCookie(pair))), 'SESSION_ENDED', 'its key is gone')
})

t.test('signing out takes the cookie back', async (t) => {
  const account = await openAccount(t)
  const { pair } = cookieOf(await signIn(account))
  const out = await account.ask('/session', { method: 'DELETE', ...withCookie(pair) })
  t.equal(out.status, 204)
  t.match(cookieOf(out).attributes, ['Path=/', 'HttpOnly', 'SameSite=Strict', 'Max-Age=0'])
  t.equal((await account.ask('/session', { method: 'DELETE' })).status, 204, 'with a key there is nothing to take')
})

t.test('what opens nothing opens no session', async (t) => {
  const account = await openAccount(t)
  const { ask } = account
  for (const key of ['wrong', 'a key with spaces', 'ä', 'x'.repeat(300)]) {
    const refused = await signIn(account, key)
    t.equal(word(t, refused), 'SESSION_KEY_INVALID', key)
    t.equal(refused.headers['set-cookie'], undefined)
    t.notOk(refused.text.includes(key), 'it is not repeated')
  }
  const post = (body: unknown, headers = {}) =>
    ask('/session', { method: 'POST', key: null, body: body as object, headers })
  t.equal((await post({})).status, 400)
  t.equal((await post({ key: 1 })).status, 400)
  t.equal((await post({ key: KEY, more: 1 })).status, 400)
  t.equal((await post({ key: 'x'.repeat(5_000) })).status, 413)
  t.equal(
    (await post({ key: KEY }, { 'content-type': 'text/plain' })).status,
    415,
    'as a form of a foreign page would send it'
  )
  t.equal((await post({ key: KEY }, { 'service-version': '' })).status, 400)
  t.equal((await ask('/session', { method: 'PUT', body: {} })).status, 405)
})

t.test('a cookie that was changed or made elsewhere is no session', async (t) => {
  const account = await openAccount(t)
  const { pair } = cookieOf(await signIn(account))
  const [name = '', value = ''] = pair.split('=')
  const other = new Sealer(parseSealKey(newSealKey()))
  const held = Buffer.from(JSON.stringify({ key: KEY, begun: Date.now(), used: Date.now() }))
  const bytes = Buffer.from(value, 'base64url')
  bytes[30] = (bytes[30] ?? 0) ^ 1
  for (const forged of [
    '',
    'x',
    value.slice(0, -2),
    bytes.toString('base64url'),
    Buffer.from(other.seal(held, 'dashboard session')).toString('base64url'),
    'A'.repeat(5_000)
  ]) {
    t.equal(
      word(t, await account.ask('/bot_users', withCookie(`${name}=${forged}`))),
      'SESSION_ENDED',
      forged.slice(0, 20)
    )
  }
  t.equal(word(t, await account.ask('/bot_users', withCookie('other=1'))), 'AUTH_MISSING', 'other cookies are none')
  t.equal(
    (await account.ask('/bot_users', { headers: { cookie: `${name}=x` } })).status,
    200,
    'a key goes before a cookie'
  )
})

t.test('a session counts for the pages of its origin alone', async (t) => {
  const account = await openAccount(t, { corsOrigins: ['https://console.example.com'] })
  const { ask, port } = account
  const { pair } = cookieOf(await signIn(account))
  const asked = (headers: Record<string, string>) => ask('/bot_users', withCookie(pair, headers))
  t.equal((await asked({ 'sec-fetch-site': 'same-origin', origin: `http://127.0.0.1:${port}` })).status, 200)
  t.equal((await asked({ origin: `http://127.0.0.1:${port}` })).status, 200)
  for (const headers of [
    { 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1:3000' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'none' },
    { origin: 'http://127.0.0.1:3000' },
    { origin: 'https://console.example.com' }
  ]) {
    t.equal(
      word(t, await asked(headers as unknown as Record<string, string>)),
      'SESSION_FOREIGN',
      JSON.stringify(headers)
    )
  }
  t.equal(
    word(t, await signIn(account, KEY, { 'sec-fetch-site': 'same-site' })),
    'SESSION_FOREIGN',
    'it cannot sign anybody in'
  )
  t.equal(
    word(t, await asked({ 'service-version': '' })),
    'VERSION_UNSUPPORTED',
    'each call has a field that no form can send'
  )
  const keyed = await ask('/bot_users', { headers: { origin: 'https://console.example.com', cookie: pair } })
  t.equal(keyed.status, 200, 'with a key it is the API')
  t.equal(keyed.headers['access-control-allow-credentials'], undefined)
})

t.test('over TLS the cookie is for TLS alone', async (t) => {
  const account = await openAccount(t, { hosts: ['sluice.example.com'] })
  const opened = await signIn(account, KEY, { host: 'sluice.example.com', origin: 'https://sluice.example.com' })
  const { pair, attributes } = cookieOf(opened)
  t.match(pair, /^__Host-sluice\.dashboard\.session\./)
  t.ok(attributes.includes('Secure'))
  const used = withCookie(pair, { host: 'sluice.example.com', 'sec-fetch-site': 'same-origin' })
  t.equal((await account.ask('/bot_users', used)).status, 200)
})

t.test('IP restrictions of type dashboard count for sessions, and those of type api too', async (t) => {
  const account = await openAccount(t)
  const { ask } = account
  const { pair } = cookieOf(await signIn(account))
  const policy = await make(ask, '/ip_policies')
  const body = { type: 'dashboard', ip_policy_ids: [policy.id], enforced: true }
  const { id } = await make(ask, '/ip_restrictions', body)
  t.equal(word(t, await ask('/bot_users', withCookie(pair))), 'IP_NOT_ALLOWED')
  t.equal(word(t, await signIn(account)), 'IP_NOT_ALLOWED')
  t.equal((await ask('/bot_users')).status, 200, 'a key does not come from a page')
  t.equal(word(t, await ask('/session')), 'IP_NOT_ALLOWED')
  await ask(`/ip_restrictions/${id}`, { method: 'DELETE' })
  const forced = { ...body, type: 'api' }
  t.equal((await ask('/ip_restrictions?force=true', { method: 'POST', body: forced })).status, 201)
  t.equal(word(t, await signIn(account)), 'IP_NOT_ALLOWED', 'a session is no way around the restriction of the API')
  t.equal(word(t, await ask('/bot_users', withCookie(pair))), 'IP_NOT_ALLOWED')
})

t.test('without the dashboard there are no sessions', async (t) => {
  const account = await openAccount(t, { dashboard: false })
  t.equal((await account.ask('/')).status, 302)
  t.equal((await signIn(account)).status, 404)
  const there = await openAccount(t)
  const { pair } = cookieOf(await signIn(there))
  t.equal(word(t, await account.ask('/bot_users', withCookie(pair))), 'AUTH_MISSING')
  t.notOk('/session' in (await account.ask('/openapi.json')).json.paths)
})
