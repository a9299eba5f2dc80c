import t from 'tap'
import type { LiveSession, LiveSources, LiveTunnel, SessionCommand } from '../../src/control/cluster/live-sources.js'
import { newId } from '../../src/lib/id.js'
import { ManualClock } from '../helpers/clock.js'
import { startSluice } from '../helpers/sluice.js'
import { BASE, make, openAccount } from './account.js'
import { type Ask, asker, word } from './asking.js'

const START = Date.UTC(2026, 0, 1)

function session(number: number, credential: string): LiveSession {
  const startedAt = START + number * 1000
  return {
    id: newId('ts', startedAt),
    startedAt,
    agentVersion: '3.1.0',
    credential,
    ip: '192.0.2.7',
    metadata: `agent ${number}`,
    os: 'linux',
    region: 'global',
    transport: 'ngrok/2'
  }
}

function tunnel(number: number, of: LiveSession, publicUrl: string): LiveTunnel {
  const startedAt = START + number * 1000
  return {
    id: newId('tn', startedAt),
    startedAt,
    session: of.id,
    publicUrl,
    proto: publicUrl.split(':')[0] ?? '',
    region: 'global',
    metadata: 'm',
    labels: publicUrl === '' ? { app: 'web' } : {},
    forwardsTo: 'http://localhost:3000',
    pooled: publicUrl.includes('pool')
  }
}

class Agents implements LiveSources {
  sessions: LiveSession[] = []
  open: LiveTunnel[] = []
  readonly commands: [string, SessionCommand][] = []
  tunnelSessions = () => this.sessions
  tunnels = () => this.open
  backendsOf = () => []
  watch = () => undefined

  async command(id: string, command: SessionCommand) {
    this.commands.push([id, command])
    return this.sessions.some((one) => one.id === id)
  }
}

/** Every entry of a list, page by page. */
async function pages(ask: Ask, path: string, key: string, limit: number, between = async () => {}) {
  const seen: Record<string, unknown>[] = []
  let next = `${path}?limit=${limit}`
  while (next !== '') {
    const { json, status, text } = await ask(next)
    if (status !== 200) throw new Error(text)
    seen.push(...json[key])
    next = json.next_page_uri === null ? '' : json.next_page_uri.slice(json.uri.length - path.length)
    await between()
  }
  return seen
}

t.test('agents and their tunnels are shown, newest first, and are not stored', async (t) => {
  const agents = new Agents()
  const { ask, control } = await openAccount(t, { sources: agents })
  t.same((await ask('/tunnel_sessions')).json, {
    tunnel_sessions: [],
    uri: `${BASE}/tunnel_sessions`,
    next_page_uri: null
  })
  const credential = await make(ask, '/credentials')
  const before = control.configuration.revision
  for (let number = 0; number < 7; number++) agents.sessions.push(session(number, credential.id))
  const [first] = agents.sessions as [LiveSession]
  const got = await ask(`/tunnel_sessions/${first.id}`)
  t.same(got.json, {
    id: first.id,
    uri: `${BASE}/tunnel_sessions/${first.id}`,
    created_at: '2026-01-01T00:00:00Z',
    agent_version: '3.1.0',
    credential: { id: credential.id, uri: credential.uri },
    ip: '192.0.2.7',
    metadata: 'agent 0',
    os: 'linux',
    region: 'global',
    started_at: '2026-01-01T00:00:00Z',
    transport: 'ngrok/2'
  })
  t.equal(got.headers.etag, undefined, 'what lives has no version')
  const listed = await pages(ask, '/tunnel_sessions', 'tunnel_sessions', 3)
  t.same(
    listed.map(({ metadata }) => metadata),
    [6, 5, 4, 3, 2, 1, 0].map((number) => `agent ${number}`)
  )
  const shrinking = await pages(ask, '/tunnel_sessions', 'tunnel_sessions', 2, async () => {
    agents.sessions = agents.sessions.filter(({ id }) => id !== listed[1]?.id && id !== listed[0]?.id)
  })
  t.equal(shrinking.length, 7, 'the cursor may be gone since')
  agents.open = [tunnel(1, first, 'https://a.agents.test'), tunnel(2, first, '')]
  t.match((await ask('/tunnels')).json.tunnels, [
    { public_url: '', labels: { app: 'web' }, tunnel_session: { id: first.id } },
    { public_url: 'https://a.agents.test', proto: 'https', forwards_to: 'http://localhost:3000' }
  ])
  agents.open = [tunnel(3, first, 'https://pool.agents.test'), tunnel(4, first, 'https://b.agents.test')]
  t.match((await ask('/endpoints')).json.endpoints, [
    { url: 'https://b.agents.test', pooling_enabled: false },
    { url: 'https://pool.agents.test', pooling_enabled: true }
  ])
  for (const path of ['/tunnels', '/tunnel_sessions', '/endpoints']) {
    t.equal(word(t, await ask(`${path}?before_id=ipp_1`)), 'QUERY_INVALID', path)
  }
  t.equal((await ask(`/tunnels/${newId('tn', START)}`)).status, 404)
  t.equal(control.configuration.revision, before)
})

t.test('commands reach the agent, and only one that is there', async (t) => {
  const agents = new Agents()
  const { ask } = await openAccount(t, { sources: agents })
  agents.sessions.push(session(1, newId('cr', START)))
  const { id } = agents.sessions[0] as LiveSession
  const bodies = [undefined, {}, { id }]
  for (const [at, command] of (['stop', 'restart', 'update'] as const).entries()) {
    const answer = await ask(`/tunnel_sessions/${id}/${command}`, { method: 'POST', body: bodies[at] })
    t.match(answer, { status: 204, text: '' }, command)
    t.same(agents.commands.at(-1), [id, command])
    const unknown = await ask(`/tunnel_sessions/${newId('ts', START)}/${command}`, { method: 'POST' })
    t.equal(word(t, unknown), 'NOT_FOUND')
  }
  const again = await ask(`/tunnel_sessions/${id}/stop`, { method: 'POST', body: id })
  t.equal(again.status, 204, 'a published client sends the bare id')
  const policy = await make(ask, '/ip_policies')
  const bare = await ask(`/ip_policies/${policy.id}`, { method: 'PATCH', body: policy.id })
  t.equal(bare.status, 400, 'where an object is needed the bare id is none')
  const other = await ask(`/tunnel_sessions/${id}/stop`, { method: 'POST', body: newId('ts', START) })
  t.equal(word(t, other), 'BODY_INVALID', 'another id is no JSON')
  const sent = agents.commands.length
  const odd = await ask(`/tunnel_sessions/${id}/stop`, { method: 'POST', body: { now: true } })
  t.equal(word(t, odd), 'FIELD_UNKNOWN')
  t.equal((await ask(`/tunnel_sessions/${id}/stop`)).status, 405)
  t.equal((await ask(`/tunnel_sessions/${id}/explode`, { method: 'POST' })).status, 404)
  t.equal(agents.commands.length, sent)
  const { ask: alone } = await openAccount(t)
  t.equal(word(t, await alone(`/tunnel_sessions/${id}/stop`, { method: 'POST' })), 'NOT_FOUND')
})

t.test('endpoints: each host and port of the edges, and what agents open', async (t) => {
  const clock = new ManualClock()
  const agents = new Agents()
  const { ask } = await openAccount(t, { sources: agents, clock })
  const domain = await make(ask, '/reserved_domains', { domain: '*.a.test' })
  const https = await make(ask, '/edges/https', { hostports: ['www.a.test:443', 'b.test:8443'] })
  clock.advance(1000)
  const value = 'on_tcp_connect: []'
  const tcp = await make(ask, '/edges/tcp', { hostports: ['c.test:2222'], traffic_policy: { value } })
  const { json } = await ask('/endpoints')
  t.equal(json.endpoints.length, 3)
  const [first, ...rest] = json.endpoints
  t.match(first, {
    created_at: tcp.created_at,
    source: 'api',
    type: 'edge',
    proto: 'tcp',
    url: 'tcp://c.test:2222',
    public_url: 'tcp://c.test:2222',
    hostport: 'c.test:2222',
    host: 'c.test',
    port: 2222,
    edge: { id: tcp.id, uri: tcp.uri },
    domain: null,
    upstream_url: null,
    traffic_policy: value
  })
  rest.sort((a: { host: string }, b: { host: string }) => (a.host < b.host ? 1 : -1))
  t.match(rest, [
    { proto: 'https', url: 'https://www.a.test', port: 443, edge: { id: https.id }, domain: { id: domain.id } },
    { proto: 'https', url: 'https://b.test:8443', port: 8443, edge: { id: https.id }, domain: null }
  ])
  for (const endpoint of json.endpoints) t.same((await ask(`/endpoints/${endpoint.id}`)).json, endpoint)
  const opener = session(1, newId('cr', START))
  agents.open = [tunnel(1, opener, 'https://x.agents.test'), tunnel(2, opener, '')]
  const ephemeral = (await ask('/endpoints')).json.endpoints.find(
    ({ source }: { source: string }) => source === 'agent'
  )
  t.match(ephemeral, { type: 'ephemeral', host: 'x.agents.test', port: 443, tunnel_session: { id: opener.id } })
  t.same((await ask(`/endpoints/${ephemeral.id}`)).json, ephemeral)
  await ask(`/edges/https/${https.id}`, { method: 'PATCH', body: { hostports: ['b.test:8443'] } })
  t.equal((await ask(`/endpoints/${rest[0].id}`)).status, 404, 'it goes with its host')
  t.same((await ask(`/endpoints/${rest[1].id}`)).json, rest[1], 'the others keep their ids')
  for (const id of ['ep_0_0_0', 'ep_zzzzzzzzz_1_0123456789abcdef', 'ep_file_default', 'edghts_1', 'ep_']) {
    t.equal((await ask(`/endpoints/${id}`)).status, 404, id)
  }
})

t.test('pages of endpoints neither skip nor repeat, also while edges come and go', async (t) => {
  const clock = new ManualClock()
  const { ask } = await openAccount(t, { clock })
  const hostports: string[] = []
  const edges: string[] = []
  for (let number = 0; number < 9; number++) {
    if (number % 2 === 0) clock.advance(1)
    const own = Array.from({ length: number % 4 }, (_, at) => `h${number}-${at}.test:443`)
    hostports.push(...own)
    const kind = number % 3 === 0 ? 'tcp' : 'https'
    edges.push(`/edges/${kind}/${(await make(ask, `/edges/${kind}`, { hostports: own })).id}`)
  }
  for (const limit of [1, 2, 5, 100]) {
    const listed = await pages(ask, '/endpoints', 'endpoints', limit)
    t.same(listed.map(({ hostport }) => hostport).sort(), hostports.sort(), `pages of ${limit}`)
    const times = listed.map(({ created_at }) => String(created_at))
    t.same(times, [...times].sort().reverse(), 'newest first')
  }
  let deleted = 0
  let added = 0
  const seen = await pages(ask, '/endpoints', 'endpoints', 2, async () => {
    const edge = edges.pop()
    if (edge !== undefined && deleted++ < 4) await ask(edge, { method: 'DELETE' })
    await make(ask, '/edges/https', { hostports: [`new${added++}.test:443`] })
  })
  const names = seen.map(({ hostport }) => String(hostport))
  t.equal(new Set(names).size, names.length, 'none twice')
  const left = new Set((await pages(ask, '/endpoints', 'endpoints', 100)).map(({ hostport }) => hostport))
  for (const hostport of hostports) if (left.has(hostport)) t.ok(names.includes(hostport), `${hostport} is not skipped`)
})

t.test('the default of the options is an endpoint, read only, and the last one', async (t) => {
  const policy = 'on_http_request:\n  - actions:\n      - type: deny\n'
  const sluice = await startSluice(t, { upstream: { port: 9 }, policy, options: { API_RATE_LIMIT: 'off' } })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const read = (path: string, method = 'GET') => ask(path, { key: sluice.apiKey, method })
  const made = await ask('/edges/https', { key: sluice.apiKey, method: 'POST', body: { hostports: ['e.test:443'] } })
  t.equal(made.status, 201)
  const { json } = await read('/endpoints')
  t.equal(json.endpoints.length, 2)
  const [, last] = json.endpoints
  t.match(last, {
    id: 'ep_file_default',
    source: 'file',
    type: 'default',
    proto: 'http',
    host: '127.0.0.1',
    upstream_url: 'http://127.0.0.1:9',
    traffic_policy: policy,
    edge: null
  })
  t.same((await read('/endpoints/ep_file_default')).json, last)
  t.same((await read('/endpoints?before_id=ep_file_default')).json.endpoints, [])
  t.match(await read('/endpoints/ep_file_default', 'DELETE'), {
    status: 409,
    json: { error_code: /ENDPOINT_NOT_CLOUD/ }
  })
})
