import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, get, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { runAgent } from '../../../src/capabilities/tunnel/command-run.js'
import { readAgentSetup } from '../../../src/capabilities/tunnel/command-setup.js'
import { labelDialer } from '../../../src/capabilities/tunnel/server/dialer.js'
import { Output } from './agent-output.js'
import { AgentServer, TOKEN } from './agent-server.js'
import { answerOf, body } from './agent-suite.js'
import { Front } from './front.js'
import { Upstream } from './upstream.js'

async function setup(t: Test) {
  const server = await AgentServer.start(t)
  const upstream = await Upstream.start(t)
  const folder = t.testdir({})
  const ca = join(folder, 'ca.pem')
  await writeFile(ca, server.ca)
  return { server, upstream, folder, ca, address: `127.0.0.1:${server.port}` }
}

t.test('one tunnel by flags: traffic flows, the server stops it', async (t) => {
  const { server, upstream, ca, address } = await setup(t)
  const out = new Output()
  const flags = { server: address, ca, label: ['app=web', 'zone=a'], forward: `http://127.0.0.1:${upstream.port}` }
  const listeners = () => ['SIGINT', 'SIGTERM'].map((signal) => process.listenerCount(signal))
  const before = listeners()
  const running = runAgent(flags, { SLUICE_TOKEN: TOKEN }, out)
  await out.until(/app=web zone=a -> http/)
  t.same(
    listeners(),
    before.map((count) => count + 1),
    'signals stop it'
  )
  const front = await Front.start(t, labelDialer(server.registry, { app: 'web' }, 'http'))
  t.equal(await body(await answerOf(get(`${front.url}/a`))), 'hello from /a')
  t.equal(await server.sessions()[0]?.command('stop'), undefined)
  t.equal(await running, 0)
  t.same(listeners(), before, 'and end the process again once it has stopped')
  t.match(
    out.text,
    /^connecting to 127\.0\.0\.1:\d+\nconnected to 127\.0\.0\.1:\d+ as tests \(ts_\w+\)\ntunnel: app=web/
  )
  t.match(out.text, /\nstopped\n$/)
  t.notMatch(out.text, TOKEN)
})

t.test('several tunnels from a file; a target that is not there is said', async (t) => {
  const { server, upstream, folder, address } = await setup(t)
  const config = join(folder, 'agent.yaml')
  await writeFile(join(folder, 'policy.yaml'), 'on_http_request: []\n')
  await writeFile(
    config,
    `server: ${address}
ca: ca.pem
metadata: from a file
tunnels:
  web: {labels: {app: web, number: 1}, forward: ${upstream.port}}
  shop: {https: shop.example.com, endpoint_policy: policy.yaml, forward: 'http://127.0.0.1:${upstream.port}'}
  database: {tcp: true, forward: 'tcp://127.0.0.1:1', metadata: db}
`
  )
  const out = new Output(true)
  const running = runAgent({ config }, { SLUICE_TOKEN: TOKEN }, out)
  await out.until(/database: tcp:\/\/127\.0\.0\.1:\d+ -> tcp:\/\/127\.0\.0\.1:1\n/)
  t.match(out.text, '\r\u001b[2Kconnected', 'on a terminal the state is replaced')
  t.equal(server.registry.select({ app: 'web', number: '1' }).length, 1)
  t.equal(server.endpoints.get('https://shop.example.com')?.trafficPolicy, 'on_http_request: []\n')
  t.equal(server.sessions()[0]?.facts.metadata, 'from a file')
  const url = [...server.endpoints.keys()].find((key) => key.startsWith('tcp:')) ?? ''
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => undefined)
  await once(socket, 'close')
  t.match(out.text, /database: tcp:\/\/127\.0\.0\.1:1 cannot be reached: ECONNREFUSED/)
  await server.sessions()[0]?.command('stop')
  t.equal(await running, 0)
})

t.test('the server is reached through an HTTP proxy', async (t) => {
  const { server, upstream, ca } = await setup(t)
  const asked: string[] = []
  const proxy = createServer((_, answer) => answer.writeHead(405).end())
  proxy.on('connect', ({ url = '', headers }: IncomingMessage, socket: Socket) => {
    asked.push(`${url} ${headers['proxy-authorization']}`)
    if (headers['proxy-authorization'] === undefined) {
      socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
      return
    }
    const through = connect(server.port, '127.0.0.1', () => socket.write('HTTP/1.1 200 OK\r\n\r\n'))
    socket.pipe(through).pipe(socket)
    for (const end of [socket, through]) end.on('error', () => end.destroy())
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.teardown(() => proxy.close())
  const at = `127.0.0.1:${(proxy.address() as AddressInfo).port}`
  const address = `sluice.example.com:${server.port}`
  const flags = {
    server: address,
    serverName: 'localhost',
    ca,
    label: ['app=web'],
    forward: `http://127.0.0.1:${upstream.port}`
  }
  const out = new Output()
  const running = runAgent(flags, { SLUICE_TOKEN: TOKEN, HTTPS_PROXY: `http://me:p%40ss@${at}` }, out)
  await out.until(/app=web -> http/)
  t.same(asked, [`${address} Basic ${Buffer.from('me:p@ss').toString('base64')}`])
  await server.sessions()[0]?.command('stop')
  t.equal(await running, 0)
  const setupOf = (flags: object, environment: object) =>
    readAgentSetup(
      { server: 'a.example.com:443', forward: '1', label: ['a=b'], ...flags },
      { SLUICE_TOKEN: TOKEN, ...environment }
    )
  const proxyOf = async (...words: Parameters<typeof setupOf>) => (await setupOf(...words)).server.proxy?.href
  for (const [flags, environment, expected] of [
    [{}, {}, undefined],
    [{}, { HTTPS_PROXY: at }, `http://${at}/`],
    [{}, { https_proxy: at, HTTPS_PROXY: 'http://other' }, `http://${at}/`],
    [{}, { ALL_PROXY: at }, `http://${at}/`],
    [{}, { HTTPS_PROXY: at, NO_PROXY: 'b.test, .example.com' }, undefined],
    [{}, { HTTPS_PROXY: at, NO_PROXY: 'ample.com' }, `http://${at}/`],
    [{}, { HTTPS_PROXY: at, NO_PROXY: '*' }, undefined],
    [{ server: '127.0.0.1:443' }, { HTTPS_PROXY: at }, undefined],
    [{ proxy: 'off' }, { HTTPS_PROXY: at }, undefined],
    [{ proxy: `https://${at}`, server: '127.0.0.1:443' }, { NO_PROXY: '*' }, `https://${at}/`]
  ] as const) {
    t.equal(await proxyOf(flags, environment), expected, JSON.stringify([flags, environment]))
  }
  await t.rejects(setupOf({ proxy: 'socks5://x' }, {}), { code: 'AGENT_SETUP' })
  const refused = new Output()
  const refusing = runAgent({ ...flags, proxy: at }, { SLUICE_TOKEN: TOKEN }, refused)
  await refused.until(/answers 407 to CONNECT/)
  process.emit('SIGTERM')
  t.equal(await refusing, 0)
})

t.test('refusals are said in words, with an exit code', async (t) => {
  const { ca, address } = await setup(t)
  const flags = { server: address, ca, label: ['app=web'], forward: '3000' }
  const attempt = async (changed: object, environment: Record<string, string> = { SLUICE_TOKEN: TOKEN }) => {
    const out = new Output()
    const code = await runAgent({ ...flags, ...changed }, environment, out)
    return `${code} ${out.text.split('\n').at(-2)}`
  }
  t.equal(await attempt({ token: 'bad' }), '1 the server rejected this agent: this token is not known here')
  t.equal(await attempt({}, {}), '2 the token is missing: set SLUICE_TOKEN, or give --token')
  t.match(await attempt({ ca: undefined }), /^1 .*the authority of the server is not trusted; name its certificate/)
  t.match(await attempt({ serverName: 'other.example' }), /^1 .*the certificate is for another name/)
  t.match(
    await attempt({ ca: '/nowhere' }),
    /^2 \/nowhere cannot be read: there is no such file \(ENOENT\); correct the path/
  )
  t.match(await attempt({ server: 'nowhere' }), '2 "nowhere" is no host:port of a server')
  t.match(await attempt({ label: ['app'] }), '2 --label app: must be key=value')
  t.match(await attempt({ forward: 'ftp://x:1' }), '2 tunnel: cannot forward to "ftp://x:1"')
  t.match(await attempt({ resolver: 'dns' }), '2 resolver: "dns" is neither own nor system')
  t.match(await attempt({ https: true }), '2 tunnel: needs either labels or one of https, http, tcp')
})

t.test('a file that is wrong says where', async (t) => {
  const cases: [text: string, message: RegExp][] = [
    ['server: [1]', /agent\.yaml:1:9: server must be a text/],
    ['servr: a:1', /agent\.yaml:1:1: "servr" is not known; server, ca/],
    ['tunnels:\n  web:\n    forwards: 1', /agent\.yaml:3:5: "forwards" is not known/],
    ['tunnels:\n  web: 3', /agent\.yaml:2:8: must be a map/],
    ['tunnels:\n  web: {tcp: true, pooled: 3, forward: 1}', /agent\.yaml:2:28: pooled must be true or false/],
    ['a: b: c', /agent\.yaml: .*line 1/]
  ]
  for (const [text, message] of cases) {
    const config = join(t.testdir({ 'agent.yaml': text }), 'agent.yaml')
    await t.rejects(readAgentSetup({ config, server: 'a:1', token: 'x' }, {}), message)
  }
})
