import type { ServerResponse } from 'node:http'
import t from 'tap'
import { outcome } from '../route.js'
import { Browser, overNetwork } from './browser.js'
import { CLIENT, FakeProvider } from './fake-provider.js'
import { application, HOST, stage } from './module-stage.js'

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
