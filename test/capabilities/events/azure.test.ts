import t from 'tap'
import { unsupported, wayTo } from '../../../src/capabilities/events/destinations/registry.js'
import { ManualClock } from '../../helpers/clock.js'
import { destination, NO_OUTPUT, through } from './cloud.js'
import { receiver } from './receiver.js'

const { signal } = new AbortController()
const SECRET = 'hidden-of-the-application'
const TARGET = {
  tenant_id: 'ten/ant',
  client_id: 'app',
  logs_ingestion_uri: 'https://dce.westeurope-1.ingest.monitor.azure.com/',
  data_collection_rule_id: 'dcr-1',
  data_collection_stream_name: 'Custom-Sluice_CL'
}
const parcel = (...events: string[]) => ({ id: 'ev_1', events, list: false })

type Test = Parameters<typeof receiver>[0]

/** Both services at once. `status`: of the next takes of logs. */
async function azure(t: Test, target: object = TARGET) {
  const state = { tokens: 0, status: [] as number[], refuseLogin: false }
  const hook = await receiver(t, ({ path }, response) => {
    if (path.endsWith('/oauth2/v2.0/token')) {
      const body = state.refuseLogin
        ? { error: 'invalid_client', error_description: `no ${SECRET}` }
        : { token_type: 'Bearer', expires_in: 3599, access_token: `token-${++state.tokens}` }
      response.writeHead(state.refuseLogin ? 401 : 200).end(JSON.stringify(body))
    } else response.writeHead(state.status.shift() ?? 204, { 'retry-after': '7' }).end()
  })
  const asked: string[] = []
  const clock = new ManualClock()
  const record = destination({ azure_logs_ingestion: target }, { 'target.azure_logs_ingestion.client_secret': SECRET })
  const way = wayTo(record, { outbound: through(hook.url, asked), clock, stdout: NO_OUTPUT })
  if (!('sender' in way)) throw new Error(way.unsupported)
  return { state, asked, clock, sender: way.sender, hook }
}

t.test('lists of events go with a token, which is used until it ends', async (t) => {
  const { asked, clock, sender, hook } = await azure(t)
  t.equal(await sender.send(parcel('{"a":1}', '{"a":2}'), signal), undefined)
  t.equal(await sender.send(parcel('{"a":3}'), signal), undefined)
  const login = 'https://login.microsoftonline.com/ten%2Fant/oauth2/v2.0/token'
  const logs =
    'https://dce.westeurope-1.ingest.monitor.azure.com/dataCollectionRules/dcr-1/streams/Custom-Sluice_CL?api-version=2023-01-01'
  t.same(asked, [login, logs, logs])
  t.same(Object.fromEntries(new URLSearchParams(hook.all[0]?.body)), {
    grant_type: 'client_credentials',
    client_id: 'app',
    client_secret: SECRET,
    scope: 'https://monitor.azure.com/.default'
  })
  t.match(hook.all[1], { body: '[{"a":1},{"a":2}]', headers: { authorization: 'Bearer token-1' } })
  clock.advance(3_600_000)
  t.equal(await sender.send(parcel('{"a":4}'), signal), undefined)
  t.equal(hook.all.at(-1)?.headers.authorization, 'Bearer token-2')
})

t.test('a token that is refused is not used again; a receiver that is busy says for how long', async (t) => {
  const { state, sender, hook } = await azure(t)
  state.status = [429, 401]
  t.same(await sender.send(parcel('{}'), signal), { message: 'the receiver answered 429', retryAfter: 7_000 })
  t.match(await sender.send(parcel('{}'), signal), { message: 'the receiver answered 401' })
  t.equal(await sender.send(parcel('{}'), signal), undefined)
  t.equal(hook.all.at(-1)?.headers.authorization, 'Bearer token-2')
})

t.test('a login that is refused is told, and no secret with it', async (t) => {
  const { state, sender, asked } = await azure(t)
  state.refuseLogin = true
  const failure = await sender.send(parcel('{}'), signal)
  t.equal(failure?.message, 'no token: the receiver answered 401 (invalid_client)')
  t.equal(asked.length, 1)
})

t.test('each cloud has a login of its own', async (t) => {
  const { asked, sender, hook } = await azure(t, {
    ...TARGET,
    logs_ingestion_uri: 'https://dce.usgovvirginia-1.ingest.monitor.azure.us'
  })
  t.equal(await sender.send(parcel('{}'), signal), undefined)
  t.match(asked, [/^https:\/\/login\.microsoftonline\.us\//, /\.azure\.us\/dataCollectionRules\//])
  t.equal(new URLSearchParams(hook.all[0]?.body).get('scope'), 'https://monitor.azure.us/.default')
})

t.test('more than a megabyte goes in several requests', async (t) => {
  const { sender, hook } = await azure(t)
  const events = Array.from({ length: 30 }, (_, n) => JSON.stringify({ n, text: 'x'.repeat(100_000) }))
  t.equal(await sender.send(parcel(...events), signal), undefined)
  const bodies = hook.all.slice(1).map(({ body }) => body)
  t.ok(bodies.every((body) => body.length <= 1_000_000))
  t.same(
    bodies.flatMap((body) => (JSON.parse(body) as { n: number }[]).map(({ n }) => n)),
    events.map((_event, n) => n)
  )
})

t.test('a token goes nowhere in the clear', async (t) => {
  const plain = destination({ azure_logs_ingestion: { ...TARGET, logs_ingestion_uri: 'http://dce.test' } }, {})
  t.match(unsupported(plain.body), /must be https/)
})
