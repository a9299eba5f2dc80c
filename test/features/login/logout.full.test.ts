import { once } from 'node:events'
import { createServer, get, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { startSluice, THREADS_SERVE } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { startPostgres } from '../../store/postgres-server.js'
import { Browser, overNetwork } from './browser.js'
import { CLIENT, FakeProvider } from './fake-provider.js'
import { logIn, RealProvider } from './real-provider.js'

const HOST = '127.0.0.1'

/** Starts processes with one policy that asks for a login, and visits them. */
async function stage(t: Test, options: Readonly<Record<string, string>>, issuer?: string) {
  const provider = await new FakeProvider().start(t)
  const server = createServer((_request, response) => response.end('the upstream')).listen(0, HOST)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const config = { issuer_url: issuer ?? provider.url, client_id: CLIENT.id, client_secret: CLIENT.secret }
  const policy = JSON.stringify({ on_http_request: [{ actions: [{ type: 'openid-connect', config }] }] })
  const start = (threads = 0) =>
    startSluice(t, {
      upstream: { port: (server.address() as AddressInfo).port },
      policy,
      options: { OUTBOUND_ALLOW_PRIVATE: 'on', ...options },
      threads
    })
  const logIn = async (port: number) => {
    const browser = new Browser(overNetwork)
    const page = await browser.visit(`http://${HOST}:${port}/`)
    t.equal(page.body, 'the upstream')
    const cookie = [...browser.cookies(HOST)].map(([name, { value }]) => `${name}=${value}`).join('; ')
    return { browser, cookie }
  }
  /** On a connection of its own, so that each thread of a process gets some of several. */
  const ask = async (port: number, cookie: string) => {
    const headers = { cookie, accept: 'application/json' }
    const [response] = (await once(get({ host: HOST, port, headers, agent: false }), 'response')) as [IncomingMessage]
    response.resume()
    return response.statusCode
  }
  return { start, logIn, ask }
}

t.test('a logout holds after a restart, and for nobody else', async (t) => {
  const { start, logIn, ask } = await stage(t, { DATA: t.testdir() })
  const first = await start()
  const [gone, stays] = [await logIn(first.port), await logIn(first.port)]
  t.equal(await ask(first.port, gone.cookie), 200)
  t.match(await gone.browser.once(`http://${HOST}:${first.port}/.sluice/logout`), { status: 200, body: /logged out/ })
  t.equal(await ask(first.port, gone.cookie), 401)
  await first.stop()
  const second = await start()
  t.equal(await ask(second.port, gone.cookie), 401, 'who kept the cookies of a session that has ended')
  t.equal(await ask(second.port, stays.cookie), 200, 'the other session goes on')
})

t.test('a logout holds on every process of a store', async (t) => {
  const server = await startPostgres(t)
  const { start, logIn, ask } = await stage(t, { STORE: await server.database(), DATA: t.testdir() })
  const [here, there] = [await start(), await start()]
  const [gone, stays] = [await logIn(here.port), await logIn(here.port)]
  for (const { cookie } of [gone, stays]) t.equal(await ask(there.port, cookie), 200)
  await gone.browser.once(`http://${HOST}:${here.port}/.sluice/logout`)
  await until(async () => (await ask(there.port, gone.cookie)) === 401)
  t.equal(await ask(there.port, stays.cookie), 200)
  const later = await start()
  t.equal(await ask(later.port, gone.cookie), 401, 'a process that comes later knows it from its first request on')
})

t.test(
  'who logs out at a real provider is out in every thread and process of the store, and after a restart',
  async (t) => {
    const server = await startPostgres(t)
    const provider = await new RealProvider().start(t)
    const { start, ask } = await stage(t, { STORE: await server.database(), DATA: t.testdir() }, provider.url)
    const [here, there] = [await start(THREADS_SERVE ? 2 : 0), await start()]
    const site = `http://${HOST}:${here.port}`
    provider.register(`${site}/.sluice/callback`)
    const enter = async (user: string) => {
      const browser = new Browser(overNetwork)
      t.equal((await logIn(browser, `${site}/`, user)).body, 'the upstream')
      const cookies = [...browser.cookies(HOST)].filter(([name]) => name.startsWith('sluice.'))
      return { browser, cookie: cookies.map(([name, { value }]) => `${name}=${value}`).join('; ') }
    }
    const [gone, elsewhere, stays] = [await enter('ann'), await enter('ann'), await enter('bob')]
    for (const { cookie } of [gone, elsewhere, stays]) t.equal(await ask(there.port, cookie), 200)
    const page = await gone.browser.visit(`${provider.url}/session/end`)
    await gone.browser.submit(page, { logout: 'yes' })
    // The provider has the answer to its logout, which one thread got: none of them may know the session.
    const answers = await Promise.all(Array.from({ length: 16 }, () => ask(here.port, gone.cookie)))
    t.same(answers, Array(16).fill(401))
    await until(async () => (await ask(there.port, gone.cookie)) === 401)
    for (const { cookie } of [elsewhere, stays])
      for (const { port } of [here, there]) t.equal(await ask(port, cookie), 200, 'other sessions go on')
    await here.stop()
    const later = await start()
    t.same([await ask(later.port, gone.cookie), await ask(later.port, stays.cookie)], [401, 200])
  }
)
