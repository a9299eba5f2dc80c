import { once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { account, create, site } from '../../helpers/account.js'
import { ManualClock } from '../../helpers/clock.js'
import { type RunningSluice, startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'

export const HOST = 'shop.example.com'
export const GUARD = 'bake=30s; error-rate=+2%; refusal-rate=+5%; min-requests=50'
export const DENY = { value: 'on_http_request: [{ actions: [{ type: deny }] }]' }

interface Test {
  teardown(run: () => unknown): void
}

/** A server whose answers the test chooses. */
export async function shop(t: Test) {
  const server = createServer((_request, response) => response.writeHead(answering.status()).end())
  const answering = { status: () => 200 }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return Object.assign(answering, { address: `127.0.0.1:${(server.address() as AddressInfo).port}` })
}

/** A client that keeps its connections. */
function client(t: Test, { port }: Pick<RunningSluice, 'port'>) {
  const agent = new Agent({ keepAlive: true, maxSockets: 10 })
  t.teardown(() => agent.destroy())
  return (host = HOST, path = '/'): Promise<number> =>
    new Promise((resolve) => {
      const sent = request({ port, host: '127.0.0.1', path, headers: { host }, agent }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode ?? 0))
      })
      sent.on('error', () => resolve(0))
      sent.end()
    })
}

/** The whole product with one site, in a time that the test moves. */
export async function guarded(t: Test, options: Readonly<Record<string, string>> = {}, clock = new ManualClock()) {
  const upstream = await shop(t)
  const sluice = await startSluice(t, { clock, options: { OUTBOUND_ALLOW_PRIVATE: 'true', ...options } })
  const backend = await create(sluice, '/backends/static', { address: upstream.address })
  const { edge, route } = await site(sluice, HOST, { backend: { backend_id: backend.id } })
  return { upstream, backend, edge, route, ...driven(t, sluice, clock) }
}

/** What a test does with a product that runs. */
export function driven(t: Test, sluice: RunningSluice, clock: ManualClock) {
  const ask = account(sluice)
  const visit = client(t, sluice)
  /** So many seconds with requests in each. */
  const traffic = async (seconds: number, perSecond = 50, one: () => Promise<unknown> = visit) => {
    for (let second = 0; second < seconds; second++) {
      await Promise.all(Array.from({ length: perSecond }, () => one()))
      clock.advance(1_000)
    }
  }
  const revision = async (id: number) => (await ask(`/revisions/${id}`)).json
  return {
    sluice,
    clock,
    ask,
    visit,
    traffic,
    revision,
    /** A write with a guard; answers its revision. */
    write: async (method: string, path: string, body: unknown, guard = GUARD): Promise<number> => {
      const answer = await ask(path, { method, body, headers: { guard } })
      if (answer.status >= 300) throw new Error(`${method} ${path} gave ${answer.status}: ${answer.text}`)
      return Number(answer.headers['service-revision'])
    },
    /** The guard of a revision once it bakes no more. */
    ended: async (id: number) => {
      await until(async () => (await revision(id)).guard.state !== 'baking')
      return (await revision(id)).guard
    }
  }
}
