import t, { type Test as TapTest } from 'tap'
import { readOperatorProviders } from '../../../src/features/login/operator-providers.js'
import { PROVIDER_NAMES, PROVIDERS, type ProviderName } from '../../../src/features/login/providers.js'
import { until } from '../../helpers/until.js'
import { Browser, overNetwork, type Send } from './browser.js'
import { CLIENT, FakeProvider } from './fake-provider.js'
import { LoginStand, moduleStep, policy } from './stand.js'

const SITE = 'http://app.example.com'
const HOST = 'app.example.com'
const PAGE = { accept: 'text/html' }

/** A browser whose requests for the site go to the stand and all others over the network. */
export function browse(stand: LoginStand): Browser {
  const send: Send = (method, url, headers, body) =>
    url.hostname === HOST ? stand.send(method, url, headers, body) : overNetwork(method, url, headers, body)
  return new Browser(send)
}

const oidcPolicy = (provider: FakeProvider, more = '') => `
on_http_request:
  - actions:
      - type: openid-connect
        config:
          issuer_url: ${provider.url}
          client_id: ${CLIENT.id}
          client_secret: ${CLIENT.secret}
          scopes: [openid, email, profile]
${more}`

async function stage(t: TapTest, more = '', prepare: (provider: FakeProvider) => void = () => undefined) {
  const provider = await new FakeProvider().start(t)
  prepare(provider)
  const stand = new LoginStand(t, policy(oidcPolicy(provider, more)))
  return { provider, stand, browser: browse(stand) }
}

t.test('a visitor logs in and lands where the visit began, with the results published', async (t) => {
  const { provider, stand, browser } = await stage(t)
  const page = await browser.visit(`${SITE}/deep/page?a=1&b=%2F`)
  t.equal(page.status, 200)
  t.equal(page.url, `${SITE}/deep/page?a=1&b=%2F`)
  t.same(provider.faults, [])
  const [asked] = provider.authorizations
  t.equal(asked?.get('redirect_uri'), `${SITE}/.sluice/callback`)
  t.equal(asked?.get('code_challenge_method'), 'S256')
  t.equal(asked?.get('scope'), 'openid email profile')
  t.ok((asked?.get('nonce') ?? '').length >= 32)
  const [arrived] = stand.arrived
  t.same(arrived?.cookie, [], 'the upstream sees no cookie of ours')
  t.match(arrived?.results?.get('oidc'), {
    'identity.id': `${provider.url}#u1`,
    'identity.email': 'ann@example.com',
    'identity.name': 'Ann',
    'identity.provider_user_id': 'u1',
    'identity.current_session_id': /^[\w-]{22}$/,
    access_token: /^[0-9a-f]{24}$/,
    refresh_token: '',
    expires_at: Date,
    identity_token: /^ey.+\..+\./,
    session_timed_out: false,
    session_max_duration_reached: false,
    userinfo_refreshed: false,
    'error.code': ''
  })
  const before = provider.asked.length
  t.equal((await browser.once(`${SITE}/`)).status, 200)
  t.equal(provider.asked.length, before, 'a session asks nobody')
})

t.test('a whole number beyond 2^53 of the userinfo endpoint keeps its digits', async (t) => {
  const { stand, browser } = await stage(t, '', (provider) =>
    provider.broken.set('/userinfo', (response) => {
      const body = '{"sub":"u1","name":1234567890123456789,"more":[1.5,123456789012345678901234]}'
      response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(body)
    })
  )
  t.equal((await browser.visit(`${SITE}/`)).status, 200)
  t.match(stand.arrived[0]?.results?.get('oidc'), { 'identity.name': '1234567890123456789' })
})

t.test('cookies: HttpOnly, Lax, host only; over TLS Secure and __Host-', async (t) => {
  for (const [scheme, begin] of [
    ['http', 'sluice.session.sl'],
    ['https', '__Host-sluice.session.sl']
  ] as const) {
    const { browser } = await stage(t)
    await browser.visit(`${scheme}://${HOST}/`).catch(() => undefined)
    const [[name, { attributes }]] = [...browser.cookies(HOST)].filter(([name]) =>
      name.includes('session')
    ) as unknown as [[string, { attributes: readonly string[] }]]
    t.ok(name.startsWith(begin), name)
    t.same([...attributes].sort(), ['HttpOnly', 'Path=/', 'SameSite=Lax', ...(scheme === 'https' ? ['Secure'] : [])])
    t.notOk(
      [...browser.cookies(HOST).keys()].some((name) => name.includes('nonce')),
      'the attempt is over'
    )
  }
})

t.test('own cookies stay and ours go, on their way to the upstream', async (t) => {
  const { stand, browser } = await stage(t)
  browser.cookies(HOST).set('theme', { value: 'dark', attributes: [] })
  browser.cookies(HOST).set('session', { value: 'of the upstream', attributes: [] })
  browser.cookies(HOST).set('x.session.sl0123456789ab', { value: 'of another gate', attributes: [] })
  await browser.visit(`${SITE}/`)
  t.same(stand.arrived[0]?.cookie, ['theme=dark; session=of the upstream'])
})

t.test('who cannot be sent to a login page gets 401', async (t) => {
  const { provider, stand } = await stage(t)
  const cases: [string, Record<string, string>, number][] = [
    ['GET', {}, 302],
    ['GET', { accept: '*/*' }, 302],
    ['HEAD', PAGE, 302],
    ['GET', { accept: 'application/json' }, 401],
    ['GET', { accept: 'text/html;q=0, application/json' }, 401],
    ['GET', { ...PAGE, 'sec-fetch-mode': 'cors' }, 401],
    ['GET', { accept: '*/*', 'sec-fetch-mode': 'no-cors' }, 401],
    ['GET', { ...PAGE, 'x-requested-with': 'XMLHttpRequest' }, 401],
    ['GET', { connection: 'upgrade', upgrade: 'websocket' }, 401],
    ['POST', PAGE, 401],
    ['PUT', PAGE, 401],
    ['OPTIONS', PAGE, 401],
    ['OPTIONS', { origin: 'http://x.test', 'access-control-request-method': 'GET' }, 401]
  ]
  for (const [method, headers, status] of cases) {
    const answer = await stand.send(method, new URL(`${SITE}/x`), headers, '')
    t.equal(answer.status, status, `${method} ${JSON.stringify(headers)}`)
    if (status === 401) {
      t.match(answer.headers, { 'sluice-error-code': 'LOGIN_REQUIRED', 'www-authenticate': /^Cookie / })
      t.notOk(answer.headers['set-cookie'])
    }
  }
  t.equal(stand.arrived.length, 0, 'nothing was forwarded')
  t.equal(provider.count('/token'), 0)
})

t.test('preflight requests pass where they may', async (t) => {
  const { stand } = await stage(t, '          allow_cors_preflight: true')
  const preflight = { origin: 'http://x.test', 'access-control-request-method': 'GET' }
  t.equal((await stand.send('OPTIONS', new URL(SITE), preflight, '')).status, 200)
  t.equal((await stand.send('OPTIONS', new URL(SITE), { origin: 'http://x.test' }, '')).status, 401)
  t.equal((await stand.send('GET', new URL(SITE), { ...preflight, accept: 'a/b' }, '')).status, 401)
})

t.test('maximum duration and inactivity, to the second', async (t) => {
  const { stand, browser } = await stage(t, '          max_session_duration: 60s\n          idle_session_timeout: 10s')
  const ask = async () => (await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status
  const login = () => browser.visit(`${SITE}/`)
  await login()
  for (const [seconds, status] of [
    [9, 200],
    [9, 200],
    [9.999, 200],
    [10, 401]
  ] as const) {
    stand.clock.advance(seconds * 1_000)
    t.equal(await ask(), status, `after ${seconds} s of silence`)
  }
  await login()
  for (let i = 0; i < 59; i++) {
    stand.clock.advance(1_000)
    if ((await ask()) !== 200) t.fail(`out after ${i + 1} s`)
  }
  stand.clock.advance(999)
  t.equal(await ask(), 200)
  const last = stand.arrived.at(-1)?.results?.get('oidc')
  t.match(last, { session_max_duration_reached: false })
  stand.clock.advance(1)
  t.equal(await ask(), 401, 'after a minute, however busy')
  t.notOk(
    [...browser.cookies(HOST).keys()].some((name) => name.includes('session')),
    'the cookies are taken back'
  )
})

t.test('without a maximum a session ends after two weeks; its cookies end with the browser', async (t) => {
  const { stand, browser } = await stage(t)
  await browser.visit(`${SITE}/`)
  for (const { attributes } of browser.cookies(HOST).values())
    t.notOk(attributes.some((attribute) => attribute.startsWith('Max-Age')))
  const ask = async () => (await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status
  stand.clock.advance(14 * 24 * 3_600_000 - 1)
  t.equal(await ask(), 200)
  stand.clock.advance(1)
  t.equal(await ask(), 401)
})

t.test('a session ends when its login said, also where the configuration says later now', async (t) => {
  const provider = await new FakeProvider().start(t)
  const keys = [Buffer.alloc(32, 1)]
  const [short, long] = ['60s', '600s'].map(
    (duration) =>
      new LoginStand(t, policy(oidcPolicy(provider, `          max_session_duration: ${duration}`)), { keys })
  ) as [LoginStand, LoginStand]
  const browser = browse(short)
  await browser.visit(`${SITE}/`)
  const later = browse(long)
  for (const [host, jar] of browser.jars) later.jars.set(host, jar)
  const ask = async () => (await later.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status
  long.clock.setWall(short.clock.wall() + 59_999)
  t.equal(await ask(), 200)
  long.clock.advance(1)
  t.equal(await ask(), 401)
})

/** Runs with a wall clock that is an hour ahead, and sets it right again. */
async function ahead<T>({ clock }: LoginStand, run: () => Promise<T>): Promise<T> {
  const now = clock.wall()
  clock.setWall(now + 3_600_000)
  try {
    return await run()
  } finally {
    clock.setWall(now)
  }
}

t.test('a clock that was ahead spares the provider no question', async (t) => {
  const { provider, stand, browser } = await stage(t, '          userinfo_refresh_interval: 30s')
  const ask = async () => (await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status
  await browser.visit(`${SITE}/`)
  t.equal(await ahead(stand, ask), 200)
  t.equal(provider.count('/userinfo'), 2)
  provider.gone = true
  t.equal(await ask(), 401, 'a check that lies in the future is none')
})

t.test('a provider that failed while the clock was ahead is asked again after ten seconds', async (t) => {
  const { provider, stand, browser } = await stage(t, '          userinfo_refresh_interval: 30s')
  const ask = async () => (await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status
  await browser.visit(`${SITE}/`)
  provider.broken.set('/userinfo', (response) => response.writeHead(500).end())
  t.equal(await ahead(stand, ask), 200)
  provider.broken.clear()
  stand.clock.advance(30_000)
  const before = provider.count('/userinfo')
  t.equal(await ask(), 200, 'nobody waits for a provider that was down')
  await until(() => provider.count('/userinfo') === before + 1)
})

t.test('activity is written down again after a clock was ahead', async (t) => {
  const { stand, browser } = await stage(t, '          idle_session_timeout: 2h')
  await browser.visit(`${SITE}/`)
  const stamps = () =>
    [...browser.cookies(HOST).values()].flatMap(({ value }) => {
      const [, stamp] = /^([0-9a-z]{8})\.[\w-]+$/.exec(value) ?? []
      return stamp === undefined ? [] : [Number.parseInt(stamp, 36)]
    })
  await ahead(stand, () => browser.once(`${SITE}/`))
  t.ok((stamps()[0] ?? 0) > stand.clock.wall())
  await browser.once(`${SITE}/`)
  t.same(stamps(), [stand.clock.wall()])
})

t.test('a login that was begun in the future begins anew', async (t) => {
  const { provider, stand, browser } = await stage(t)
  const leave = await ahead(stand, () => browser.once(`${SITE}/`, { headers: PAGE }))
  const back = await browser.once(String(leave.headers.location), { headers: PAGE })
  await browser.visit(String(back.headers.location))
  t.equal(provider.authorizations.length, 2)
  t.equal(stand.arrived.length, 1)
})

t.test('another process of the cluster knows the session and its last request', async (t) => {
  const provider = await new FakeProvider().start(t)
  const keys = [Buffer.alloc(32, 1)]
  const text = oidcPolicy(provider, '          idle_session_timeout: 10s')
  const [one, two, foreign] = [keys, [Buffer.alloc(32, 2), ...keys], [Buffer.alloc(32, 3)]].map(
    (own) => new LoginStand(t, policy(text), { keys: own })
  ) as [LoginStand, LoginStand, LoginStand]
  const at = (stand: LoginStand, from: Browser) => {
    const other = browse(stand)
    for (const [host, jar] of from.jars) other.jars.set(host, jar)
    return other.once(`${SITE}/`, { headers: { accept: 'a/b' } })
  }
  const browser = browse(one)
  await browser.visit(`${SITE}/`)
  for (const stand of [one, two, foreign]) stand.clock.setWall(one.clock.wall())
  t.equal((await at(two, browser)).status, 200, 'the key of before opens')
  for (const stand of [one, two]) stand.clock.advance(8_000)
  t.equal((await at(one, browser)).status, 200)
  for (const stand of [one, two]) stand.clock.advance(8_000)
  t.equal((await at(two, browser)).status, 200, 'it was seen by the other one eight seconds ago')
  for (const stand of [one, two]) stand.clock.advance(10_000)
  t.equal((await at(one, browser)).status, 401)
  t.equal((await at(foreign, browser)).status, 401, 'with another key it is no session')
})

t.test('the provider is asked anew after the interval; a revoked user is out', async (t) => {
  const { provider, stand, browser } = await stage(t, '          userinfo_refresh_interval: 30s')
  await browser.visit(`${SITE}/`)
  stand.clock.advance(29_999)
  t.equal((await browser.once(`${SITE}/`)).status, 200)
  t.equal(provider.count('/userinfo'), 1)
  provider.user = { ...provider.user, name: 'Ann B.' }
  stand.clock.advance(1)
  t.equal((await browser.once(`${SITE}/`)).status, 200)
  t.equal(provider.count('/userinfo'), 2)
  t.match(stand.arrived.at(-1)?.results?.get('oidc'), { 'identity.name': 'Ann B.', userinfo_refreshed: true })
  await browser.once(`${SITE}/`)
  t.match(stand.arrived.at(-1)?.results?.get('oidc'), { 'identity.name': 'Ann B.', userinfo_refreshed: false })
  provider.gone = true
  stand.clock.advance(29_999)
  t.equal((await browser.once(`${SITE}/`)).status, 200, 'nobody was asked yet')
  const old = new Map(browser.cookies(HOST))
  stand.clock.advance(1)
  t.equal((await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status, 401)
  browser.jars.set(HOST, old)
  t.equal(
    (await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status,
    401,
    'also with the cookies of before'
  )
})

t.test('requests that come together ask once, and a spent refresh token ends nobody', async (t) => {
  const { provider, stand, browser } = await stage(t, '', (provider) => {
    provider.refreshTokens = true
    provider.accessTokenLasts = 60
  })
  await browser.visit(`${SITE}/`)
  const first = stand.arrived.at(-1)?.results?.get('oidc')
  const old = [...browser.cookies(HOST)].map(([name, { value }]) => `${name}=${value}`).join('; ')
  stand.clock.advance(60_000)
  const before = provider.count('/token')
  const ask = () => stand.send('GET', new URL(SITE), { cookie: old, accept: 'a/b' }, '')
  const together = await Promise.all([ask(), ask(), ask(), ask()])
  t.same(
    together.map(({ status }) => status),
    [200, 200, 200, 200]
  )
  t.equal(provider.count('/token'), before + 1)
  const late = await ask()
  t.equal(late.status, 200, 'a request that was under way with the cookies of before')
  t.ok(late.headers['set-cookie'], 'it brings the new ones')
  t.equal(provider.count('/token'), before + 1)
  const results = stand.arrived.at(-1)?.results?.get('oidc')
  t.not(results?.access_token, first?.access_token)
  t.not(results?.refresh_token, first?.refresh_token)
  t.equal(results?.['identity.current_session_id'], first?.['identity.current_session_id'])
  provider.gone = true
  stand.clock.advance(60_000)
  t.equal((await ask()).status, 401, 'a refused refresh token ends the session')
})

t.test('a provider in trouble: sessions pass, others are told, nothing hangs', async (t) => {
  const { provider, stand, browser } = await stage(t, '          userinfo_refresh_interval: 30s')
  await browser.visit(`${SITE}/`)
  const troubles: [string, (response: import('node:http').ServerResponse) => void, RegExp][] = [
    ['answers 500', (response) => response.writeHead(500).end(), /^503 LOGIN_PROVIDER_UNAVAILABLE$/],
    ['hangs up', (response) => response.destroy(), /^503 LOGIN_PROVIDER_UNAVAILABLE$/],
    ['answers HTML', (response) => response.end('<html>'), /^502 LOGIN_PROVIDER_FAILED$/],
    ['answers half of JSON', (response) => response.setHeader('content-type', 'application/json').end('{"a'), /^502/],
    ['redirects', (response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(), /^502/],
    [
      'answers endlessly',
      (response) => {
        response.setHeader('content-type', 'application/json')
        response.end(`{"a":"${'x'.repeat(2_000_000)}"}`)
      },
      /^503/
    ]
  ]
  for (const [name, trouble, expected] of troubles) {
    provider.broken.set('/userinfo', trouble)
    stand.clock.advance(31_000)
    t.equal((await browser.once(`${SITE}/`)).status, 200, `${name}: a session passes`)
    const asked = provider.asked.length
    t.equal((await browser.once(`${SITE}/`)).status, 200)
    t.equal(provider.asked.length, asked, `${name}: the next one does not wait`)
    const other = browse(stand)
    const answer = await other.visit(`${SITE}/`)
    t.match(`${answer.status} ${answer.headers['sluice-error-code']}`, expected, name)
    t.match(answer.headers, { 'content-type': /html/, 'cache-control': 'no-store' })
    t.match(answer.body, /<h1>The identity provider/)
    provider.broken.clear()
    stand.clock.advance(11_000)
    t.equal((await browser.once(`${SITE}/`)).status, 200)
    t.equal((await browse(stand).visit(`${SITE}/`)).status, 200, `${name}: over`)
  }
  t.notMatch(stand.kit.logged.join('\n'), new RegExp(CLIENT.secret.replace(/[/+%]/g, '.')))
})

t.test(
  'a provider that is down is waited for once; then sessions pass at once, and its return is noticed',
  async (t) => {
    const { provider, stand, browser } = await stage(t, '          userinfo_refresh_interval: 30s')
    await browser.visit(`${SITE}/`)
    provider.broken.set('/userinfo', (response) => response.writeHead(503).end())
    stand.clock.advance(30_000)
    t.equal((await browser.once(`${SITE}/`)).status, 200)
    const waiting: import('node:http').ServerResponse[] = []
    provider.broken.set('/userinfo', (response) => waiting.push(response))
    stand.clock.advance(10_000)
    for (let i = 0; i < 3; i++) t.equal((await browser.once(`${SITE}/`)).status, 200, 'while nothing answers')
    while (waiting.length === 0) await new Promise(setImmediate)
    t.equal(waiting.length, 1, 'one question for all of them')
    provider.gone = true
    provider.broken.clear()
    waiting[0]?.writeHead(401).end()
    let status = 200
    while (status === 200) {
      await new Promise(setImmediate)
      status = (await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status
    }
    t.equal(status, 401, 'who was dropped meanwhile is out with the first answer')
  }
)

t.test('without its discovery document nobody new gets in; the failure is remembered for a moment', async (t) => {
  const { provider, stand, browser } = await stage(t)
  const path = '/.well-known/openid-configuration'
  provider.broken.set(path, (response) => response.writeHead(503).end())
  const answers = await Promise.all([1, 2, 3].map(() => browse(stand).visit(`${SITE}/`)))
  t.same(
    answers.map(({ status }) => status),
    [503, 503, 503]
  )
  t.match(answers[0]?.headers, { 'retry-after': '10' })
  t.equal(provider.count(path), 1)
  provider.broken.clear()
  t.equal((await browser.visit(`${SITE}/`)).status, 503)
  stand.clock.advance(5_000)
  t.equal((await browser.visit(`${SITE}/`)).status, 200)
  stand.clock.advance(3_600_000)
  provider.broken.set(path, (response) => response.writeHead(503).end())
  t.equal((await browse(stand).visit(`${SITE}/`)).status, 200, 'the document of before serves')
})

t.test('a document that names no endpoint, another issuer, or no URL', async (t) => {
  const documents: ((url: string) => object)[] = [
    (url) => ({ issuer: url }),
    (url) => ({ issuer: `${url}/other`, authorization_endpoint: `${url}/authorize` }),
    (url) => ({ issuer: url, authorization_endpoint: 'javascript:alert(1)' }),
    () => []
  ]
  for (const document of documents) {
    const { browser } = await stage(t, '', (provider) =>
      provider.broken.set('/.well-known/openid-configuration', (response) => {
        response.setHeader('content-type', 'application/json').end(JSON.stringify(document(provider.url)))
      })
    )
    const answer = await browser.visit(`${SITE}/`)
    t.match(answer, { status: 502, headers: { 'sluice-error-code': 'LOGIN_PROVIDER_FAILED' } })
  }
})

t.test('rotated keys are fetched; a key that is not published lets nobody in', async (t) => {
  const { provider, stand, browser } = await stage(t)
  await browser.visit(`${SITE}/`)
  stand.clock.advance(6_000)
  provider.rotate()
  const again = browse(stand)
  const page = await again.visit(`${SITE}/page`)
  t.equal(page.status, 200)
  t.equal(page.url, `${SITE}/page`, 'a second round that the visitor does not see')
  t.equal(provider.count('/jwks'), 2)
  stand.clock.advance(6_000)
  provider.rotate(true, provider.kid)
  t.equal((await browse(stand).visit(`${SITE}/`)).status, 200, 'a new key with the name of the old one')
  t.equal(provider.count('/jwks'), 3)
  provider.rotate(false)
  for (let i = 0; i < 3; i++) t.equal((await browse(stand).visit(`${SITE}/`)).status, 502)
  t.equal(provider.count('/jwks'), 3, 'signatures cannot make us ask over and over')
  stand.clock.advance(6_000)
  t.equal((await browse(stand).visit(`${SITE}/`)).status, 502)
  t.ok(provider.count('/jwks') <= 5)
})

t.test('a callback is worth something in the browser that began, once, for ten minutes', async (t) => {
  const { provider, stand, browser } = await stage(t)
  const begin = await browser.once(`${SITE}/secret`)
  const back = await overNetwork('GET', new URL(String(begin.headers.location)), {}, '')
  const callback = String(back.headers.location)
  const thief = browse(stand)
  const stolen = await thief.once(callback)
  t.equal(stolen.status, 302, 'another browser begins a login of its own')
  t.ok(String(stolen.headers.location).startsWith(`${provider.url}/authorize?`))
  t.notOk([...thief.cookies(HOST).keys()].some((name) => name.includes('session')))
  t.equal(provider.count('/token'), 0, 'and the code is not spent')

  const wrong = new URL(callback)
  const state = wrong.searchParams.get('state') ?? ''
  wrong.searchParams.set('state', `${state.slice(0, -1)}${state.endsWith('_') ? '-' : '_'}`)
  t.equal((await browser.once(wrong.href)).status, 302)
  t.equal(provider.count('/token'), 0)

  t.match(await browser.once(callback), { status: 302, headers: { location: `${SITE}/secret` } })
  t.equal((await browser.once(callback)).headers.location, `${SITE}/secret`, 'who is logged in goes on')

  const late = browse(stand)
  const started = await late.once(`${SITE}/`)
  const url = String((await overNetwork('GET', new URL(String(started.headers.location)), {}, '')).headers.location)
  stand.clock.advance(600_000)
  const lost = await late.once(url)
  t.equal(lost.status, 302)
  const round = String((await overNetwork('GET', new URL(String(lost.headers.location)), {}, '')).headers.location)
  late.jars.clear()
  const end = await late.once(round)
  t.match(end, { status: 400, headers: { 'sluice-error-code': 'LOGIN_STATE_LOST' } }, 'but not for ever')
  for (const query of ['', '?state=', '?state=a&state=b', '?code=x', '?state=sl0123456789ab.0.0123456789ab.x']) {
    t.equal((await browse(stand).once(`${SITE}/.sluice/callback${query}`)).status, 302, query)
  }
  t.equal(stand.arrived.length, 0, 'no callback is forwarded')
})

t.test('tabs that begin a login at once end where they began, however many and however late', async (t) => {
  for (const [tabs, length, wait] of [
    [10, 20, 0],
    [10, 900, 0],
    [40, 20, 0],
    [10, 1_500, 0],
    [10, 20, 3_600_000]
  ] as const) {
    const { provider, stand, browser } = await stage(t)
    const paths = Array.from({ length: tabs }, (_, i) => `/tab-${i}?${'q'.repeat(length)}`)
    const begun: string[] = []
    for (const path of paths) {
      begun.push(String((await browser.once(SITE + path)).headers.location))
      const size = [...browser.cookies(HOST)].reduce((sum, [name, { value }]) => sum + name.length + value.length, 0)
      t.ok(size < 9_000, `${size} bytes of cookies`)
      stand.clock.advance(1_000)
    }
    stand.clock.advance(wait)
    // The first tab is opened again last: its attempt may be gone by then.
    for (const [i, url] of [...begun.entries()].reverse()) {
      const page = await browser.visit(url)
      const isKept = length <= 1_024 || i >= tabs - 2
      if (isKept) t.equal(page.url, SITE + paths[i], `tab ${i} of ${tabs}, ${length} characters, ${wait} ms`)
      t.equal(page.body, 'hello')
    }
    t.same(provider.faults, [])
  }
})

t.test('the provider says no', async (t) => {
  const { browser } = await stage(t)
  const begin = await browser.once(`${SITE}/`)
  const state = new URL(String(begin.headers.location)).searchParams.get('state')
  const answer = await browser.once(
    `${SITE}/.sluice/callback?error=access_denied&error_description=%3Cb%3E&state=${state}`
  )
  t.match(answer, { status: 403, headers: { 'sluice-error-code': 'LOGIN_DENIED' }, body: /cancelled/ })
  t.notMatch(answer.body, /<b>/)
})

t.test('login and logout by their paths and their aliases', async (t) => {
  const { provider, stand, browser } = await stage(t)
  for (const prefix of ['.sluice', 'ngrok']) {
    const page = await browser.visit(`${SITE}/${prefix}/login?redirect_path=/after%3Fx=1`)
    t.equal(page.url, `${SITE}/after?x=1`)
    const stolen = new Map(browser.cookies(HOST))
    const out = await browser.once(`${SITE}/${prefix}/logout`)
    t.match(out, { status: 200, body: /logged out/ })
    t.equal(browser.cookies(HOST).size, 0)
    t.equal((await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status, 401)
    browser.jars.set(HOST, stolen)
    t.equal(
      (await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status,
      401,
      'copies are worth nothing here'
    )
    browser.jars.clear()
    const elsewhere = await browser.once(`${SITE}/${prefix}/logout?redirect_path=/bye`)
    t.match(elsewhere, { status: 302, headers: { location: `${SITE}/bye` } })
    const evil = await browser.once(`${SITE}/${prefix}/logout?redirect_path=//evil.test`)
    t.equal(evil.status, 200)
    t.equal((await browser.visit(`${SITE}/${prefix}/login?redirect_path=https://evil.test/`)).url, `${SITE}/`)
    await browser.once(`${SITE}/${prefix}/logout`)
  }
  t.ok(provider.count('/token') >= 4)
  t.notOk(stand.arrived.some(({ path }) => /sluice|ngrok/.test(path)))
})

t.test('a page of another site cannot log a visitor out', async (t) => {
  const { browser } = await stage(t)
  const logout = async (method: string, headers: Record<string, string>, query = '') => {
    await browser.visit(`${SITE}/`)
    const page = await browser.once(`${SITE}/.sluice/logout${query}`, { method, headers: { ...PAGE, ...headers } })
    const isIn = (await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status === 200
    return { page, isIn }
  }
  const same = { 'sec-fetch-site': 'same-origin' }
  for (const [method, headers, expected] of [
    ['GET', { 'sec-fetch-site': 'cross-site' }, true],
    ['GET', { 'sec-fetch-site': 'cross-site', referer: `${SITE}/` }, true],
    ['GET', { referer: 'http://evil.test/' }, true],
    ['GET', { referer: `${SITE}.evil.test/` }, true],
    ['GET', {}, true],
    ['HEAD', { 'sec-fetch-site': 'cross-site' }, true],
    ['GET', same, false],
    ['GET', { 'sec-fetch-site': 'same-site' }, false],
    ['GET', { 'sec-fetch-site': 'none' }, false],
    ['GET', { referer: `${SITE}/menu` }, false],
    ['POST', {}, false],
    ['POST', { 'sec-fetch-site': 'same-origin' }, false]
  ] as const) {
    const { page, isIn } = await logout(method, headers)
    t.equal(page.status, 200)
    t.equal(isIn, expected, `${method} ${JSON.stringify(headers)}`)
  }
  const { page } = await logout('GET', {}, '?redirect_path=/bye%22%3E%26x&auth_id=')
  const [, action = ''] = /<form method="post" action="([^"]*)">/.exec(page.body) ?? []
  t.equal(action, '/.sluice/logout?auth_id=&amp;redirect_path=%2Fbye%22%3E%26x')
  const end = await browser.once(SITE + action.replaceAll('&amp;', '&'), { method: 'POST' })
  t.match(end, { status: 302, headers: { location: `${SITE}/bye%22%3E&x` } })
  t.match((await browse((await stage(t)).stand).once(`${SITE}/.sluice/logout`, { headers: {} })).body, /logged out/)
})

t.test('a logout ends the session at the provider too where it is asked to', async (t) => {
  const { provider, stand, browser } = await stage(t, '          provider_logout: true', (provider) => {
    provider.endsSessions = true
  })
  for (const [query, path] of [
    ['', undefined],
    ['?redirect_path=/bye', '/bye']
  ] as const) {
    await browser.visit(`${SITE}/`)
    const token = stand.arrived.at(-1)?.results?.get('oidc')?.identity_token
    const out = await browser.once(`${SITE}/.sluice/logout${query}`)
    t.equal((await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status, 401, 'it has ended here first')
    t.ok(String(out.headers.location).startsWith(`${provider.url}/end?`))
    const back = await overNetwork('GET', new URL(String(out.headers.location)), {}, '')
    t.match(Object.fromEntries(provider.ends.at(-1) ?? []), {
      client_id: CLIENT.id,
      id_token_hint: token,
      post_logout_redirect_uri: `${SITE}/.sluice/logout`
    })
    const end = await browser.once(String(back.headers.location), { headers: { 'sec-fetch-site': 'cross-site' } })
    if (path === undefined) t.match(end, { status: 200, body: /logged out/ })
    else t.match(end, { status: 302, headers: { location: SITE + path } })
  }
  t.match(await browser.once(`${SITE}/.sluice/logout?state=//evil.test`), { status: 200, body: /logged out/ })
  const count = provider.ends.length
  t.match(await browser.once(`${SITE}/.sluice/logout`), { status: 200 }, 'who is not logged in goes nowhere')
  await browser.visit(`${SITE}/`)
  stand.clock.advance(3_600_001)
  provider.endsSessions = false
  await browser.visit(`${SITE}/`)
  await until(async () => {
    await browser.visit(`${SITE}/`)
    return (await browser.once(`${SITE}/.sluice/logout`)).status === 200
  })
  t.equal(provider.ends.length, count, 'its document names no such place any more')
})

t.test('two logins in one policy are apart', async (t) => {
  const [first, second] = [await new FakeProvider().start(t), await new FakeProvider().start(t)]
  second.user = { ...second.user, sub: 'u2' }
  const action = ({ url }: FakeProvider, id: string) => `      - type: openid-connect
        config: {issuer_url: '${url}', auth_id: ${id}, client_id: ${CLIENT.id}, client_secret: '${CLIENT.secret}'}`
  const stand = new LoginStand(
    t,
    policy(`on_http_request:\n  - actions:\n${action(first, 'a')}\n${action(second, 'b')}`)
  )
  const browser = browse(stand)
  const page = await browser.visit(`${SITE}/x`)
  t.equal(page.url, `${SITE}/x`)
  t.same([first.count('/token'), second.count('/token')], [1, 1])
  t.match(stand.arrived.at(-1)?.results?.get('oidc'), { 'identity.provider_user_id': 'u2' })
  await browser.once(`${SITE}/.sluice/logout?auth_id=b`)
  await browser.visit(`${SITE}/x`)
  t.same([first.count('/token'), second.count('/token')], [1, 2], 'only one of them was ended')
})

t.test('a large session takes several cookies, and shrinks again', async (t) => {
  const { provider, stand, browser } = await stage(t, '          userinfo_refresh_interval: 30s', (provider) => {
    provider.refreshTokens = true
    provider.accessTokenLasts = 60
    provider.padding = 6_000
  })
  t.equal((await browser.visit(`${SITE}/`)).status, 200)
  const names = () => [...browser.cookies(HOST).keys()].filter((name) => name.includes('session'))
  t.equal(names().length, 3)
  for (const [name, { value }] of browser.cookies(HOST)) t.ok(name.length + value.length < 4_000)
  const [, second = ''] = names()
  const all = new Map(browser.cookies(HOST))
  browser.cookies(HOST).delete(second)
  t.equal((await browser.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status, 401, 'a part is no session')
  browser.jars.set(HOST, all)
  provider.padding = 0
  stand.clock.advance(61_000)
  t.equal((await browser.once(`${SITE}/`)).status, 200)
  t.equal(names().length, 1)
  provider.padding = 30_000
  t.match(await browse(stand).visit(`${SITE}/`), {
    status: 502,
    headers: { 'sluice-error-code': 'LOGIN_PROVIDER_FAILED' }
  })
})

t.test('a session of one place is worth nothing in another', async (t) => {
  const provider = await new FakeProvider().start(t)
  const keys = [Buffer.alloc(32, 1)]
  const [one, two] = ['edge-a', 'edge-b'].map(
    (owner) => new LoginStand(t, policy(oidcPolicy(provider), owner), { keys })
  ) as [LoginStand, LoginStand]
  const [first, second] = [browse(one), browse(two)]
  await first.visit(`${SITE}/`)
  await second.visit(`${SITE}/`)
  const own = [...second.cookies(HOST).keys()].find((name) => name.includes('session')) as string
  const [kept] = [...first.cookies(HOST)].filter(([name]) => name.includes('session'))
  t.not(kept?.[0], own)
  second.cookies(HOST).set(own, { value: kept?.[1].value ?? '', attributes: [] })
  t.equal((await second.once(`${SITE}/`, { headers: { accept: 'a/b' } })).status, 401)
})

t.test('a domain for the cookie is shared by its hosts and refused elsewhere', async (t) => {
  const { browser, stand } = await stage(t, '          auth_cookie_domain: example.com')
  await browser.visit(`${SITE}/`)
  const [[, { attributes }]] = [...browser.cookies(HOST)] as unknown as [[string, { attributes: readonly string[] }]]
  t.ok(attributes.includes('Domain=example.com'))
  const elsewhere = await stand.send('GET', new URL('http://app.other.test/'), PAGE, '')
  t.match(elsewhere, { status: 500, headers: { 'sluice-error-code': 'LOGIN_COOKIE_DOMAIN' } })
})

t.test('github: addresses, domains, teams over pages, organizations', async (t) => {
  const provider = await new FakeProvider().start(t)
  provider.user = { id: 4711, login: 'ann', name: null }
  provider.teams = Array.from({ length: 150 }, (_, i) => ({
    id: i,
    slug: `Team-${i}`,
    organization: { login: 'Acme' }
  }))
  provider.organizations = [{ login: 'Acme' }, { login: 'other' }]
  const providers = await readOperatorProviders(
    `github: {authorization_url: '${provider.url}/authorize', token_url: '${provider.url}/token', api_url: '${provider.url}/'}`
  )
  const value = {
    client_id: CLIENT.id,
    client_secret: true,
    scopes: ['gist'],
    email_addresses: [],
    email_domains: [],
    teams: [],
    organizations: []
  }
  const times = { inactivity_timeout: 0, maximum_duration: 0, auth_check_interval: 60 }
  const cases: [object, number][] = [
    [{}, 200],
    [{ email_addresses: ['ann@example.com'] }, 200],
    [{ email_addresses: ['bob@example.com'] }, 403],
    [{ email_addresses: ['ann@private.test'] }, 403],
    [{ email_domains: ['example.com'] }, 200],
    [{ email_domains: ['ample.com'] }, 403],
    [{ teams: ['acme/team-149'] }, 200],
    [{ teams: ['Acme/Team-149'] }, 200],
    [{ teams: ['149'] }, 200],
    [{ teams: ['acme/team-150'] }, 403],
    [{ teams: ['other/team-1'] }, 403],
    [{ organizations: ['ACME'] }, 200],
    [{ organizations: ['acm'] }, 403],
    [{ email_addresses: ['bob@example.com'], organizations: ['acme'] }, 200]
  ]
  for (const [lists, status] of cases) {
    const config = {
      provider: { name: 'github', value: { ...value, ...lists } },
      options_passthrough: true,
      cookie_prefix: 'pre.',
      ...times
    }
    const stand = new LoginStand(t, moduleStep('oauth', config, { 'provider.github.client_secret': CLIENT.secret }), {
      providers
    })
    const browser = browse(stand)
    const page = await browser.visit(`${SITE}/`)
    t.equal(page.status, status, JSON.stringify(lists))
    if (status === 403) {
      t.equal(page.headers['sluice-error-code'], 'LOGIN_NOT_ALLOWED')
      t.equal(stand.arrived.length, 0)
      continue
    }
    t.match(stand.arrived[0]?.results?.get('oauth'), {
      'identity.provider_user_id': '4711',
      'identity.name': 'ann',
      'identity.email': 'Ann@Example.com',
      'identity.current_provider_session_id': /./
    })
    t.ok([...browser.cookies(HOST).keys()].every((name) => name.startsWith('pre.')))
    t.equal((await stand.send('OPTIONS', new URL(SITE), {}, '')).status, 200)
  }
  t.equal(provider.authorizations[0]?.get('scope'), 'gist read:org read:user user:email')
  const config = {
    provider: { name: 'github', value: { ...value, organizations: ['acme'] } },
    options_passthrough: false,
    cookie_prefix: 'p.',
    ...times
  }
  const stand = new LoginStand(t, moduleStep('oauth', config, { 'provider.github.client_secret': CLIENT.secret }), {
    providers
  })
  const browser = browse(stand)
  await browser.visit(`${SITE}/`)
  provider.organizations = []
  stand.clock.advance(59_999)
  t.equal((await browser.once(`${SITE}/`)).status, 200)
  stand.clock.advance(1)
  t.match(await browser.once(`${SITE}/`), { status: 403 }, 'who has left the organization is out after the interval')
  t.equal((await stand.send('OPTIONS', new URL(SITE), {}, '')).status, 401)
})

t.test('every well-known provider, as it is', async (t) => {
  const users: Readonly<Record<ProviderName, object>> = {
    amazon: { user_id: 'u1', name: 'Ann', email: 'ann@example.com' },
    facebook: { id: 'u1', name: 'Ann', email: 'ann@example.com' },
    github: { id: 'u1', login: 'ann', name: 'Ann' },
    gitlab: { sub: 'u1', name: 'Ann', email: 'ann@example.com', email_verified: true },
    google: { sub: 'u1', name: 'Ann', email: 'ann@example.com', email_verified: true },
    linkedin: { sub: 'u1', name: 'Ann', email: 'ann@example.com', email_verified: true },
    microsoft: { id: 'u1', displayName: 'Ann', mail: null, userPrincipalName: 'ann@example.com' },
    twitch: { id: 'u1', login: 'ann', display_name: 'Ann', email: 'ann@example.com' }
  }
  for (const name of PROVIDER_NAMES) {
    const provider = await new FakeProvider().start(t)
    provider.user = { ...users[name] }
    provider.emails = [{ email: 'ann@example.com', verified: true, primary: true }]
    provider.plain = name === 'linkedin'
    if (name === 'github') provider.names = '/login/oauth'
    const { url } = provider
    const api = `authorization_url: '${url}/authorize', token_url: '${url}/token', api_url: '${url}'`
    const providers = await readOperatorProviders(
      `${name}: {${PROVIDERS[name].kind === 'openid' ? `issuer: '${url}'` : api}}`
    )
    const value = {
      client_id: CLIENT.id,
      client_secret: true,
      scopes: [],
      email_addresses: [],
      email_domains: ['example.com']
    }
    const config = {
      provider: { name, value },
      options_passthrough: false,
      cookie_prefix: 'p.',
      inactivity_timeout: 0,
      maximum_duration: 0,
      auth_check_interval: 60
    }
    const secrets = { [`provider.${name}.client_secret`]: CLIENT.secret }
    const stand = new LoginStand(t, moduleStep('oauth', config, secrets), { providers })
    const browser = browse(stand)
    t.equal((await browser.visit(`${SITE}/`)).status, 200, name)
    t.match(stand.arrived[0]?.results?.get('oauth'), {
      'identity.provider_user_id': 'u1',
      'identity.name': 'Ann',
      'identity.email': 'ann@example.com'
    })
    const asked = provider.authorizations[0]
    t.equal(asked?.has('code_challenge'), PROVIDERS[name].proofKey, name)
    t.equal(asked?.has('nonce'), ['gitlab', 'google'].includes(name), name)
    provider.gone = true
    stand.clock.advance(60_000)
    t.equal((await browser.once(`${SITE}/`)).status, 302, `${name} is asked about the user after the interval`)
    t.same(provider.faults, [])
  }
})

t.test('without an application nobody passes, and none is asked', async (t) => {
  const config = {
    provider: { name: 'google', value: { client_id: '', scopes: [], email_addresses: [], email_domains: [] } },
    options_passthrough: false,
    cookie_prefix: 'p.',
    inactivity_timeout: 0,
    maximum_duration: 0,
    auth_check_interval: 0
  }
  const stand = new LoginStand(t, moduleStep('oauth', config, {}))
  for (const headers of [PAGE, { accept: 'a/b' }, { ...PAGE, cookie: 'p.session.sl0123456789ab=x' }]) {
    const answer = await stand.send('GET', new URL(`${SITE}/`), headers, '')
    t.match(answer, { status: 503, headers: { 'sluice-error-code': 'LOGIN_APPLICATION_MISSING' } })
  }
  t.equal(stand.arrived.length, 0)
})

t.test("the operator's application serves who has none", async (t) => {
  const provider = await new FakeProvider().start(t)
  const providers = await readOperatorProviders(
    `google: {client_id: ${CLIENT.id}, client_secret: '${CLIENT.secret}', issuer: '${provider.url}'}`
  )
  const text = 'on_http_request: [{actions: [{type: oauth, config: {provider: google, email_domains: [example.com]}}]}]'
  const stand = new LoginStand(t, policy(text), { providers })
  t.equal((await browse(stand).visit(`${SITE}/`)).status, 200)
  t.match(provider.authorizations[0]?.get('scope'), /^openid .*userinfo\.email/)
  provider.user = { ...provider.user, email_verified: false }
  t.equal((await browse(stand).visit(`${SITE}/`)).status, 403, 'an address that nobody has checked counts for nothing')
})
