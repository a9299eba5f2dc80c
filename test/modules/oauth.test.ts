import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../src/lib/clock.js'
import { ManualClock } from '../helpers/clock.js'
import { Browser, overNetwork } from '../policy/login/browser.js'
import { CLIENT, FakeProvider } from '../policy/login/fake-provider.js'
import { logIn, RealProvider } from '../policy/login/real-provider.js'
import { outcome, startRoute } from './route.js'

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
  await put('oauth', { provider: { github: { teams: ['acme/core'] } } })
  await browser.once(`${site}/.sluice/logout`)
  t.equal((await browser.visit(`${site}/`)).status, 200)
  t.equal(seen.length, 3)
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
