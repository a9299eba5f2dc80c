import { randomBytes } from 'node:crypto'
import { decodeJwt } from 'jose'
import t, { type Test as TapTest } from 'tap'
import type { SessionStore } from '../../../src/features/login/session-keeper.js'
import type { Store } from '../../../src/store/store.js'
import { until } from '../../helpers/until.js'
import { opened } from '../../store/opened.js'
import { Browser, overNetwork, type Send } from './browser.js'
import { CLIENT, FakeProvider } from './fake-provider.js'
import { LoginStand, policy } from './stand.js'

const SITE = 'http://app.example.com'
const HOST = 'app.example.com'
const SCRIPT = { accept: 'a/b' }

/** Processes of a cluster: one store, one key. */
async function stage(t: TapTest, { bytes, more = '' }: { bytes?: number; more?: string } = {}) {
  const provider = await new FakeProvider().start(t)
  provider.refreshTokens = true
  provider.accessTokenLasts = 60
  const { store } = await opened(t, ':memory:')
  const keys = [randomBytes(32)]
  const config = `
on_http_request:
  - actions:
      - type: openid-connect
        config: { issuer_url: '${provider.url}', client_id: ${CLIENT.id}, client_secret: '${CLIENT.secret}'${more} }
`
  const stands: LoginStand[] = []
  const start = async (kept: SessionStore = store.loginSessions) => {
    const stand = new LoginStand(t, policy(config), { keys, store: kept, ...(bytes === undefined ? {} : { bytes }) })
    stand.clock.setWall(stands[0]?.clock.wall() ?? stand.clock.wall())
    stands.push(stand)
    await stand.login.ended.attach(store.endedSessions)
    return stand
  }
  const advance = (milliseconds: number) => {
    for (const { clock } of stands) clock.advance(milliseconds)
  }
  return { provider, store, start, advance }
}

function browse(stand: LoginStand): Browser {
  const send: Send = (method, url, headers, body) =>
    url.hostname === HOST ? stand.send(method, url, headers, body) : overNetwork(method, url, headers, body)
  return new Browser(send)
}

const cookieOf = (browser: Browser) =>
  [...browser.cookies(HOST)].map(([name, { value }]) => `${name}=${value}`).join('; ')
const ask = (stand: LoginStand, cookie: string) => stand.send('GET', new URL(SITE), { cookie, ...SCRIPT }, '')
const lastOf = ({ arrived }: LoginStand) => arrived.at(-1)?.results?.get('oidc') ?? {}

/** A store that can be out of reach. */
function breakable({ loginSessions: kept }: Store) {
  let down = false
  const whole = <A extends readonly unknown[], R>(call: (...words: A) => Promise<R>) => {
    return async (...words: A) => {
      if (down) throw new Error('out of reach')
      return await call(...words)
    }
  }
  const store: SessionStore = {
    read: whole((id, at) => kept.read(id, at)),
    claim: whole((lease) => kept.claim(lease)),
    save: whole((session, room) => kept.save(session, room)),
    release: whole((lease) => kept.release(lease)),
    forget: whole((now, spare) => kept.forget(now, spare))
  }
  return {
    store,
    breaks: (is: boolean) => {
      down = is
    }
  }
}

const groups = (count: number) => Array.from({ length: count }, (_, i) => `${i}-${randomBytes(14).toString('hex')}`)

t.test('the tokens of a session are whole, however many groups they name, in every process', async (t) => {
  const { provider, store, start } = await stage(t)
  for (const [count, kept] of [
    [1, false],
    [50, false],
    [400, true],
    [2_000, true]
  ] as const) {
    provider.claims = { groups: groups(count) }
    const stand = await start()
    const browser = browse(stand)
    t.equal((await browser.visit(`${SITE}/`)).body, 'hello', `${count} groups`)
    const token = String(lastOf(stand).identity_token)
    t.equal((decodeJwt(token).groups as string[]).length, count)
    const names = [...browser.cookies(HOST).keys()].filter((name) => name.includes('session'))
    t.ok(names.length <= 5)
    const later = await start()
    t.equal((await ask(later, cookieOf(browser))).status, 200)
    t.equal(lastOf(later).identity_token, token, 'also in a process that has not seen the login')
    const id = String(lastOf(later)['identity.current_session_id'])
    t.equal((await store.loginSessions.read(id, 0)) !== undefined, kept)
    await browser.once(`${SITE}/.sluice/logout`)
    t.equal((await store.loginSessions.read(id, 0)) === undefined, true, 'a logout leaves nothing behind')
    t.equal((await ask(later, cookieOf(browser))).status, 401)
  }
})

t.test('a session that may not be kept is a login that fails with the reason', async (t) => {
  for (const bytes of [0, 20_000]) {
    const { provider, start } = await stage(t, { bytes })
    provider.claims = { groups: groups(400) }
    const stand = await start()
    const browser = browse(stand)
    const page = await browser.visit(`${SITE}/`)
    t.match(page, { status: 502, headers: { 'sluice-error-code': 'LOGIN_SESSION_TOO_LARGE' } })
    t.equal((await ask(stand, cookieOf(browser))).status, 401)
    provider.claims = {}
    t.equal((await browse(stand).visit(`${SITE}/`)).body, 'hello', 'cookies hold a small one')
  }
})

t.test('the sessions that were longest unused make room, and log in again', async (t) => {
  const { provider, start, advance } = await stage(t, { bytes: 60_000 })
  provider.accessTokenLasts = 86_400
  provider.claims = { groups: groups(400) }
  const stand = await start()
  const browsers = [browse(stand), browse(stand), browse(stand)]
  for (const browser of browsers.slice(0, 2)) {
    t.equal((await browser.visit(`${SITE}/`)).body, 'hello')
    advance(1)
  }
  advance(3_600_000)
  t.equal((await ask(await start(), cookieOf(browsers[0] as Browser))).status, 200)
  advance(1)
  t.equal((await browsers[2]?.visit(`${SITE}/`))?.body, 'hello')
  const later = await start()
  t.same(
    await Promise.all(browsers.map(async (browser) => (await ask(later, cookieOf(browser))).status)),
    [200, 401, 200]
  )
})

t.test('while the store is out of reach a session in it is refused, one in cookies passes', async (t) => {
  const { provider, store, start, advance } = await stage(t)
  const { store: kept, breaks } = breakable(store)
  const first = await start()
  const small = browse(first)
  await small.visit(`${SITE}/`)
  provider.claims = { groups: groups(400) }
  const large = browse(first)
  await large.visit(`${SITE}/`)
  const later = await start(kept)
  breaks(true)
  t.match(await ask(later, cookieOf(large)), {
    status: 503,
    headers: { 'sluice-error-code': 'LOGIN_STORE_UNAVAILABLE' }
  })
  t.equal((await browse(later).visit(`${SITE}/`)).status, 503, 'a login that has nowhere to be kept')
  t.equal((await ask(later, cookieOf(small))).status, 200)
  advance(60_000)
  const before = provider.count('/token')
  t.equal((await ask(later, cookieOf(small))).status, 200, 'it passes with the tokens that it has')
  t.equal(provider.count('/token'), before, 'which are not renewed: the new ones could be lost')
  breaks(false)
  advance(10_000)
  t.equal((await ask(later, cookieOf(small))).status, 200)
  await until(() => provider.count('/token') === before + 1)
  t.equal((await ask(later, cookieOf(large))).status, 200)
})

t.test('a session is refreshed once, however many processes have its requests', async (t) => {
  for (const count of [1, 400]) {
    const { provider, start, advance } = await stage(t)
    provider.claims = { groups: groups(count) }
    const [one, two] = [await start(), await start()]
    const browser = browse(one)
    await browser.visit(`${SITE}/`)
    const old = cookieOf(browser)
    t.equal((await ask(two, old)).status, 200)
    advance(60_000)
    const before = provider.count('/token')
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(i % 2 === 0 ? one : two, old)))
    t.same(new Set(answers.map(({ status }) => status)), new Set([200]), `${count} groups`)
    t.ok(answers.every(({ headers }) => headers['set-cookie'] !== undefined))
    t.equal(provider.count('/token'), before + 1)
    const { access_token: token } = lastOf(one)
    t.equal(lastOf(two).access_token, token)
    t.ok(lastOf(two).identity_token)
    // The answers were lost with their process; another one begins.
    const three = await start()
    t.equal((await ask(three, old)).status, 200)
    t.equal(lastOf(three).access_token, token)
    t.equal(provider.count('/token'), before + 1)
    advance(60_000)
    const four = await start()
    t.equal((await ask(four, old)).status, 200, 'days later the pair of then is renewed')
    t.not(lastOf(four).access_token, token)
    t.same([provider.count('/token'), provider.reused], [before + 2, 0])
    provider.gone = true
    advance(60_000)
    t.equal((await ask(four, old)).status, 401)
    t.equal((await ask(await start(), old)).status, 401, 'what the provider has refused is over in every process')
  }
})

t.test('new tokens are kept before anything else is asked, and as soon as the store answers again', async (t) => {
  const { provider, store, start, advance } = await stage(t)
  const { store: kept, breaks } = breakable(store)
  const one = await start(kept)
  const browser = browse(one)
  await browser.visit(`${SITE}/`)
  const old = cookieOf(browser)
  const id = String(lastOf(one)['identity.current_session_id'])
  advance(60_000)
  let numberThen: number | undefined
  provider.broken.set('/userinfo', (response) => {
    void store.loginSessions.read(id, 0).then((row) => {
      numberThen = row?.number
      response.destroy()
    })
  })
  t.equal((await ask(one, old)).status, 200)
  t.equal(numberThen, 1)
  provider.broken.clear()
  advance(60_000)
  provider.refreshing = async () => breaks(true)
  const answer = await ask(one, old)
  t.equal(answer.status, 200)
  t.ok(answer.headers['set-cookie'])
  breaks(false)
  await until(async () => (await store.loginSessions.read(id, 0))?.number === 2)
  const { access_token: token } = lastOf(one)
  const two = await start()
  t.equal((await ask(two, old)).status, 200)
  t.same([lastOf(two).access_token, provider.reused], [token, 0])
})

t.test('what the store keeps is no cookie', async (t) => {
  const { start, store, advance } = await stage(t)
  const stand = await start()
  const browser = browse(stand)
  await browser.visit(`${SITE}/`)
  advance(60_000)
  await browser.once(`${SITE}/`)
  const kept = await store.loginSessions.read(String(lastOf(stand)['identity.current_session_id']), 0)
  const [name = ''] = [...browser.cookies(HOST).keys()].filter((one) => one.includes('session'))
  t.equal((await ask(stand, `${name}=${kept?.sealed}`)).status, 401)
  t.equal((await ask(await start(), cookieOf(browser))).status, 200)
})
