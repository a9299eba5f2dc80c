import t, { type Test } from 'tap'
import type { SessionStore } from '../../../src/features/login/session-keeper.js'
import { opened } from '../../store/opened.js'
import { Browser, overNetwork, type Send } from './browser.js'
import { CLIENT, FakeProvider } from './fake-provider.js'
import { LoginStand, policy } from './stand.js'

const HOST = 'app.example.com'
const SITE = `http://${HOST}`
const PLACE = `${SITE}/.sluice/backchannel-logout`
const SECOND = 1_000

const policyFor = (url: string) => {
  const config = { issuer_url: url, client_id: CLIENT.id, client_secret: CLIENT.secret }
  return policy(JSON.stringify({ on_http_request: [{ actions: [{ type: 'openid-connect', config }] }] }))
}

async function stage(t: Test, store?: SessionStore) {
  const provider = await new FakeProvider().start(t)
  const stand = new LoginStand(t, policyFor(provider.url), store === undefined ? {} : { store })
  const send: Send = (method, url, headers, body) =>
    url.hostname === HOST ? stand.send(method, url, headers, body) : overNetwork(method, url, headers, body)
  const enter = async (claims = {}, user = 'u1') => {
    provider.claims = claims
    provider.user = { sub: user }
    const browser = new Browser(send)
    t.equal((await browser.visit(`${SITE}/`)).status, 200)
    return async () => (await browser.once(`${SITE}/`)).status === 200
  }
  const post = async (body: string) => await stand.send('POST', new URL(PLACE), {}, body)
  const tell = async (token: string | Promise<string>) => await post(`logout_token=${await token}`)
  return { provider, stand, enter, post, tell }
}

t.test('a logout by sid ends the sessions with it, one by sub those of the user that were begun before', async (t) => {
  const { provider, stand, enter, tell } = await stage(t)
  const [one, other, stranger] = [
    await enter({ sid: 's1' }),
    await enter({ sid: 's2' }),
    await enter({ sid: 's3' }, 'u2')
  ]
  const nameless = await enter()
  const bySid = await tell(provider.logoutToken({ sub: undefined, sid: 's1' }))
  t.match(bySid, { status: 200, headers: { 'cache-control': 'no-store' }, body: '' })
  t.same([await one(), await other(), await stranger(), await nameless()], [false, true, true, true])
  await tell(provider.logoutToken({ sub: 'u1', sid: 's9' }))
  t.same([await other(), await nameless()], [true, false], 'who has no sid ends with any session of the user')
  const token = await provider.logoutToken({ sub: 'u1' })
  t.equal((await tell(token)).status, 200)
  t.same([await other(), await stranger()], [false, true])
  stand.clock.advance(20 * SECOND)
  const later = await enter({ sid: 's4' })
  t.equal((await tell(token)).status, 200)
  t.equal(await later(), true, 'a token that comes again ends nothing that was begun since')
  t.equal((await tell(provider.logoutToken({ iat: Math.floor(stand.clock.wall() / SECOND) }))).status, 200)
  t.equal(await later(), false, 'a second logout moves the time on')
})

t.test('a session keeps its sid through refreshes that do not name it', async (t) => {
  const { provider, stand, enter, tell } = await stage(t)
  provider.refreshTokens = true
  provider.accessTokenLasts = 60
  const one = await enter({ sid: 's1' })
  provider.claims = {}
  stand.clock.advance(61 * SECOND)
  t.equal(await one(), true)
  const now = Math.floor(stand.clock.wall() / SECOND)
  await tell(provider.logoutToken({ sub: undefined, sid: 's1', iat: now, exp: now + 60 }))
  t.equal(await one(), false)
})

t.test('a session that the store keeps ends too', async (t) => {
  const { loginSessions } = (await opened(t, ':memory:')).store
  const { provider, enter, tell } = await stage(t, loginSessions)
  const groups = 'x'.repeat(40_000)
  const [one, other] = [await enter({ sid: 's1', groups }), await enter({ sid: 's2', groups })]
  await tell(provider.logoutToken({ sid: 's1' }))
  t.same([await one(), await other()], [false, true])
})

t.test('what is no logout token of the provider ends nothing', async (t) => {
  const { provider, enter, post, tell } = await stage(t)
  const stranger = await new FakeProvider().start(t)
  const one = await enter({ sid: 's1' })
  const now = Math.floor(Date.now() / SECOND)
  const event = 'http://schemas.openid.net/event/backchannel-logout'
  const none = Buffer.from('{"alg":"none"}').toString('base64url')
  const [head, payload] = (await provider.logoutToken()).split('.')
  const tokens: Record<string, string | Promise<string>> = {
    'no token': 'x',
    'an empty one': '',
    'no signature': `${none}.${payload}.`,
    'a cut signature': `${head}.${payload}.AAAA`,
    'the key of another provider': stranger.logoutToken({ iss: provider.url }),
    'another issuer': provider.logoutToken({ iss: 'https://other.example' }),
    'another audience': provider.logoutToken({ aud: 'other' }),
    'no audience': provider.logoutToken({ aud: undefined }),
    'no iat': provider.logoutToken({ iat: undefined }),
    'an iat to come': provider.logoutToken({ iat: now + 3_600, exp: now + 7_200 }),
    'an old one': provider.logoutToken({ iat: now - 4_000 }),
    'no exp': provider.logoutToken({ exp: undefined }),
    'an expired one': provider.logoutToken({ iat: now - 600, exp: now - 300 }),
    'no events': provider.logoutToken({ events: undefined }),
    'another event': provider.logoutToken({ events: { 'http://example.com/e': {} } }),
    'events as a text': provider.logoutToken({ events: event }),
    'an event as a text': provider.logoutToken({ events: { [event]: 'yes' } }),
    'a nonce': provider.logoutToken({ nonce: 'n' }),
    'neither sub nor sid': provider.logoutToken({ sub: undefined }),
    'a sid that is no text': provider.logoutToken({ sid: 5 }),
    'the type of an access token': provider.logoutToken({}, { typ: 'at+jwt' }),
    'too long': provider.logoutToken({ more: 'x'.repeat(20_000) })
  }
  const reasons: Record<string, RegExp> = {
    'a cut signature': /SIGNATURE_VERIFICATION_FAILED/,
    'another issuer': /wrong iss$/,
    'another audience': /wrong aud$/,
    'no iat': /wrong iat$/,
    'an iat to come': /wrong iat$/,
    'no exp': /wrong exp$/,
    'an old one': /EXPIRED/
  }
  for (const [name, token] of Object.entries(tokens)) {
    const answer = await tell(token)
    t.match(
      answer,
      {
        status: 400,
        headers: {
          'cache-control': 'no-store',
          'content-type': 'application/json',
          'sluice-error-code': 'LOGIN_LOGOUT_TOKEN'
        }
      },
      name
    )
    t.match(JSON.parse(answer.body), { error: 'invalid_request', error_description: reasons[name] ?? /./ }, name)
  }
  const token = await provider.logoutToken()
  for (const body of ['', 'token=x', `logout_token=${token}&logout_token=${token}`])
    t.equal((await post(body)).status, 400, body.slice(0, 20))
  t.equal(await one(), true)
  for (const typ of [undefined, 'JWT', 'logout+jwt', 'application/logout+jwt'])
    t.equal((await tell(provider.logoutToken({ sub: 'nobody' }, { typ }))).status, 200, String(typ))
  t.equal(await one(), true)
  await tell(token)
  t.equal(await one(), false)
})

t.test('a new key is fetched, also under an old name, and wrong tokens cause few fetches', async (t) => {
  const { provider, stand, enter, tell } = await stage(t)
  const one = await enter()
  const stranger = await new FakeProvider().start(t)
  t.equal((await tell(provider.logoutToken({ sub: 'nobody' }))).status, 200)
  const before = provider.count('/jwks')
  const wrong = () => Promise.all(Array.from({ length: 40 }, () => tell(stranger.logoutToken({ iss: provider.url }))))
  t.ok((await wrong()).every(({ status }) => status === 400))
  t.equal(provider.count('/jwks'), before)
  stand.clock.advance(6 * SECOND)
  await wrong()
  await wrong()
  t.equal(provider.count('/jwks'), before + 1)
  provider.rotate(true, provider.kid)
  stand.clock.advance(6 * SECOND)
  t.equal((await tell(provider.logoutToken({ sub: 'u1' }))).status, 200)
  t.equal(await one(), false)
})

t.test('while keys cannot be had the provider is asked to come again, and is not asked over and over', async (t) => {
  const { provider, stand, enter, tell } = await stage(t)
  const one = await enter()
  const before = provider.count('/jwks')
  provider.broken.set('/jwks', (response) => response.writeHead(503).end())
  const failed = await tell(provider.logoutToken())
  t.match(failed, {
    status: 503,
    headers: { 'sluice-error-code': 'LOGIN_PROVIDER_UNAVAILABLE', 'cache-control': 'no-store' }
  })
  t.match(JSON.parse(failed.body), { error: 'temporarily_unavailable' })
  for (let i = 0; i < 20; i++) await tell(provider.logoutToken())
  t.equal(provider.count('/jwks'), before + 1)
  t.equal(await one(), true)
  provider.broken.clear()
  stand.clock.advance(6 * SECOND)
  t.equal((await tell(provider.logoutToken())).status, 200)
  t.equal(await one(), false)
})

t.test('of several logins on one entry the one of the provider ends; a store out of reach is said', async (t) => {
  const [first, second] = [await new FakeProvider().start(t), await new FakeProvider().start(t)]
  const action = ({ url }: FakeProvider, auth_id: string) => ({
    type: 'openid-connect',
    config: { issuer_url: url, client_id: CLIENT.id, client_secret: CLIENT.secret, auth_id }
  })
  const rules = [
    { expressions: ["req.url.path.startsWith('/a')"], actions: [action(first, 'a')] },
    { expressions: ["req.url.path.startsWith('/b')"], actions: [action(second, 'b')] }
  ]
  const stand = new LoginStand(t, policy(JSON.stringify({ on_http_request: rules })))
  const { endedSessions } = (await opened(t, ':memory:')).store
  let isDown = false
  await stand.login.ended.attach({
    add: (sessions) => (isDown ? Promise.reject(new Error('out of reach')) : endedSessions.add(sessions)),
    since: (number) => endedSessions.since(number),
    forget: (now, most) => endedSessions.forget(now, most)
  })
  const send: Send = (method, url, headers, body) =>
    url.hostname === HOST ? stand.send(method, url, headers, body) : overNetwork(method, url, headers, body)
  const browser = new Browser(send)
  const status = async (path: string) => (await browser.once(`${SITE}${path}`)).status
  for (const path of ['/a', '/b']) t.equal((await browser.visit(`${SITE}${path}`)).status, 200)
  const tell = async (token: string) => await stand.send('POST', new URL(PLACE), {}, `logout_token=${token}`)
  t.equal((await tell(await second.logoutToken())).status, 200)
  t.same([await status('/a'), await status('/b')], [200, 302])
  const rows = (await endedSessions.since(0)).sessions
  t.equal(rows.length, 1)
  t.notMatch(JSON.stringify(rows), 'u1', 'the store learns of nobody')
  isDown = true
  t.match(await tell(await first.logoutToken()), {
    status: 503,
    headers: { 'sluice-error-code': 'LOGIN_STORE_UNAVAILABLE' }
  })
  t.same([await status('/a'), await status('/b')], [302, 302], 'it holds here all the same')
  isDown = false
  t.equal((await tell(await first.logoutToken())).status, 200)
  t.equal((await endedSessions.since(0)).sessions.length, 2)
})
