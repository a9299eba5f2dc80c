import t, { type Test } from 'tap'
import { account, create, site } from '../helpers/account.js'
import { type RawPeer, rawClient } from '../helpers/raw-client.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { RawUpstream, type UpstreamPeer } from '../helpers/upstream.js'
import { onEngines } from '../wire/engines.js'

const HOST = 'a.example.com'
const switched = (protocol: string) =>
  `HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`
const asking = (method: string, fields: string, body = '') =>
  `${method} /exec HTTP/1.1\r\nHost: ${HOST}\r\nConnection: Upgrade\r\n${fields}\r\n${body}`
const JSON_BODY = '{"Detach":false,"Tty":true}'
const WITH_BODY = `Content-Type: application/json\r\nContent-Length: ${JSON_BODY.length}\r\n`

/** An upstream that switches to what it is asked for, and else says so. */
async function switching(t: Test): Promise<RawUpstream> {
  return await RawUpstream.start(t, async (peer: UpstreamPeer) => {
    for (;;) {
      const { headers, body } = await peer.request()
      const fieldOf = (wanted: string) => headers.find(([name]) => name.toLowerCase() === wanted)?.[1]
      const protocol = fieldOf('upgrade')
      const connection = fieldOf('connection')
      if (protocol !== undefined && connection === 'Upgrade') {
        peer.send(`${switched(protocol)}${body}`)
        return
      }
      const said = `${connection === 'Upgrade' ? 'connection ' : ''}plain ${body}`
      peer.send(`HTTP/1.1 200 OK\r\nContent-Length: ${said.length}\r\n\r\n${said}`)
    }
  })
}

async function before(sluice: RunningSluice, upstream: RawUpstream, settings: object): Promise<string> {
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}`, ...settings })
  await site(sluice, HOST, { backend: { backend_id: id } })
  return id
}

/** Bytes pass both ways, and the end of one side is passed on. */
async function echoes(t: Test, client: RawPeer, peer: UpstreamPeer, what: string): Promise<void> {
  client.send('from the client')
  await peer.until('from the client')
  peer.send('from the server')
  await client.until('from the server')
  client.socket.end()
  await peer.untilEnd()
  peer.send('last words')
  await client.until('last words')
  peer.socket.end()
  await client.untilEnd()
  t.pass(what)
}

onEngines('other protocols than WebSocket pass where the backend says so', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const upstream = await switching(t)
  const id = await before(sluice, upstream, { upgrades: ['tcp', 'SPDY/3.1'] })
  const cases: [what: string, text: string, protocol: string, body: string][] = [
    ['docker exec', asking('POST', `Upgrade: tcp\r\n${WITH_BODY}`, JSON_BODY), 'tcp', JSON_BODY],
    ['docker attach', asking('POST', 'Upgrade: tcp\r\nContent-Length: 0\r\n'), 'tcp', ''],
    [
      'kubectl exec',
      asking('POST', 'Upgrade: spdy/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n'),
      'spdy/3.1',
      ''
    ],
    ['a list', asking('GET', 'Upgrade: h2c, SPDY/3.1\r\n'), 'SPDY/3.1', ''],
    ['two fields', asking('GET', 'Upgrade: h2c\r\nUpgrade: TCP\r\n'), 'TCP', '']
  ]
  for (const [index, [what, text, protocol, body]] of cases.entries()) {
    const client = await rawClient(sluice.port)
    client.send(text)
    const answer = await client.until('\r\n\r\n')
    t.match(answer, /^HTTP\/1\.1 101 /, what)
    t.match(answer.toLowerCase(), `\r\nupgrade: ${protocol.toLowerCase()}\r\n`, what)
    const peer = upstream.peers[index] as UpstreamPeer
    if (body !== '') await client.until(body)
    await echoes(t, client, peer, what)
  }
  const plain: [what: string, text: string, said: string][] = [
    ['another protocol', asking('GET', 'Upgrade: h2c\r\n'), 'plain '],
    ['another one with content', asking('POST', `Upgrade: h2c\r\n${WITH_BODY}`, JSON_BODY), `plain ${JSON_BODY}`],
    ['no Connection', asking('GET', 'Upgrade: tcp\r\n').replace('Connection: Upgrade\r\n', ''), 'plain '],
    ['HTTP/1.0', asking('GET', 'Upgrade: tcp\r\n').replace('HTTP/1.1', 'HTTP/1.0'), 'plain ']
  ]
  for (const [what, text, said] of plain) {
    const client = await rawClient(sluice.port)
    client.send(text)
    t.match(await client.answer(), { status: 200, body: said }, what)
    client.socket.destroy()
  }
  await account(sluice)(`/backends/static/${id}`, { method: 'PATCH', body: { upgrades: [] } })
  const client = await rawClient(sluice.port)
  client.send(asking('POST', `Upgrade: tcp\r\n${WITH_BODY}`, JSON_BODY))
  t.match(await client.answer(), { status: 200, body: `plain ${JSON_BODY}` }, 'not any more')
  client.send(asking('GET', 'Upgrade: tcp\r\n'))
  t.match(await client.answer(), { status: 200, body: 'plain ' }, 'and its connection is used again')
})

onEngines(
  'a switch that nobody asked for, or that comes before the end of the request, is refused',
  async (t, engine) => {
    const sluice = await startSluice(t, { engine })
    const upstream = await RawUpstream.start(t, async (peer) => {
      await peer.head()
      peer.send(switched('tcp'))
    })
    await before(sluice, upstream, { upgrades: ['tcp'] })
    for (const text of [
      asking('GET', 'Upgrade: h2c\r\n'),
      asking('POST', 'Upgrade: tcp\r\nContent-Length: 10\r\n', 'part'),
      `GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`
    ]) {
      const client = await rawClient(sluice.port)
      client.send(text)
      t.match(await client.answer(), { status: 502 }, text)
      client.socket.destroy()
    }
  }
)

onEngines('a switched connection has the idle time of its backend', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const upstream = await switching(t)
  await before(sluice, upstream, { upgrades: ['tcp'], timeouts: { idle: 0.2 } })
  const client = await rawClient(sluice.port)
  client.send(asking('POST', 'Upgrade: tcp\r\n'))
  await client.until('\r\n\r\n')
  await client.untilEnd().catch(() => undefined)
  t.match(await sluice.line(({ failure }) => failure === 'idle'), { status: 101 })
})

t.test('protocols are tokens, and WebSocket is none of them', async (t) => {
  const ask = account(await startSluice(t))
  for (const upgrades of [['a b'], ['spdy/'], ['/1'], ['tcp,spdy'], ['WebSocket']]) {
    const body = { address: '127.0.0.1:1', upgrades }
    t.match(await ask('/backends/static', { method: 'POST', body }), { status: 400 }, String(upgrades))
  }
})
