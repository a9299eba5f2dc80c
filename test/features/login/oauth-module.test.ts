import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../../src/lib/clock.js'
import { ManualClock } from '../../helpers/clock.js'
import { outcome, startRoute } from '../route.js'
import { Browser, overNetwork } from './browser.js'
import { CLIENT, FakeProvider } from './fake-provider.js'
import { logIn, RealProvider } from './real-provider.js'

const HOST = 'app.example.com'
const application = { client_id: CLIENT.id, client_secret: CLIENT.secret }

/** The product, an upstream that repeats what it sees, and the operator's file of providers. */
async function stage(t: Test, providers: string, modules: Readonly<Record<string, unknown>> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-login-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'providers.yaml')
  await writeFile(file, providers)
  const seen: { url: string | undefined; headers: NodeJS.Dict<string | string[]> }[] = []
  const clock = new ManualClock(systemClock.wall())
  const route = await startRoute(
    t,
    (request, response) => {
      seen.push({ url: request.url, headers: request.headers })
      response.end('the upstream')
    },
    modules,
    { clock, options: { OUTBOUND_ALLOW_PRIVATE: 'on', LOGIN_PROVIDERS: file } }
  )
  const site = `http://${HOST}:${route.sluice.port}`
  return { ...route, seen, clock, site }
}

for (const [name, body] of [
  ['oauth', { provider: { google: { ...application, email_domains: ['example.com'] } }, auth_check_interval: 60 }],
  ['oidc', { ...application, scopes: ['email', 'profile'] }]
] as const) {
  t.test(`${name} at a real provider: login, session, logout`, async (t) => {
    const provider = await new RealProvider().start(t)
    const { put, seen, site, get, sluice, remove } = await stage(t, `google: {issuer: '${provider.url}'}`)
    provider.register(`${site}/.sluice/callback`)
    await put(name, { ...body, ...(name === 'oidc' ? { issuer: provider.url } : {}), inactivity_timeout: 600 })
    const value = `on_http_request: [{actions: [{type: add-headers, config: {headers: {x-user: "\${actions.service.${name}.identity.email}"}}}]}]`
    await put('traffic_policy', { value })

    const browser = new Browser(overNetwork)
    const page = await logIn(browser, `${site}/start?a=b`, 'ann')
    t.match(page, { status: 200, body: 'the upstream', url: `${site}/start?a=b` })
    t.equal(seen.length, 1)
    t.equal(seen[0]?.headers['x-user'], 'ann@example.com')
    t.notOk(seen[0]?.headers.cookie)
    t.match(await browser.once(`${site}/again`), { status: 200 })
    t.equal(outcome(await get()), '302')
    t.equal(outcome(await get({ method: 'POST' })), '401 LOGIN_REQUIRED')
    t.equal(outcome(await get({ headers: { cookie: 'sluice.session.sl0123456789ab=abc' } })), '302')

    t.match(await browser.once(`${site}/.sluice/logout`), { status: 200, body: /logged out/ })
    t.equal(seen.length, 2)
    const again = await browser.visit(`${site}/`)
    t.equal(again.status, 200, 'the provider still knows the user')
    const log = JSON.stringify(sluice.log)
    for (const { value } of browser.cookies(HOST).values()) t.notOk(log.includes(value))
    t.notOk(log.includes(CLIENT.secret))
    await remove('traffic_policy')
    await remove(name)
    t.equal((await get()).body.toString(), 'the upstream')
  })
}

t.test('a logout at a real provider: the next visitor has to log in there', async (t) => {
  const provider = await new RealProvider().start(t)
  const { put, site } = await stage(t, '')
  provider.register(`${site}/.sluice/callback`)
  await put('oidc', { ...application, issuer: provider.url, scopes: ['email'], provider_logout: true })
  const browser = new Browser(overNetwork)
  t.equal((await logIn(browser, `${site}/`, 'ann')).body, 'the upstream')
  const asked = await browser.visit(`${site}/.sluice/logout?redirect_path=/bye`)
  t.match(asked, { status: 200, body: /xsrf/ })
  t.ok(asked.url.startsWith(provider.url))
  const end = await browser.submit(asked, { logout: 'yes' })
  t.ok(browser.trail.some((url) => url.startsWith(`${site}/.sluice/logout?state=`)))
  t.match(end.body, /name="login"/, 'the provider does not know the user any more')
})

t.test('at a real provider only an address that it vouches for reaches rules and lists', async (t) => {
  const provider = await new RealProvider().start(t)
  const { put, remove, seen, site } = await stage(t, `google: {issuer: '${provider.url}'}`)
  provider.register(`${site}/.sluice/callback`)
  provider.verified = (id) =>
    id.startsWith('silent') ? {} : { email_verified: !id.startsWith('liar') && !id.startsWith('stranger') }
  const document = (name: string) => {
    const found = `actions.service.${name}`
    const shown = ['identity.email', 'identity.email_verified', "profile.emails.join(',')"]
    return JSON.stringify({
      on_http_request: [
        { expressions: [`!${found}.identity.email.endsWith('@acme.com')`], actions: [{ type: 'deny', config: {} }] },
        {
          actions: [
            {
              type: 'add-headers',
              config: { headers: { 'x-user': shown.map((path) => `\${${found}.${path}}`).join(' ') } }
            }
          ]
        }
      ]
    })
  }
  const visit = async (user: string) => {
    seen.length = 0
    const page = await logIn(new Browser(overNetwork), `${site}/`, user)
    return `${page.status} ${page.headers['sluice-error-code'] ?? seen[0]?.headers['x-user'] ?? ''}`
  }
  const oidc = { ...application, issuer: provider.url, scopes: ['email'] }
  for (const [name, config, silent] of [
    ['oidc', oidc, '403'],
    ['oidc', { ...oidc, assume_email_verified: true }, '200 silent@acme.com true silent@acme.com'],
    ['oauth', { provider: { google: application } }, '403']
  ] as const) {
    await put(name, config)
    await put('traffic_policy', { value: document(name) })
    t.equal(await visit('Ann@acme.com'), '200 Ann@acme.com true ann@acme.com', name)
    t.match(await visit('liar@acme.com'), /^403/, `${name}: the provider says that it has not checked the address`)
    t.match(await visit('silent@acme.com'), new RegExp(`^${silent}`), `${name}: it says nothing`)
    await remove('traffic_policy')
    await remove(name)
  }
  for (const list of [{ email_domains: ['acme.com'] }, { email_addresses: ['ann@acme.com', 'stranger@acme.com'] }]) {
    await put('oauth', { provider: { google: { ...application, ...list } } })
    t.match(await visit('Ann@acme.com'), /^200/)
    t.equal(await visit('stranger@acme.com'), '403 LOGIN_NOT_ALLOWED', JSON.stringify(list))
    await remove('oauth')
  }
})

t.test('a prefix of cookies is what is written, and an empty one is none', async (t) => {
  const provider = await new FakeProvider().start(t)
  const { put, seen, site } = await stage(t, `google: {issuer: '${provider.url}'}`)
  for (const [name, config] of [
    ['oauth', { provider: { google: application } }],
    ['oidc', { ...application, issuer: provider.url }]
  ] as const) {
    for (const prefix of ['my.', '']) {
      await put(name, { ...config, enabled: true, cookie_prefix: prefix })
      const browser = new Browser(overNetwork)
      t.equal((await browser.visit(`${site}/`)).status, 200)
      const names = [...browser.cookies(HOST).keys()]
      t.match(names, [new RegExp(`^${prefix.replace('.', '\\.')}session\\.sl[0-9a-f]{12}$`)], `${name} "${prefix}"`)
      t.equal((await browser.once(`${site}/`)).status, 200, 'the session is found again')
      t.notOk(seen.at(-1)?.headers.cookie, 'the upstream does not see it')
    }
    await put(name, { ...config, enabled: false })
  }
})

t.test('a user whom the provider has dropped is out after the interval, and not before', async (t) => {
  const provider = await new RealProvider().start(t)
  const { put, site, clock } = await stage(t, `google: {issuer: '${provider.url}'}`)
  provider.register(`${site}/.sluice/callback`)
  await put('oauth', { provider: { google: application }, auth_check_interval: 60 })
  const browser = new Browser(overNetwork)
  await logIn(browser, `${site}/`, 'ann')
  provider.gone.add('ann')
  clock.advance(59_999)
  t.equal((await browser.once(`${site}/`)).status, 200)
  clock.advance(1)
  const out = await browser.once(`${site}/`)
  t.equal(out.status, 302)
  t.ok(String(out.headers.location).startsWith(`${provider.url}/auth?`))
})

t.test('cookies that were changed, cut, mixed, brought elsewhere or kept too long begin a new login', async (t) => {
  const provider = await new FakeProvider().start(t)
  provider.padding = 5_000
  const { put, site, seen, clock, made, edge, get } = await stage(t, '')
  await put('oidc', { ...application, issuer: provider.url, maximum_duration: 3600 })
  const backend = await made('/backends/http_response', { status_code: 200, body: 'beside' })
  const beside = { match: '/beside', backend: { backend_id: backend.id } }
  await made(`/edges/https/${edge}/routes`, { ...beside, oidc: { ...application, issuer: provider.url } })
  const browser = new Browser(overNetwork)
  await browser.visit(`${site}/`)
  await browser.visit(`${site}/beside`)
  const all = [...browser.cookies(HOST)].map(([name, { value }]) => [name, value] as const)
  const own = all.slice(0, all.length / 2)
  const other = all.slice(all.length / 2)
  t.match([own.length, other.length], [3, 3], 'sessions in three pieces each')
  const ask = async (cookies: readonly (readonly [string, string])[], path = '/') => {
    const cookie = cookies.map(([name, value]) => `${name}=${value}`).join('; ')
    return outcome(await get({ path, headers: { cookie, accept: 'text/html' } }))
  }
  t.equal(await ask(own), '200')
  t.equal(await ask([...own].reverse()), '200', 'in any order')
  const before = seen.length
  for (const [i, [name, value]] of own.entries()) {
    const changed = (text: string) => own.map((one, at) => (at === i ? ([name, text] as const) : one))
    const flip = value.endsWith('A') ? 'B' : 'A'
    for (const text of [value.slice(0, -1) + flip, value.slice(0, -1), `${value}A`, '', other[i]?.[1] ?? ''])
      t.equal(await ask(changed(text)), '302', `${i}: ${text.slice(0, 8)}`)
    t.equal(await ask(own.filter((_, at) => at !== i)), '302')
  }
  t.equal(await ask(own, '/beside'), '302', 'another route')
  t.equal(
    await ask(
      own.map(([, value], i) => [other[i]?.[0] ?? '', value] as const),
      '/beside'
    ),
    '302',
    'under its names'
  )
  clock.advance(3_600_000)
  t.equal(await ask(own), '302')
  t.equal(seen.length, before, 'nothing of this reached the upstream')
})

t.test('an identity provider in trouble: who is logged in passes, others read a page that says so', async (t) => {
  const provider = await new FakeProvider().start(t)
  provider.user = { id: 1, login: 'ann', name: 'Ann' }
  const { url } = provider
  const file = `github: {authorization_url: '${url}/authorize', token_url: '${url}/token', api_url: '${url}'}`
  const { put, site, clock, seen } = await stage(t, file)
  await put('oauth', { provider: { github: { ...application, organizations: ['acme'] } }, auth_check_interval: 60 })
  provider.organizations = [{ login: 'acme' }]
  const ann = new Browser(overNetwork)
  t.equal((await ann.visit(`${site}/`)).status, 200)
  for (const [path, status, code, broken] of [
    ['/token', 503, 'LOGIN_PROVIDER_UNAVAILABLE', (response) => response.writeHead(500).end()],
    ['/token', 502, 'LOGIN_PROVIDER_FAILED', (response) => response.end('<html>')],
    ['/user', 503, 'LOGIN_PROVIDER_UNAVAILABLE', (response) => response.destroy()],
    ['/user/orgs', 503, 'LOGIN_PROVIDER_UNAVAILABLE', (response) => response.writeHead(429).end()],
    ['/user/orgs', 502, 'LOGIN_PROVIDER_FAILED', (response) => response.end('{"login": "acme"}')],
    ['/user/emails', 502, 'LOGIN_PROVIDER_FAILED', (response) => response.end('[1')]
  ] as const satisfies readonly (readonly [string, number, string, (response: ServerResponse) => unknown])[]) {
    provider.broken.set(path, broken)
    clock.advance(60_000)
    t.equal((await ann.once(`${site}/`)).status, 200, `${path}: a session passes`)
    const bob = await new Browser(overNetwork).visit(`${site}/`)
    t.match(bob, { status, headers: { 'sluice-error-code': code, 'content-type': /html/ }, body: /<h1>The identity/ })
    provider.broken.clear()
    clock.advance(60_000)
    t.equal((await ann.once(`${site}/`)).status, 200)
  }
  t.equal(seen.length, 13)
})

t.test('inactivity and maximum duration of a module, to the second', async (t) => {
  const provider = await new RealProvider().start(t)
  const { put, site, clock } = await stage(t, `google: {issuer: '${provider.url}'}`)
  provider.register(`${site}/.sluice/callback`)
  const browser = new Browser(overNetwork)
  const ask = async () => (await browser.once(`${site}/`)).status
  await put('oauth', { provider: { google: application }, inactivity_timeout: 60, maximum_duration: 100 })
  await logIn(browser, `${site}/`, 'ann')
  for (const [milliseconds, status] of [
    [59_999, 200],
    [40_000, 200],
    [1, 302]
  ] as const) {
    clock.advance(milliseconds)
    t.equal(await ask(), status, 'one hundred seconds after the login')
  }
  await logIn(browser, `${site}/`, 'ann')
  clock.advance(59_999)
  t.equal(await ask(), 200)
  await put('oauth', { provider: { google: application }, inactivity_timeout: 30 })
  clock.advance(29_999)
  t.equal(await ask(), 200, 'the session outlives the change')
  clock.advance(30_000)
  t.equal(await ask(), 302, 'half a minute after the last request')
})

t.test('who may pass changes with the module, while sessions stay', async (t) => {
  const provider = await new FakeProvider().start(t)
  provider.user = { id: 1, login: 'ann', name: 'Ann' }
  provider.organizations = [{ login: 'acme' }]
  provider.teams = [{ id: 5, slug: 'core', organization: { login: 'acme' } }]
  const file = `github: {client_id: ${CLIENT.id}, client_secret: '${CLIENT.secret}', authorization_url: '${provider.url}/authorize', token_url: '${provider.url}/token', api_url: '${provider.url}'}`
  const { put, site, seen, api, path } = await stage(t, file, { oauth: { provider: { github: {} } } })
  const browser = new Browser(overNetwork)
  t.equal((await browser.visit(`${site}/`)).status, 200, "the operator's application serves")
  await put('oauth', { provider: { github: { email_addresses: ['bob@example.com'] } } })
  t.match(await browser.once(`${site}/`), { status: 403, headers: { 'sluice-error-code': 'LOGIN_NOT_ALLOWED' } })
  await put('oauth', { provider: { github: { email_addresses: ['ann@example.com'] } } })
  t.equal((await browser.once(`${site}/`)).status, 200)
  const logins = provider.count('/token')
  await put('oauth', { provider: { github: { teams: ['acme/core'] } } })
  t.equal((await browser.once(`${site}/`)).status, 200, 'nobody had asked about this team yet')
  await put('oauth', { provider: { github: { teams: ['acme/other'], organizations: ['elsewhere'] } } })
  t.equal((await browser.once(`${site}/`)).status, 403)
  await put('oauth', { provider: { github: { organizations: ['acme'] } } })
  t.equal((await browser.once(`${site}/`)).status, 200)
  const questions = provider.count('/user/orgs')
  t.equal((await browser.once(`${site}/`)).status, 200)
  t.equal(provider.count('/user/orgs'), questions, 'once for each list')
  t.equal(provider.count('/token'), logins, 'and no login was needed')
  t.equal(seen.length, 5)
  const scopes = await api('PUT', `${path}/oauth`, { provider: { github: { scopes: ['gist'] } } })
  t.equal(scopes.status, 400, 'scopes need an application of their own')
  t.equal((await api('PUT', `${path}/oauth`, { provider: { github: { client_id: 'x' } } })).status, 400)
  const both = await api('PUT', `${path}/oidc`, { ...application, issuer: provider.url })
  t.match(both, { status: 400, json: { error_code: 'ERR_SLUICE_CONFLICTING_FIELDS' } })
})

t.test('without an application: 503 with a code of its own, and nothing is forwarded', async (t) => {
  const { get, seen, put } = await stage(t, '', { oauth: { provider: { google: {} }, options_passthrough: true } })
  t.equal(outcome(await get()), '503 LOGIN_APPLICATION_MISSING')
  t.equal(outcome(await get({ path: '/.sluice/login' })), '503 LOGIN_APPLICATION_MISSING')
  t.equal(seen.length, 0)
  t.equal(outcome(await get({ method: 'OPTIONS' })), '200')
  await put('oauth', { enabled: false, provider: { google: {} } })
  t.equal(outcome(await get()), '200')
})

t.test('the action in a route policy, its secret from a vault, behind TLS that a trusted proxy ends', async (t) => {
  const provider = await new FakeProvider().start(t)
  const { put, made, sluice, seen } = await stage(t, '')
  const vault = await made('/vaults', { name: 'login' })
  await made('/vault_secrets', { name: 'client', value: CLIENT.secret, vault_id: vault.id })
  const value = `on_http_request:
  - actions:
      - type: openid-connect
        config:
          issuer_url: ${provider.url}
          client_id: ${CLIENT.id}
          client_secret: "\${secrets.get('login', 'client')}"
          max_session_duration: 1h
  - expressions: ["actions.service.oidc.identity.provider_user_id != 'u1'"]
    actions: [{type: deny}]
`
  await put('traffic_policy', { value })
  const browser = new Browser((method, url, headers, body) =>
    url.hostname === HOST
      ? overNetwork(
          method,
          new URL(`http://${HOST}:${sluice.port}${url.pathname}${url.search}`),
          { ...headers, host: HOST, 'x-forwarded-proto': 'https' },
          body
        )
      : overNetwork(method, url, headers, body)
  )
  const page = await browser.visit(`https://${HOST}/x`)
  t.equal(page.status, 200)
  t.equal(provider.authorizations[0]?.get('redirect_uri'), `https://${HOST}:${sluice.port}/.sluice/callback`)
  t.ok([...browser.cookies(HOST).keys()].every((name) => name.startsWith('__Host-')))
  t.equal(seen.length, 1)
  t.notOk(JSON.stringify(sluice.log).includes(CLIENT.secret))
})
