import { randomBytes } from 'node:crypto'
import { createConnection } from 'node:net'
import { checkServerIdentity, connect } from 'node:tls'
import t from 'tap'
import { account, create, visit } from '../../../helpers/account.js'
import { until } from '../../../helpers/until.js'
import { ourAgent } from '../our-agent.js'
import { DATA, frame, RawAgent, RESET, SYN, word } from '../raw-agent.js'
import { Upstream } from '../upstream.js'
import { type Product, startProduct } from './product.js'

const HOST = 'app.example.com'
const LABELS = { app: 'web' }
const LABELLED = 7

t.test('rules of a credential: labels, domains and addresses, with the wildcards of the specification', async (t) => {
  const product = await startProduct(t)
  const bind = async (acl: readonly string[], offer: Parameters<typeof ourAgent.start>[2]) => {
    const { token } = await product.credential({ acl })
    const agent = await ourAgent.start(product.agents, token, offer)
    await agent.close()
    return agent.id
  }
  const labels = (wanted: Readonly<Record<string, string>>) => ({ labels: wanted, target: 9 })
  const https = (at?: string) => ({ endpoint: 'https', target: 9, ...(at === undefined ? {} : { at }) }) as const
  const tcp = (at?: string) => ({ endpoint: 'tcp', target: 9, ...(at === undefined ? {} : { at }) }) as const
  const address = `127.0.0.1:${await freePort()}`
  const allowed: [string[], Parameters<typeof ourAgent.start>[2]][] = [
    [[], labels({ a: 'b' })],
    [['*'], labels({ a: 'b' })],
    [['bind:app=web'], labels({ app: 'web' })],
    [['bind:app=*'], labels({ app: 'any thing' })],
    [['bind:*=web'], labels({ x: 'web', y: 'web' })],
    [['bind:*=*'], labels({ x: 'y' })],
    [['bind:one.example.com'], https('one.example.com')],
    [['bind:one.example.com'], https('ONE.example.com')],
    [['bind:*.example.com'], https('a.b.example.com')],
    [['bind:*.sluice.localhost'], https()],
    [['bind:other.example.com', '*'], https('one.example.com')],
    [[`bind:${address}`], tcp(address)],
    [['*'], tcp()]
  ]
  for (const [acl, offer] of allowed) t.ok(await bind(acl, offer), `${acl} allows ${JSON.stringify(offer)}`)
  const refused: [string[], Parameters<typeof ourAgent.start>[2], RegExp][] = [
    [['bind:app=web'], labels({ app: 'Web' }), /does not allow the labels app=Web/],
    [['bind:app=*'], labels({ app: 'web', more: 'x' }), /does not allow the labels/],
    [['bind:*=web'], labels({ app: 'api' }), /does not allow the labels app=api/],
    [['bind:*.example.com'], labels({ app: 'web' }), /does not allow the labels/],
    [['bind:*.example.com'], https('example.com'), /does not allow the name example.com/],
    [['bind:*.example.com'], https('evilexample.com'), /does not allow the name evilexample.com/],
    [['bind:*.example.com'], https(), /does not allow the name/],
    [['bind:one.example.com'], https('a.one.example.com'), /does not allow the name/],
    [['bind:app=web'], https('one.example.com'), /does not allow the name/],
    [['bind:*.example.com'], tcp(), /does not allow any free port/],
    [
      [`bind:${address}`],
      tcp(address.replace(/\d$/, (digit) => String((Number(digit) + 1) % 10))),
      /does not allow the address/
    ],
    [[`bind:${address}`], tcp(), /does not allow any free port/]
  ]
  for (const [acl, offer, why] of refused)
    await t.rejects(bind(acl, offer), why, `${acl} refuses ${JSON.stringify(offer)}`)
})

t.test('a token that is wrong, foreign or revoked is refused in words, and one that insists has to wait', async (t) => {
  const product = await startProduct(t)
  const { sluice, agents } = product
  const ask = account(sluice)
  const { id, token } = await product.credential()
  const refusal = async (wrong: string) => {
    const agent = await RawAgent.connect(agents as never)
    const answer = await agent.call(0, { Version: ['3'], ClientId: '', Extra: { Authtoken: wrong } })
    agent.socket.destroy()
    return String(answer.Error)
  }
  const foreign = `2${randomBytes(13).toString('hex')}_${randomBytes(10).toString('hex')}`
  for (const wrong of ['', 'nonsense', foreign, `${token}x`, token.slice(0, -1), token.toUpperCase()]) {
    t.match(await refusal(wrong), /not that of a tunnel credential here; POST \/credentials/, JSON.stringify(wrong))
  }
  const key = await create(sluice, '/api_keys', {})
  t.match(await refusal(key.token), /a key of the management API; agents need the token of a credential/)
  t.match(await refusal(id), /the id of a credential, not its token/)
  t.equal((await ask(`/credentials/${id}`)).json.token, null, 'nobody is shown the token again')
  await ask(`/credentials/${id}`, { method: 'DELETE' })
  t.match(await refusal(token), /not that of a tunnel credential/, 'revoked')
  let last = ''
  for (let n = 0; n < 12; n++) last = await refusal(foreign)
  t.match(last, /too many failed attempts; the next one counts in \d+ s/)
  const other = await product.credential()
  const agent = await ourAgent.start(agents, other.token, { labels: LABELS, target: 9 })
  await agent.close()
  t.notMatch(JSON.stringify(sluice.log), foreign)
})

t.test('restart makes an agent come back with its ids', async (t) => {
  const product = await startProduct(t)
  const ask = account(product.sluice)
  const { token } = await product.credential()
  const agent = await ourAgent.start(product.agents, token, { labels: LABELS, target: 9 })
  t.teardown(() => agent.close())
  const [session] = (await ask('/tunnel_sessions')).json.tunnel_sessions
  t.equal((await ask(`/tunnel_sessions/${session.id}/restart`, { method: 'POST' })).status, 204)
  await product.sluice.line(({ msg }) => msg === 'an agent has gone')
  await product.until('/tunnels', ({ tunnels }) => (tunnels as { id: string }[])[0]?.id === agent.id)
  t.match((await ask('/tunnel_sessions')).json.tunnel_sessions, [{ id: session.id }])
})

t.test('names for agents follow zone and regions, and the listener has them', async (t) => {
  const options = { ZONE: 'sluice.example.net', REGIONS: 'eu,us' }
  const product = await startProduct(t, { options })
  const made = await create(product.sluice, '/agent_ingresses', { domain: 'connect.example.com' })
  t.match(made, {
    region_domains: ['tunnel.eu.connect.example.com', 'tunnel.us.connect.example.com'],
    ns_targets: ['ns1.sluice.example.net.', 'ns2.sluice.example.net.'],
    uri: `/agent_ingresses/${made.id}`
  })
  const own = ['tunnel.eu.sluice.example.net', 'tunnel.us.sluice.example.net', 'localhost', '127.0.0.1', '::1']
  for (const name of [...own, ...made.region_domains]) {
    t.ok(await eventually(() => shows(product, name)), `${name} is in the certificate`)
  }
  t.notOk(await shows(product, 'tunnel.asia.connect.example.com'))
})

t.test('agents that break the rules harm nobody else', async (t) => {
  const product = await startProduct(t)
  const { sluice, agents } = product
  const { token } = await product.credential()
  await product.site(HOST, LABELS)
  const upstream = await Upstream.start(t)
  const good = await ourAgent.start(agents, token, { labels: LABELS, target: upstream.port })
  t.teardown(() => good.close())
  const raw = () => RawAgent.session(agents as never, token)
  const cases: [name: string, act: () => Promise<void>][] = [
    [
      'no TLS',
      async () => {
        const socket = createConnection({ host: '127.0.0.1', port: agents.port })
        socket.on('error', () => undefined)
        socket.write(randomBytes(2000))
        await new Promise((resolve) => socket.resume().once('close', resolve))
      }
    ],
    [
      'garbage before it has authenticated',
      async () => {
        const agent = await RawAgent.connect(agents as never)
        agent.socket.write(Buffer.concat([Buffer.from([0, 0, 0, 0x50]), randomBytes(5000)]))
        await agent.untilClosed()
      }
    ],
    [
      'a frame of 16 MiB',
      async () => {
        const agent = await raw()
        agent.socket.write(Buffer.from([0xff, 0xff, 0xff, 0x30, 0, 0, 0, 0]))
        await agent.untilClosed()
      }
    ],
    [
      'frames of streams that are not its own',
      async () => {
        const agent = await raw()
        agent.send(...Array.from({ length: 2000 }, (_, index) => frame(DATA, 0, 100_002 + index * 2, 'x')))
        await agent.untilClosed()
      }
    ],
    [
      '10,000 streams',
      async () => {
        const agent = await raw()
        agent.send(...Array.from({ length: 10_000 }, () => frame(DATA, SYN, agent.nextId(), word(LABELLED))))
        await agent.untilClosed()
      }
    ],
    [
      'more than the window',
      async () => {
        const agent = await raw()
        const id = agent.begin(LABELLED)
        agent.send(frame(DATA, 0, id, Buffer.alloc(300_000)))
        await agent.until(() => agent.of(id).some(({ type }) => type === RESET))
        agent.socket.destroy()
      }
    ]
  ]
  for (const [name, act] of cases) {
    await act()
    t.equal((await visit(sluice, HOST)).body, 'hello from /', name)
  }
  await product.until('/tunnel_sessions', ({ tunnel_sessions: all }) => (all as unknown[]).length === 1)
  t.match((await account(sluice)('/tunnels')).json.tunnels, [{ id: good.id }])
})

/** Does the agent listener show a certificate of its authority for this name? */
async function shows({ agents }: Product, name: string): Promise<boolean> {
  const servername = /[:\d]$/.test(name) ? undefined : name
  const socket = connect({
    host: '127.0.0.1',
    port: agents.port,
    ca: agents.ca,
    checkServerIdentity: () => undefined,
    ...(servername === undefined ? {} : { servername })
  })
  return await new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once('secureConnect', () => {
      resolve(checkServerIdentity(name, socket.getPeerCertificate()) === undefined)
      socket.destroy()
    })
  })
}

async function eventually(done: () => Promise<boolean>): Promise<boolean> {
  await until(done)
  return true
}

async function freePort(): Promise<number> {
  const { createServer } = await import('node:net')
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}
