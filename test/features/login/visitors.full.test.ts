import t from 'tap'
import { until } from '../../helpers/until.js'
import { Browser, overNetwork } from './browser.js'
import { FakeProvider } from './fake-provider.js'
import { application, HOST, stage } from './module-stage.js'

const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'

type Row = Readonly<Record<string, unknown>> & { readonly id: string }

async function loggedIn(t: Parameters<typeof stage>[0]) {
  const provider = await new FakeProvider().start(t)
  const product = await stage(t, '')
  await product.put('oidc', { ...application, issuer: provider.url, assume_email_verified: true })
  const list = async (kind: 'users' | 'sessions', query = ''): Promise<Row[]> => {
    const { json, status, text } = await product.api('GET', `/app/${kind}${query}`)
    if (status !== 200) throw new Error(text)
    return json[`application_${kind}`] as Row[]
  }
  const browser = () =>
    new Browser((method, url, headers, body) => overNetwork(method, url, { ...headers, 'user-agent': FIREFOX }, body))
  const login = async (sessions: number) => {
    const one = browser()
    t.equal((await one.visit(`${product.site}/`)).status, 200)
    await until(async () => (await list('sessions')).length === sessions)
    return one
  }
  return { ...product, provider, list, login }
}

t.test('users and sessions of logins are listed', async (t) => {
  const { list, login, api, provider, route, edge, site, clock } = await loggedIn(t)
  t.same([await list('users'), await list('sessions')], [[], []])
  const ann = await login(1)
  const [user] = await list('users')
  const now = new Date(clock.wall()).toISOString().replace(/\.\d+/, '')
  t.match(user, {
    id: /^au_[0-9A-Za-z]{27}$/,
    uri: new RegExp(`/app/users/${user?.id}$`),
    created_at: now,
    identity_provider: { name: 'OpenID Connect', url: provider.url },
    provider_user_id: 'u1',
    username: null,
    email: 'ann@example.com',
    name: 'Ann',
    last_active: now,
    last_login: now
  })
  const [session] = await list('sessions')
  t.match(session, {
    id: /^as_[0-9A-Za-z]{27}$/,
    uri: new RegExp(`/app/sessions/${session?.id}$`),
    created_at: now,
    public_url: site,
    browser_session: {
      user_agent: {
        raw: FIREFOX,
        browser_name: 'Firefox',
        browser_version: '140.0',
        device_type: 'desktop',
        os_name: 'Linux',
        os_version: null
      },
      ip_address: '127.0.0.1',
      location: null
    },
    application_user: { id: user?.id, uri: user?.uri },
    last_active: now,
    expires_at: new Date(clock.wall() + 14 * 86_400_000).toISOString().replace(/\.\d+/, ''),
    endpoint: null,
    edge: { id: edge },
    route: { id: route }
  })
  t.same((await api('GET', `/app/sessions/${session?.id}`)).json, session)
  t.same((await api('GET', `/app/users/${user?.id}`)).json, user)
  clock.advance(2_000)
  await login(2)
  const sessions = await list('sessions')
  t.equal(sessions[1]?.id, session?.id, 'newest first')
  t.same(await list('sessions', `?limit=1&before_id=${sessions[0]?.id}`), [session])
  t.equal((await list('users')).length, 1, 'the same user')
  t.equal((await api('GET', '/app/sessions?before_id=x')).status, 400)
  for (const path of ['/app/users/au_0', '/app/sessions/x', '/app/sessions/as_000000000000000000000000000'])
    t.equal((await api('GET', path)).status, 404, path)
  t.equal((await api('POST', '/app/users', {})).status, 405)
  await ann.once(`${site}/.sluice/logout`, { method: 'POST' })
  await until(async () => (await list('sessions')).length === 1)
  t.not((await list('sessions'))[0]?.id, session?.id, 'the one that logged out is gone')
  clock.advance(14 * 86_400_000)
  t.same(await list('sessions'), [], 'and the other one has expired')
})

t.test('deleting a session, or a user, ends the login at once', async (t) => {
  const { list, login, api, site, clock, sluice } = await loggedIn(t)
  const [ann, again] = [await login(1), await login(2)]
  const statuses = async () => [(await ann.once(`${site}/`)).status, (await again.once(`${site}/`)).status]
  t.same(await statuses(), [200, 200])
  const [, first] = (await list('sessions')).sort((a, b) => String(b.id).localeCompare(String(a.id)))
  const before = new Map(ann.cookies(HOST))
  t.equal((await api('DELETE', `/app/sessions/${first?.id}?dry_run=true`)).status, 404, 'no record to try it on')
  t.equal((await api('DELETE', `/app/sessions/${first?.id}`)).status, 204)
  t.same((await statuses()).sort(), [200, 302])
  t.equal((await list('sessions')).length, 1)
  t.equal((await api('DELETE', `/app/sessions/${first?.id}`)).status, 404, 'a second time')
  for (const [name, cookie] of before) ann.cookies(HOST).set(name, cookie)
  clock.advance(1_000)
  const [user] = await list('users')
  t.equal((await api('DELETE', `/app/users/${user?.id}`)).status, 204)
  t.same(await statuses(), [302, 302])
  t.same([await list('users'), await list('sessions')], [[], []])
  t.equal((await api('DELETE', `/app/users/${user?.id}`)).status, 404)
  t.notOk(sluice.log.some(({ level }) => level === 'error'))
  clock.advance(1_000)
  await login(1)
  t.not((await list('users'))[0]?.id, user?.id, 'a login after it is a new user')
})
