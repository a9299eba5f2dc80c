import { Agent } from 'node:http'
import t from 'tap'
import { KEY, Stand } from '../../capabilities/take-over/take-over-stand.js'
import { account, create, site, visit } from '../../helpers/account.js'
import { startSluice, THREADS_SERVE } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { startPostgres } from '../../store/postgres-server.js'
import { type Answer, Browser, by, overNetwork, type Send } from './browser.js'
import { FakeProvider } from './fake-provider.js'
import { application, HOST, stage } from './module-stage.js'
import { SamlPages } from './saml-pages.js'

/** Logins whose requests come to several threads, processes or members of a pool. */

const WORKERS = THREADS_SERVE ? 2 : 0

const codeOf = ({ status, headers }: Answer) => `${status} ${headers['sluice-error-code'] ?? ''}`.trim()

/** A browser whose pages of the product come one way, and whose forms go another one. */
const browser = (gets: Send, posts = gets) =>
  new Browser((method, url, ...rest) =>
    (url.hostname !== HOST ? overNetwork : method === 'POST' ? posts : gets)(method, url, ...rest)
  )

/** Posts the form of a login once more, with the cookies that the browser had before it. */
async function replay(one: Browser, form: Answer & { readonly url: string }, before: ReturnType<Browser['cookies']>) {
  for (const [name, cookie] of before) one.cookies(HOST).set(name, cookie)
  return codeOf(await one.submit(form, {}))
}

type Row = { readonly id: string }

async function list(ask: ReturnType<typeof account>, kind: 'users' | 'sessions'): Promise<Row[]> {
  return (await ask(`/app/${kind}`)).json[`application_${kind}`]
}

t.test(
  'a login by SAML goes on in another thread, counts once in all of them, and ends in all of them at once',
  THREADS_SERVE ? {} : { skip: 'Node older than 24 gives no socket to another thread' },
  async (t) => {
    const product = await stage(t, '', {}, 2)
    const { sluice, site, put } = product
    const ask = account(sluice)
    const pages = await SamlPages.start(t, () => Date.now())
    pages.entity = `${site}/.sluice/saml/${product.route}`
    await put('saml', { idp_metadata_url: `${pages.address}/metadata` })
    // Each connection goes to the thread with fewer.
    const agents = [1, 2].map(() => new Agent({ keepAlive: true, maxSockets: 1 }))
    t.teardown(() => {
      for (const agent of agents) agent.destroy()
    })
    const [one, other] = agents.map((agent) => by({ agent })) as [Send, Send]
    await Promise.all([one, other].map((send) => send('GET', new URL(pages.entity), {}, '')))
    const login = async (gets: Send, posts: Send, sessions: number) => {
      const ann = browser(gets, posts)
      const form = await ann.visit(`${site}/`)
      const before = new Map(ann.cookies(HOST))
      t.equal((await ann.submit(form, {})).body, 'the upstream')
      await until(async () => (await list(ask, 'sessions')).length === sessions)
      return { ann, form, before, cookies: new Map(ann.cookies(HOST)) }
    }
    const [first, second] = [await login(one, other, 1), await login(other, one, 2)]
    t.equal((await list(ask, 'users')).length, 1)
    const statuses = async ({ cookies }: typeof first) => {
      const seen: number[] = []
      for (const send of [one, other]) {
        const ann = browser(send)
        for (const [name, cookie] of cookies) ann.cookies(HOST).set(name, cookie)
        seen.push((await ann.once(`${site}/`)).status)
      }
      return seen
    }
    t.same(
      [await statuses(first), await statuses(second)],
      [
        [200, 200],
        [200, 200]
      ]
    )
    for (const posts of [one, other])
      t.equal(await replay(browser(one, posts), first.form, first.before), '502 LOGIN_PROVIDER_FAILED')
    const rows = (await list(ask, 'sessions')).map(({ id }) => id).sort()
    for (const [place, id] of rows.entries()) {
      t.equal((await ask(`/app/sessions/${id}`, { method: 'DELETE' })).status, 204)
      const ended = [await statuses(first), await statuses(second)]
      t.equal(ended.filter(([here, there]) => here === 302 && there === 302).length, place + 1, 'in both threads')
      t.equal(ended.flat().filter((status) => status === 200).length, 2 * (1 - place))
    }
    const third = await login(one, other, 1)
    const [user] = await list(ask, 'users')
    t.equal((await ask(`/app/users/${user?.id}`, { method: 'DELETE' })).status, 204)
    t.same(await statuses(third), [302, 302])
    t.same([await list(ask, 'users'), await list(ask, 'sessions')], [[], []])
    const { workers } = (await ask('/processes')).json.processes[0]
    t.ok(
      workers.length === 2 && workers.every(({ requests }: { requests: number }) => requests > 8),
      JSON.stringify(workers)
    )
  }
)

t.test('a login begun before a take-over completes after it, and what was ended or used stays so', async (t) => {
  const workers = WORKERS === 0 ? {} : { SLUICE_WORKERS: String(WORKERS) }
  const stand = await Stand.open(t, { SLUICE_OUTBOUND_ALLOW_PRIVATE: 'on', ...workers })
  const old = stand.start()
  await old.logged('listening')
  const sluice = { port: stand.ports.traffic, apiPort: stand.ports.api } as never
  const ask: ReturnType<typeof account> = (path, asked = {}) => stand.ask(path, { key: KEY, ...asked })
  const made = async (path: string, body: object) => {
    const { status, json, text } = await ask(path, { method: 'POST', body })
    if (status !== 201) throw new Error(`POST ${path}: ${status} ${text}`)
    return json
  }
  const pages = await SamlPages.start(t, () => Date.now())
  const edge = await made('/edges/https', { hostports: [`${HOST}:443`] })
  const answers = (text: string) =>
    `on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: "${text}" } }] }]`
  const route = await made(`/edges/https/${edge.id}/routes`, {
    match: '/',
    saml: { idp_metadata_url: `${pages.address}/metadata` },
    traffic_policy: { value: answers('the site') }
  })
  const site = `http://${HOST}:${stand.ports.traffic}`
  pages.entity = `${site}/.sluice/saml/${route.id}`
  const pooled = async (text: string) =>
    await made('/endpoints', { url: 'https://pool.test', traffic_policy: answers(text), pooling_enabled: true })
  const [first] = [await pooled('one'), await pooled('two')]
  const shares = async () => {
    const seen = new Set<string>()
    for (let i = 0; i < 60; i++) seen.add((await visit(sluice, 'pool.test')).body)
    return [...seen].sort()
  }
  t.same(await shares(), ['one', 'two'])
  const [ann, bob, eve] = [browser(overNetwork), browser(overNetwork), browser(overNetwork)]
  const used = await ann.visit(`${site}/`)
  const before = new Map(ann.cookies(HOST))
  t.equal((await eve.submit(await eve.visit(`${site}/`), {})).body, 'the site')
  await until(async () => (await list(ask, 'sessions')).length === 1)
  const [own] = await list(ask, 'sessions')
  t.equal((await ann.submit(used, {})).body, 'the site')
  await until(async () => (await list(ask, 'sessions')).length === 2)
  t.equal((await ask(`/app/sessions/${own?.id}`, { method: 'DELETE' })).status, 204)
  t.equal((await eve.once(`${site}/`)).status, 302)
  const begun = await bob.visit(`${site}/`)
  const { asking } = await stand.takeOver()
  await asking.told('serves; the old one exits')
  t.equal((await bob.submit(begun, {})).body, 'the site', 'a login begun before')
  t.equal((await ann.once(`${site}/`)).body, 'the site', 'a session of before')
  t.equal((await eve.once(`${site}/`)).status, 302, 'one that was ended before')
  t.equal(await replay(browser(overNetwork), used, before), '502 LOGIN_PROVIDER_FAILED', 'a response of before')
  await until(async () => (await list(ask, 'sessions')).length === 2)
  t.equal((await list(ask, 'users')).length, 1)
  t.same(await shares(), ['one', 'two'], 'the pool is the same')
  await pooled('three')
  t.same(await shares(), ['one', 'three', 'two'])
  t.equal((await ask(`/endpoints/${first.id}`, { method: 'DELETE' })).status, 204)
  t.same(await shares(), ['three', 'two'])
  const [user] = await list(ask, 'users')
  t.equal((await ask(`/app/users/${user?.id}`, { method: 'DELETE' })).status, 204)
  for (const one of [ann, bob]) t.equal((await one.once(`${site}/`)).status, 302)
  asking.child.kill('SIGTERM')
  await asking.ended()
})

t.test('a login by SAML goes on in another process of the store, and ends in all of them', async (t) => {
  const server = await startPostgres(t)
  const options = { STORE: await server.database(), DATA: t.testdir(), OUTBOUND_ALLOW_PRIVATE: 'on' }
  const here = await startSluice(t, { options, threads: WORKERS })
  const there = await startSluice(t, { options: { ...options, DATA: t.testdir() } })
  const pages = await SamlPages.start(t, () => Date.now())
  const answer = { type: 'custom-response', config: { status_code: 200, body: 'the site' } }
  const { route } = await site(here, HOST, {
    saml: { idp_metadata_url: `${pages.address}/metadata` },
    traffic_policy: { value: JSON.stringify({ on_http_request: [{ actions: [answer] }] }) }
  })
  const url = `http://${HOST}:${here.port}`
  pages.entity = `${url}/.sluice/saml/${route.split('/').at(-1)}`
  const [one, other] = [by({ port: here.port }), by({ port: there.port })]
  await until(async () => (await browser(other).once(`${url}/`)).status === 302)
  const login = async (gets: Send, posts: Send) => {
    const ann = browser(gets, posts)
    const form = await ann.visit(`${url}/`)
    const before = new Map(ann.cookies(HOST))
    t.equal((await ann.submit(form, {})).body, 'the site')
    return { ann, form, before }
  }
  const [first, second] = [await login(one, other), await login(other, one)]
  for (const send of [one, other])
    t.equal(await replay(browser(send), first.form, first.before), '502 LOGIN_PROVIDER_FAILED')
  const asks = [account(here), account(there)] as const
  await until(async () => (await list(asks[0], 'sessions')).length === 2)
  t.same(await list(asks[1], 'sessions'), await list(asks[0], 'sessions').then(moved(here.apiPort, there.apiPort)))
  const [user, ...others] = await list(asks[1], 'users')
  t.same(others, [])
  t.equal((await asks[1](`/app/users/${user?.id}`, { method: 'DELETE' })).status, 204)
  for (const { ann } of [first, second]) {
    const cookies = new Map(ann.cookies(HOST))
    const status = async (send: Send) => {
      const again = browser(send)
      for (const [name, cookie] of cookies) again.cookies(HOST).set(name, cookie)
      return (await again.once(`${url}/`)).status
    }
    t.equal(await status(other), 302, 'at once where it was asked for')
    await until(async () => (await status(one)) === 302)
  }
  t.same(await list(asks[0], 'sessions'), [])
})

/** Rows as another process shows them, whose URLs have its own port. */
function moved(from: number, to: number) {
  return (rows: Row[]): Row[] => JSON.parse(JSON.stringify(rows).replaceAll(`127.0.0.1:${from}`, `127.0.0.1:${to}`))
}

t.test('a login begun at one member of a pool that comes back to another one completes', async (t) => {
  const provider = await new FakeProvider().start(t)
  const sluice = await startSluice(t, { options: { OUTBOUND_ALLOW_PRIVATE: 'on' } })
  const url = `http://${HOST}:${sluice.port}`
  const login = { type: 'openid-connect', config: { issuer_url: provider.url, ...application } }
  for (const body of ['one', 'two']) {
    const answer = { type: 'custom-response', config: { status_code: 200, body } }
    const traffic_policy = JSON.stringify({ on_http_request: [{ actions: [login, answer] }] })
    await create(sluice, '/endpoints', { url: `https://${HOST}`, traffic_policy, pooling_enabled: true })
  }
  const ann = browser(overNetwork)
  const seen = new Set<string>()
  // 40 draws from a pool of two miss one of them once in 2^39 runs.
  for (let i = 0; i < 40; i++) {
    const page = await ann.visit(`${url}/`)
    if (page.status !== 200) t.fail(`${codeOf(page)} ${ann.trail.at(-1)}`)
    seen.add(page.body)
  }
  t.same([...seen].sort(), ['one', 'two'])
  t.equal(provider.authorizations.length, 2, 'one login for each member')
  for (let i = 0; i < 12; i++) {
    const page = await browser(overNetwork).visit(`${url}/deep?a=${i}`)
    if (page.status !== 200 || page.url !== `${url}/deep?a=${i}`) t.fail(`${codeOf(page)} ${page.url}`)
  }
  const cookies = new Map(ann.cookies(HOST))
  t.equal((await ann.once(`${url}/.sluice/logout`, { method: 'POST' })).status, 200)
  for (const [name, cookie] of cookies) ann.cookies(HOST).set(name, cookie)
  for (let i = 0; i < 20; i++) t.equal((await ann.once(`${url}/`)).status, 302, 'logged out of every member')
})
