import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { startSluice, THREADS_SERVE } from '../../helpers/sluice.js'
import { startPostgres } from '../../store/postgres-server.js'
import { Browser, overNetwork } from './browser.js'
import { CLIENT, FakeProvider } from './fake-provider.js'
import { logIn, RealProvider } from './real-provider.js'

const HOST = '127.0.0.1'
/** Milliseconds that an access token lasts: shorter than its provider says, so that the test waits for nothing. */
const LASTS = 1_000

/** Twelve requests with one cookie at the moment at which its access token has expired, over all `ports`. */
async function race(t: Test, provider: FakeProvider, ports: readonly number[]) {
  const [port] = ports
  const browser = new Browser(overNetwork)
  const page = await browser.visit(`http://${HOST}:${port}/`)
  t.equal(page.body, 'the upstream')
  const cookie = [...browser.cookies(HOST)].map(([name, { value }]) => `${name}=${value}`).join('; ')
  const ask = async (at: number) => {
    const headers = { cookie, accept: 'application/json', connection: 'close' }
    return (await overNetwork('GET', new URL(`http://${HOST}:${at}/`), headers, '')).status
  }
  await new Promise((later) => setTimeout(later, LASTS + 50))
  const before = provider.count('/token')
  // The provider takes its time: all requests are there before it has answered.
  provider.refreshing = () => new Promise((later) => setTimeout(later, 300))
  provider.accessTokenLasts = 3_600
  const statuses = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(ports[i % ports.length] as number)))
  t.same(
    statuses,
    statuses.map(() => 200)
  )
  for (const at of ports) for (let i = 0; i < 4; i++) t.equal(await ask(at), 200, 'the old cookie goes on')
  t.same([provider.count('/token') - before, provider.reused], [1, 0])
  provider.refreshing = async () => undefined
  provider.accessTokenLasts = LASTS / 1_000
}

async function stage(t: Test, issuer?: string) {
  const provider = await new FakeProvider().start(t)
  provider.refreshTokens = true
  provider.accessTokenLasts = LASTS / 1_000
  const server = createServer((_request, response) => response.end('the upstream')).listen(0, HOST)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const config = { issuer_url: issuer ?? provider.url, client_id: CLIENT.id, client_secret: CLIENT.secret }
  const setup = (options: Readonly<Record<string, string>>, threads = 0) => ({
    upstream: { port: (server.address() as AddressInfo).port },
    policy: JSON.stringify({ on_http_request: [{ actions: [{ type: 'openid-connect', config }] }] }),
    options: { OUTBOUND_ALLOW_PRIVATE: 'on', ...options },
    threads
  })
  return { provider, setup }
}

const groups = Array.from({ length: 400 }, (_, i) => `group-${i}-${'x'.repeat(24)}`)

t.test('two processes on one PostgreSQL refresh a session once', async (t) => {
  const server = await startPostgres(t)
  const { provider, setup } = await stage(t)
  const options = { STORE: await server.database(), DATA: t.testdir() }
  const [here, there] = [await startSluice(t, setup(options)), await startSluice(t, setup(options))]
  for (const claims of [{}, { groups }]) {
    provider.claims = claims
    await race(t, provider, [here.port, there.port])
  }
})

t.test(
  'a real provider that rotates refresh tokens sees one refresh of two processes, and one after each is gone',
  async (t) => {
    const server = await startPostgres(t)
    const provider = await new RealProvider().start(t)
    provider.accessTokenLasts = LASTS / 1_000
    const { setup } = await stage(t, provider.url)
    const options = { STORE: await server.database(), DATA: t.testdir() }
    const [here, there] = [await startSluice(t, setup(options)), await startSluice(t, setup(options))]
    const site = `http://${HOST}:${here.port}`
    provider.register(`${site}/.sluice/callback`)
    const browser = new Browser(overNetwork)
    t.equal((await logIn(browser, `${site}/`, 'ann')).body, 'the upstream')
    const cookie = [...browser.cookies(HOST)].map(([name, { value }]) => `${name}=${value}`).join('; ')
    const ask = async (port: number) => {
      const headers = { cookie, accept: 'application/json' }
      return (await overNetwork('GET', new URL(`http://${HOST}:${port}/`), headers, '')).status
    }
    await new Promise((later) => setTimeout(later, LASTS + 50))
    provider.accessTokenLasts = 3_600
    const statuses = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(i % 2 === 0 ? here.port : there.port)))
    t.same(new Set(statuses), new Set([200]))
    t.same(provider.counts, { refreshed: 1, revoked: 0 })
    await Promise.all([here.stop(), there.stop()])
    const later = await startSluice(t, setup(options))
    t.equal(await ask(later.port), 200, 'the old cookie in a process that has not seen the refresh')
    t.same(provider.counts, { refreshed: 1, revoked: 0 })
  }
)

const skip = THREADS_SERVE ? false : 'this Node gives no socket to another thread'

t.test('two threads refresh a session once', { skip }, async (t) => {
  const { provider, setup } = await stage(t)
  const { port } = await startSluice(t, setup({}, 2))
  for (const claims of [{}, { groups }]) {
    provider.claims = claims
    await race(t, provider, [port])
  }
})
