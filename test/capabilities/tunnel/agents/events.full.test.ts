import { get } from 'node:http'
import t from 'tap'
import { account, create } from '../../../helpers/account.js'
import { until } from '../../../helpers/until.js'
import { startPostgres } from '../../../store/postgres-server.js'
import { receiver } from '../../events/receiver.js'
import { answerOf } from '../agent-suite.js'
import { ourAgent } from '../our-agent.js'
import { RawAgent } from '../raw-agent.js'
import { Upstream } from '../upstream.js'
import { type Product, startProduct } from './product.js'

const LABELS = { app: 'web' }
const START = 'agent_session_start.v0'
const STOP = 'agent_session_stop.v0'
const OPTIONS = { OUTBOUND_ALLOW_PRIVATE: 'true' }

/** Subscribes to both events; resolves when the process knows it. */
async function subscribe({ sluice }: Product, url: string): Promise<void> {
  const { id } = await create(sluice, '/event_destinations', { target: { webhook: { url } } })
  const sources = [{ type: START }, { type: STOP }]
  await create(sluice, '/event_subscriptions', { sources, destination_ids: [id] })
}

t.test('sessions tell of their start and their end, once each, to whom subscribed', async (t) => {
  const product = await startProduct(t, { options: OPTIONS })
  const { sluice, agents } = product
  const sink = await receiver(t)
  const { id: credential, token } = await product.credential()
  const unheard = await ourAgent.start(agents, token, { labels: LABELS, target: 9 })
  await subscribe(product, sink.url)
  // Subscriptions are read a moment after they are written: ask for sessions until one is told.
  const probe = async () => {
    const agent = await ourAgent.start(agents, token, { labels: { probe: 'x' }, target: 9 })
    const { tunnel_session: session } = (await account(sluice)(`/tunnels/${agent.id}`)).json
    const shown = (await account(sluice)(`/tunnel_sessions/${session.id}`)).json
    await agent.close()
    return shown
  }
  let told: Record<string, unknown> = await probe()
  const of = (type: string, { id }: Record<string, unknown>) =>
    sink.taken.filter((event) => event.event_type === type && event.object.id === id)
  for (let n = 0; n < 50 && of(STOP, told).length === 0; n++) told = await probe()
  await sink.until(() => of(STOP, told).length > 0)
  t.same(of(START, told)[0]?.object, told, 'the session as the API shows it')
  t.match(told, { credential: { id: credential }, ip: '127.0.0.1', transport: 'ngrok/2' })
  const [stop] = of(STOP, told)
  t.match(stop?.object, { ...told, stopped_at: /^20/, reason: /./ })
  t.match(sink.all.map(({ body }) => body).join(), /"principal":null/)

  // An agent that comes back on a new connection before the old one is gone has one session.
  const first = await RawAgent.session(agents as never, token)
  const greeted = JSON.parse(first.text(5)) as { ClientId: string; Extra: { Cookie: string } }
  const session = (await account(sluice)(`/tunnel_sessions/${greeted.ClientId}`)).json
  const again = await RawAgent.connect(agents as never)
  const request = { Version: ['3'], ClientId: session.id, Extra: { Authtoken: token, Cookie: greeted.Extra.Cookie } }
  t.equal((await again.call(0, request)).ClientId, session.id)
  first.socket.destroy()
  const sessions = async () => /^sluice_agent_sessions (\d+)$/m.exec((await account(sluice)('/metrics')).text)?.[1]
  await until(async () => (await sessions()) === '2')
  t.equal(of(STOP, session).length, 0)
  again.socket.destroy()
  await sink.until(() => of(STOP, session).length > 0)
  await unheard.close()
  await sink.until(() => sink.taken.filter(({ event_type }) => event_type === STOP).length > 1)
  for (const type of [START, STOP]) t.equal(of(type, session).length, 1, `${type} of a session with two connections`)
  t.equal(new Set(sink.taken.map(({ event_id }) => event_id)).size, sink.taken.length)
  for (const { body } of sink.all) t.notMatch(body, token)
})

t.test('in a cluster the process of an agent tells of it, and no other', async (t) => {
  const server = await startPostgres(t)
  const options = { ...OPTIONS, STORE: await server.database() }
  const here = await startProduct(t, { options })
  const there = await startProduct(t, { options })
  const sink = await receiver(t)
  const { token } = await here.credential()
  await subscribe(here, sink.url)
  for (let n = 0; n < 50 && sink.taken.length === 0; n++) {
    const agent = await ourAgent.start(there.agents, token, { labels: LABELS, target: 9 })
    await agent.close()
  }
  await sink.until(() => sink.taken.length >= 2)
  const agent = await ourAgent.start(there.agents, token, { labels: LABELS, target: 9 })
  const { tunnel_session: session } = (await account(there.sluice)(`/tunnels/${agent.id}`)).json
  await agent.close()
  const own = () => sink.taken.filter(({ object }) => object.id === session.id)
  await sink.until(() => own().length >= 2)
  t.same(
    own().map(({ event_type }) => event_type),
    [START, STOP]
  )
})

t.test('metrics of agents and of deliveries', async (t) => {
  const product = await startProduct(t, { options: OPTIONS })
  const { sluice, agents } = product
  const metrics = async () => (await account(sluice)('/metrics')).text
  t.match(await metrics(), /^sluice_agent_sessions 0$/m)
  const { token } = await product.credential()
  await product.site('app.example.com', LABELS)
  const upstream = await Upstream.start(t)
  const agent = await ourAgent.start(agents, token, { labels: LABELS, target: upstream.port })
  t.teardown(() => agent.close())
  const where = { host: '127.0.0.1', port: sluice.port, headers: { host: 'app.example.com' }, agent: false }
  const open = await answerOf(get({ ...where, path: '/events' }))
  const busy = await metrics()
  t.match(busy, /^sluice_agent_sessions 1$/m)
  t.match(busy, /^sluice_agent_tunnels 1$/m)
  t.match(busy, /^sluice_agent_streams 1$/m)
  t.match(busy, /^sluice_restrictions_total\{type="api",result="refused"\} 0$/m)
  open.destroy()
  const sink = await receiver(t)
  const { id } = await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })
  await create(sluice, '/event_subscriptions', { sources: [{ type: 'vault_created.v0' }], destination_ids: [id] })
  await create(sluice, '/vaults', { name: 'v' })
  await sink.requests(1)
  for (;;) {
    const text = await metrics()
    if (!text.includes(`sluice_events_delivered_total{destination="${id}"} 1`)) continue
    t.match(text, `sluice_events_dropped_total{destination="${id}"} 0`)
    t.match(text, `sluice_events_waiting{destination="${id}"} 0`)
    t.match(text, `sluice_event_delivery_failures{destination="${id}"} 0`)
    return
  }
})
