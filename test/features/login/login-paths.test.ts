import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { account, create } from '../../helpers/account.js'
import { startSluice } from '../../helpers/sluice.js'
import { Browser, overNetwork } from './browser.js'
import { CLIENT, FakeProvider } from './fake-provider.js'
import { logIn, RealProvider } from './real-provider.js'

const HOST = 'app.example.com'
const application = { client_id: CLIENT.id, client_secret: CLIENT.secret }
const oidc = ({ url }: { url: string }, more: object = {}) => ({ ...application, issuer: url, ...more })
const action = ({ url }: { url: string }, more: object = {}) => ({
  type: 'openid-connect',
  config: { ...application, issuer_url: url, scopes: ['openid', 'email'], ...more }
})

/** The product with an upstream that notes paths, and an edge without routes. */
async function stage(t: Test, options: Readonly<Record<string, string>> = {}) {
  const seen: string[] = []
  const upstream = createServer((request, response) => {
    seen.push(request.url ?? '')
    response.end(`cookie: ${request.headers.cookie ?? ''}`)
  }).listen(0, '127.0.0.1')
  await new Promise((listening) => upstream.once('listening', listening))
  t.teardown(() => {
    upstream.close()
    upstream.closeAllConnections()
  })
  const folder = await mkdtemp(join(tmpdir(), 'sluice-login-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const sluice = await startSluice(t, { options: { OUTBOUND_ALLOW_PRIVATE: 'on', ...options } })
  const port = (upstream.address() as AddressInfo).port
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
  const entry = async (host: string) => {
    const edge = await create(sluice, '/edges/https', { hostports: [`${host}:443`] })
    return (match: string, modules: object = {}) =>
      create(sluice, `/edges/https/${edge.id}/routes`, { match, backend: { backend_id: backend.id }, ...modules })
  }
  const site = `http://${HOST}:${sluice.port}`
  return { sluice, seen, site, entry, route: await entry(HOST), browser: () => new Browser(overNetwork) }
}

const policyOf = (...rules: object[]) => ({ traffic_policy: { value: JSON.stringify({ on_http_request: rules }) } })

t.test('a route that matches none of the paths of its login: a real provider leads back all the same', async (t) => {
  const provider = await new RealProvider().start(t)
  const { route, site, seen, browser } = await stage(t)
  await route('/app', { oidc: oidc(provider, { scopes: ['email'] }) })
  provider.register(`${site}/.sluice/callback`)
  const ann = browser()
  const page = await logIn(ann, `${site}/app/start?a=b`, 'ann')
  t.match(page, { status: 200, url: `${site}/app/start?a=b`, body: 'cookie: ' })
  t.equal((await ann.once(`${site}/other`)).status, 404, 'there is no such route')
  t.match(await ann.once(`${site}/.sluice/logout`), { status: 200, body: /logged out/ })
  t.equal((await ann.once(`${site}/app`)).status, 302)
  t.equal((await ann.visit(`${site}/ngrok/login`)).url, `${site}/app`, 'the login leads to its own route')
  t.match(await ann.once(`${site}/ngrok/logout?redirect_path=/bye`), { headers: { location: `${site}/bye` } })
  t.same(seen, ['/app/start?a=b', '/app'])
})

t.test('an open route beside it takes none of these paths, and one without a login keeps them', async (t) => {
  const provider = await new FakeProvider().start(t)
  const { route, site, seen, browser, entry, sluice } = await stage(t)
  await route('/')
  await route('/app', { oidc: oidc(provider) })
  const ann = browser()
  t.equal((await ann.once(`${site}/`)).status, 200)
  t.equal((await ann.visit(`${site}/app`)).status, 200)
  t.equal((await ann.visit(`${site}/.sluice/login?redirect_path=/app/next`)).url, `${site}/app/next`)
  t.equal((await ann.once(`${site}/`)).body, 'cookie: ', 'the open route passes no cookie of ours on')
  await ann.once(`${site}/.sluice/logout`)
  t.same(seen, ['/', '/app', '/app/next', '/'])
  const plain = await entry('plain.example.com')
  await plain('/')
  t.equal((await ann.once(`http://plain.example.com:${sluice.port}/.sluice/login`)).status, 200)
  t.equal(seen.at(-1), '/.sluice/login', 'an entry without a login has no paths of logins')
})

t.test('several logins of one edge: each callback goes to where it was begun', async (t) => {
  const [first, second, third] = [
    await new FakeProvider().start(t),
    await new FakeProvider().start(t),
    await new FakeProvider().start(t)
  ]
  const { route, site, browser } = await stage(t)
  await route('/a', { oidc: oidc(first) })
  await route('/b', { oidc: oidc(second) })
  await route('/c', policyOf({ actions: [action(third, { auth_id: 'third' })] }))
  const counts = () => [first, second, third].map((provider) => provider.count('/token'))
  const ann = browser()
  const begun = []
  for (const path of ['/a', '/b', '/c']) begun.push(await ann.once(site + path))
  for (const [i, path] of [
    [2, '/c'],
    [0, '/a'],
    [1, '/b']
  ] as const) {
    const back = await ann.once(String(begun[i]?.headers.location))
    const answer = await ann.once(String(back.headers.location))
    t.equal(answer.headers.location, site + path, 'tabs that were opened at once end in any order')
  }
  t.same(counts(), [1, 1, 1])
  for (const path of ['/a', '/b', '/c']) t.equal((await ann.once(site + path)).status, 200)
  t.equal((await ann.visit(`${site}/.sluice/login?redirect_path=/b/x`)).url, `${site}/b/x`)
  t.same(counts(), [1, 2, 1], 'the login of where the browser wants to go')
  t.equal((await ann.visit(`${site}/.sluice/login?auth_id=third`)).url, `${site}/c`)
  t.same(counts(), [1, 2, 2])
  await ann.once(`${site}/.sluice/logout?auth_id=third`)
  t.same(await statuses(ann, site), [200, 200, 302], 'one of them')
  await ann.once(`${site}/.sluice/logout`)
  t.same(await statuses(ann, site), [302, 302, 302], 'all of them')
})

const statuses = async (browser: Browser, site: string) => {
  const found = []
  for (const path of ['/a', '/b', '/c']) found.push((await browser.once(site + path)).status)
  return found
}

t.test('a policy whose rules do not hold for these paths, or refuse them', async (t) => {
  const provider = await new FakeProvider().start(t)
  const { route, site, browser, seen, sluice } = await stage(t)
  await route(
    '/',
    policyOf(
      { expressions: ["!req.url.path.startsWith('/app')"], actions: [{ type: 'deny', config: { status_code: 404 } }] },
      { expressions: ["req.url.path.startsWith('/app')"], actions: [action(provider)] }
    )
  )
  const ann = browser()
  t.equal((await ann.visit(`${site}/app/x`)).url, `${site}/app/x`)
  t.equal((await ann.once(`${site}/else`)).status, 404)
  t.match(await ann.once(`${site}/.sluice/logout`), { body: /logged out/ })
  t.equal((await ann.visit(`${site}/.sluice/login?redirect_path=/app/y`)).status, 200)
  t.same(seen, ['/app/x', '/app/y'])
  const line = await sluice.line(({ path }) => path === '/.sluice/callback')
  t.match(line, { rule: '#1', action: 'openid-connect', query: /^code=\[redacted\]&state=\[redacted\]/ })
})

t.test('two actions of one document at one provider: who is asked is who began', async (t) => {
  const provider = await new FakeProvider().start(t)
  provider.user = { id: 1, login: 'ann', name: 'Ann' }
  const { url } = provider
  const file = `github: {authorization_url: '${url}/authorize', token_url: '${url}/token', api_url: '${url}'}`
  const folder = await mkdtemp(join(tmpdir(), 'sluice-login-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'providers.yaml'), file)
  const { route, site, browser } = await stage(t, { LOGIN_PROVIDERS: join(folder, 'providers.yaml') })
  const oauth = (more: object) => ({ type: 'oauth', config: { provider: 'github', ...application, ...more } })
  await route(
    '/',
    policyOf(
      { expressions: ["req.url.path.startsWith('/admin')"], actions: [oauth({ email_domains: ['corp.example'] })] },
      { expressions: ["!req.url.path.startsWith('/admin')"], actions: [oauth({ email_domains: ['example.com'] })] }
    )
  )
  const ann = browser()
  t.equal((await ann.visit(`${site}/x`)).status, 200, 'the lists of the other action do not count')
  const refused = await ann.once(`${site}/admin`)
  t.match(refused, { status: 403, headers: { 'sluice-error-code': 'LOGIN_NOT_ALLOWED' } })
  const link = /href="([^"]*)"/.exec(refused.body)?.[1]?.replaceAll('&amp;', '&') ?? ''
  t.match(link, /^\/\.sluice\/login\?login=sl[0-9a-f]{12}\.[0-9a-f]{8}&redirect_path=%2Fadmin$/)
  t.match(await ann.visit(site + link), { status: 403 }, 'the link leads to the login that refused')
  t.equal((await ann.once(`${site}/x`)).status, 200, 'and a refused login ends no session')
})

t.test('who may not come at all reaches no login either', async (t) => {
  const provider = await new FakeProvider().start(t)
  const { route, site, browser, sluice } = await stage(t, { TRUSTED_PROXIES: '127.0.0.1/32' })
  const policy = await create(sluice, '/ip_policies', {})
  await create(sluice, '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'allow' })
  await route('/app', { oidc: oidc(provider), ip_restriction: { ip_policy_ids: [policy.id] } })
  const from = (address: string) => ({ headers: { accept: 'text/html', 'x-forwarded-for': address } })
  t.equal((await browser().once(`${site}/.sluice/login`, from('198.51.100.1'))).status, 403)
  t.equal((await browser().once(`${site}/.sluice/login`, from('192.0.2.1'))).status, 302)
})

t.test('wherever somebody is asked to be sent, it is this origin', async (t) => {
  const provider = await new FakeProvider().start(t)
  const { route, site, browser } = await stage(t)
  await route('/app', { oidc: oidc(provider) })
  const spellings = [
    ...['//evil.test', '/\\evil.test', '\\\\evil.test', '%2f%2fevil.test', '/%2fevil.test', '/%5cevil.test'],
    ...[
      'https://evil.test',
      'https:evil.test',
      'javascript:alert(1)',
      '/%09/evil.test',
      '/%0a/evil.test',
      '///evil.test'
    ],
    ...['/.//evil.test', '/x/..//evil.test', '/%252fevil.test', '@evil.test', '/.sluice/logout', '/\u00a0/evil.test']
  ]
  for (const spelling of spellings) {
    for (const written of [spelling, encodeURIComponent(spelling)]) {
      const ann = browser()
      t.equal((await ann.visit(`${site}/.sluice/login?redirect_path=${written}`)).url, `${site}/app`, written)
      const out = await ann.once(`${site}/.sluice/logout?redirect_path=${written}`)
      t.match([out.status, out.headers.location], [200, undefined], written)
    }
  }
})

t.test('the login of an internal entry that a policy leads to', async (t) => {
  const provider = await new FakeProvider().start(t)
  const { route, entry, site, browser, seen } = await stage(t)
  const inner = await entry('inner.internal')
  await inner('/app', { oidc: oidc(provider) })
  await route('/', policyOf({ actions: [{ type: 'forward-internal', config: { url: 'http://inner.internal:443' } }] }))
  const ann = browser()
  t.match(await ann.visit(`${site}/app/x`), { status: 200, url: `${site}/app/x` })
  t.match(await ann.once(`${site}/.sluice/logout`), { body: /logged out/ })
  t.same(seen, ['/app/x'])
})

t.test('a login at the public entry, and one more at the internal entry behind it', async (t) => {
  const [outer, inner] = [await new FakeProvider().start(t), await new FakeProvider().start(t)]
  const { route, entry, site, browser, seen } = await stage(t)
  const behind = await entry('inner.internal')
  await behind('/app', { oidc: oidc(inner) })
  const lead = { type: 'forward-internal', config: { url: 'http://inner.internal:443' } }
  await route('/', policyOf({ actions: [action(outer, { auth_id: 'outer' }), lead] }))
  const ann = browser()
  t.match(await ann.visit(`${site}/app/x`), { status: 200, url: `${site}/app/x` })
  t.same([outer.count('/token'), inner.count('/token')], [1, 1])
  await ann.once(`${site}/.sluice/logout?auth_id=outer`)
  t.match(await ann.visit(`${site}/app/y`), { status: 200, url: `${site}/app/y` })
  t.same([outer.count('/token'), inner.count('/token')], [2, 1])
  await ann.once(`${site}/.sluice/logout?auth_id=`)
  t.match(await ann.visit(`${site}/app/z`), { status: 200, url: `${site}/app/z` })
  t.same([outer.count('/token'), inner.count('/token')], [2, 2])
  t.same(seen, ['/app/x', '/app/y', '/app/z'])
})

t.test('the policy of the options file', async (t) => {
  const provider = await new FakeProvider().start(t)
  const upstream = createServer((_request, response) => response.end('yours')).listen(0, '127.0.0.1')
  await new Promise((listening) => upstream.once('listening', listening))
  t.teardown(() => {
    upstream.close()
    upstream.closeAllConnections()
  })
  const rule = { expressions: ["req.url.path.startsWith('/app')"], actions: [action(provider)] }
  const sluice = await startSluice(t, {
    upstream: { port: (upstream.address() as AddressInfo).port },
    policy: JSON.stringify({ on_http_request: [rule] }),
    options: { OUTBOUND_ALLOW_PRIVATE: 'on' }
  })
  const site = `http://any.example.com:${sluice.port}`
  const ann = new Browser(overNetwork)
  t.match(await ann.visit(`${site}/app/x`), { status: 200, url: `${site}/app/x`, body: 'yours' })
  t.match(await ann.once(`${site}/.sluice/logout`), { body: /logged out/ })
  t.equal((await ann.once(`${site}/app`)).status, 302)
  t.equal((await ann.once(`${site}/open`)).status, 200)
})

t.test('a change of the policy moves the paths with it', async (t) => {
  const provider = await new FakeProvider().start(t)
  const { route, site, browser, sluice } = await stage(t)
  const made = await route('/app', policyOf({ actions: [action(provider)] }))
  const ann = browser()
  t.equal((await ann.visit(`${site}/app`)).status, 200)
  const put = await account(sluice)(`/edges/https/${made.edge_id}/routes/${made.id}/traffic_policy`, {
    method: 'PUT',
    body: policyOf({ actions: [{ type: 'log' }] }).traffic_policy
  })
  t.equal(put.status, 200, put.text)
  t.equal((await ann.once(`${site}/.sluice/logout`)).status, 404)
  t.equal((await ann.once(`${site}/app`)).status, 200)
})
