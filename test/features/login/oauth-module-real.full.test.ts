import t from 'tap'
import { outcome } from '../route.js'
import { Browser, overNetwork } from './browser.js'
import { CLIENT } from './fake-provider.js'
import { application, HOST, stage } from './module-stage.js'
import { logIn, RealProvider } from './real-provider.js'

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
