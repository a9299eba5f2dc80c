import 'reflect-metadata'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, createServer, request } from 'node:http'
import { connect, type IncomingHttpHeaders } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { Client, credentials, status } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { makeAuthority, makeServerCertificate } from '../../src/lib/self-signed.js'
import { get, started, stopped } from '../capabilities/site-file/site-kit.js'
import { account, create, site, visit } from '../helpers/account.js'
import { fixture } from '../helpers/files.js'
import { ask, callAll, cutShort, startWords } from '../helpers/grpc.js'
import { engines, type RunningSluice, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { haproxyConf, missing, nginxConf, type PeerProgram, type Program, startPeer } from './peer-programs.js'

/** nginx and HAProxy speak HTTP/2 with us: behind us, and in front of us. */
const HOST = 'shop.example.com'
const DAY = 86_400_000
const MEGABYTE = Buffer.alloc(1_048_576, 'sluice ')
const now = Date.now()
const authority = await makeAuthority('CN=Upstreams', { now, life: DAY })
const own = await makeServerCertificate(
  'CN=upstream',
  ['upstream.test'],
  { now, life: DAY },
  {
    subject: 'CN=Upstreams',
    key: authority.key
  }
)
const file = (name: string) => readFileSync(fixture(`tls/${name}`), 'utf8')
const FILES = {
  'cert.pem': own.cert,
  'key.pem': own.key,
  'both.pem': own.cert + own.key,
  'clients.pem': file('clients-ca.crt')
}
const CLIENT = { certificate_pem: file('client.crt'), private_key_pem: file('client.key') }
const STRANGER = { certificate_pem: file('stranger.crt'), private_key_pem: file('stranger.key') }
const TRUSTED = { enabled: true, ca_pem: authority.cert, server_name: 'upstream.test' }

const programs: readonly Program[] = ['nginx', 'haproxy']

function withPrograms(name: string, run: (t: Test, program: Program) => Promise<void>, which = programs): void {
  for (const program of which)
    t.test(`${program}: ${name}`, { skip: missing(program), timeout: 60_000 }, (t) => run(t, program))
}

/** What stands behind the peer, which passes requests on in HTTP/1.1: the bytes of a POST come back. */
async function origin(t: Test): Promise<number> {
  const server = createServer(async (request, response) => {
    const { method, url = '' } = request
    const body = await buffer(request)
    if (method === 'POST') response.end(body)
    else if (url === '/1mb') response.end(MEGABYTE)
    else if (url === '/none') response.writeHead(404).end('not here')
    else response.setHeader('content-length', 5).end(method === 'HEAD' ? undefined : 'small')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

interface Behind {
  readonly behind: number
  readonly tls?: boolean
  /** A client certificate is demanded. */
  readonly mutual?: boolean
  readonly generation?: number
}

/** The configuration of a peer that speaks HTTP/2 alone and says of each request in which version it came. */
function configuration(
  program: Program,
  port: number,
  folder: string,
  { behind, tls = false, mutual = false, generation = 1 }: Behind
): string {
  if (program === 'nginx') {
    const keys = `ssl_certificate ${folder}/cert.pem; ssl_certificate_key ${folder}/key.pem;`
    const clients = `ssl_client_certificate ${folder}/clients.pem; ssl_verify_client on;`
    return nginxConf(
      folder,
      `listen 127.0.0.1:${port} http2${tls ? ' ssl' : ''}; ${tls ? keys : ''} ${mutual ? clients : ''}
       keepalive_requests 300;
       add_header x-version $server_protocol always; add_header x-client "$ssl_client_s_dn" always;
       add_header x-generation ${generation} always;
       location / { proxy_pass http://127.0.0.1:${behind}; proxy_http_version 1.1; proxy_request_buffering off; }`
    )
  }
  const clients = mutual ? ` ca-file ${folder}/clients.pem verify required` : ''
  return haproxyConf(
    `bind 127.0.0.1:${port} ${tls ? `ssl crt ${folder}/both.pem alpn h2${clients}` : 'proto h2'}
  http-response set-header x-version %HV
  http-response set-header x-client CN=%{+Q}[ssl_c_s_dn(cn)]
  http-response set-header x-generation ${generation}`,
    `server one 127.0.0.1:${behind}`
  )
}

interface Running {
  readonly peer: PeerProgram
  readonly conf: (generation: number) => string
}

async function peerOf(t: Test, program: Program, behind: Behind): Promise<Running> {
  let conf: Running['conf'] = () => ''
  const peer = await startPeer(
    t,
    program,
    (port, folder) => {
      conf = (generation) => configuration(program, port, folder, { ...behind, generation })
      return conf(behind.generation ?? 1)
    },
    FILES
  )
  return { peer, conf: (generation) => conf(generation) }
}

async function backend(sluice: RunningSluice, port: number, more: object = {}): Promise<string> {
  return (await create(sluice, '/backends/static', { address: `127.0.0.1:${port}`, http2: true, ...more })).id
}

interface Answered {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

type Ask = (path: string, method?: string, body?: Buffer) => Promise<Answered>

/** A client of HTTP/1.1, and one of HTTP/2 by prior knowledge, which has one connection. */
function clients(t: Test, sluice: RunningSluice): Readonly<Record<'1.1' | '2', Ask>> {
  const agent = new Agent({ keepAlive: true })
  const session = connect(`http://127.0.0.1:${sluice.port}`)
  t.teardown(() => {
    agent.destroy()
    session.destroy()
  })
  return {
    '1.1': (path, method = 'GET', body) =>
      new Promise((resolve, reject) => {
        const sent = request({ port: sluice.port, path, method, headers: { host: HOST }, agent }, (response) =>
          whole(response, response.statusCode, response.headers).then(resolve, reject)
        )
        sent.on('error', reject)
        sent.end(body)
      }),
    async '2'(path, method = 'GET', body) {
      const stream = session.request({ ':authority': HOST, ':path': path, ':method': method })
      stream.end(body)
      const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders]
      return whole(stream, Number(headers[':status']), headers)
    }
  }
}

async function whole(from: Readable, status = 0, headers: IncomingHttpHeaders): Promise<Answered> {
  return { status, headers, body: await buffer(from) }
}

for (const tls of [false, true]) {
  withPrograms(`an upstream in HTTP/2 ${tls ? 'over TLS' : 'by prior knowledge'}`, async (t, program) => {
    const { peer } = await peerOf(t, program, { behind: await origin(t), tls })
    const sluice = await startSluice(t)
    await site(sluice, HOST, { backend: { backend_id: await backend(sluice, peer.port, tls ? { tls: TRUSTED } : {}) } })
    for (const [version, ask] of Object.entries(clients(t, sluice))) {
      const small = await ask('/')
      t.match(small, { status: 200, headers: { 'x-version': 'HTTP/2.0' } }, version)
      t.equal(small.body.toString(), 'small')
      t.match(await ask('/none'), { status: 404, body: Buffer.from('not here') })
      const head = await ask('/', 'HEAD')
      t.match(head, { status: 200, headers: { 'content-length': '5' } })
      t.equal(head.body.length, 0)
      t.ok((await ask('/1mb')).body.equals(MEGABYTE), '1 MB down')
      const echoed = await ask('/', 'POST', MEGABYTE)
      t.equal(echoed.status, 200)
      t.ok(echoed.body.equals(MEGABYTE), '1 MB up and down')
      const many = await Promise.all(Array.from({ length: 64 }, () => ask('/')))
      t.ok(
        many.every(({ status, body }) => status === 200 && body.toString() === 'small'),
        '64 at once'
      )
    }
    t.equal(peer.said(), '')
  })
}

/** Clients that ask without a pause until they are stopped, and what they got, by status and generation of the peer. */
class Load {
  readonly got = new Map<string, number>()
  readonly #running: readonly Promise<void>[]
  #over = false

  constructor(ask: Ask) {
    this.#running = Array.from({ length: 16 }, async () => {
      while (!this.#over) {
        const key = await ask('/').then(
          ({ status, headers }) => `${status} ${headers['x-generation'] ?? headers['sluice-error-code']}`,
          (error: Error) => error.message
        )
        this.got.set(key, this.count(key) + 1)
      }
    })
  }

  count(key: string): number {
    return this.got.get(key) ?? 0
  }

  get failed(): boolean {
    return [...this.got.keys()].some((key) => !key.startsWith('200 '))
  }

  async stop(): Promise<void> {
    this.#over = true
    await Promise.all(this.#running)
  }
}

/** Waits until each of them got so many more answers of this generation, or something else than an answer. */
async function served(loads: readonly Load[], generation: number, more: number): Promise<void> {
  const key = `200 ${generation}`
  const before = loads.map((load) => load.count(key))
  await until(
    () => loads.some(({ failed }) => failed) || loads.every((load, i) => load.count(key) > (before[i] ?? 0) + more)
  )
}

for (const tls of [false, true]) {
  const over = tls ? 'over TLS' : 'in clear text'
  const settings = tls ? { tls: TRUSTED } : {}

  withPrograms(
    `a reload under load fails no safe request ${over}`,
    async (t, program) => {
      const { peer, conf } = await peerOf(t, program, { behind: await origin(t), tls })
      const sluice = await startSluice(t)
      await site(sluice, HOST, { backend: { backend_id: await backend(sluice, peer.port, settings) } })
      const loads = Object.values(clients(t, sluice)).map((ask) => new Load(ask))
      for (let generation = 1; generation <= 4; generation++) {
        if (generation > 1) {
          await peer.write(conf(generation))
          peer.child.kill('SIGHUP')
        }
        await served(loads, generation, 200)
      }
      for (const load of loads) {
        await load.stop()
        t.same([...load.got.keys()].sort(), ['200 1', '200 2', '200 3', '200 4'])
      }
    },
    ['nginx']
  )

  withPrograms(`a soft stop under load fails no safe request ${over}`, async (t, program) => {
    const behind = await origin(t)
    const { peer: first } = await peerOf(t, program, { behind, tls, generation: 1 })
    const { peer: second } = await peerOf(t, program, { behind, tls, generation: 2 })
    const sluice = await startSluice(t)
    const ids = [await backend(sluice, first.port, settings), await backend(sluice, second.port, settings)]
    const { id } = await create(sluice, '/backends/weighted', {
      backends: Object.fromEntries(ids.map((id) => [id, 1]))
    })
    await site(sluice, HOST, { backend: { backend_id: id } })
    const loads = Object.values(clients(t, sluice)).map((ask) => new Load(ask))
    await served(loads, 1, 100)
    first.child.kill(program === 'nginx' ? 'SIGQUIT' : 'SIGUSR1')
    await until(() => first.child.exitCode !== null || loads.some(({ failed }) => failed))
    await served(loads, 2, 100)
    for (const load of loads) {
      await load.stop()
      t.same([...load.got.keys()].sort(), ['200 1', '200 2'])
    }
  })
}

withPrograms('a client certificate is shown from a vault, and its lack has an answer', async (t, program) => {
  const { peer } = await peerOf(t, program, { behind: await origin(t), tls: true, mutual: true })
  const folder = t.testdir({
    'ca.pem': authority.cert,
    'client.pem': CLIENT.certificate_pem,
    'client.key': CLIENT.private_key_pem,
    'sites.yaml': `
vaults:
  upstreams:
    key: { file: client.key }
backends:
  shown:
    servers: [h2://127.0.0.1:${peer.port}]
    tls:
      ca: ca.pem
      server_name: upstream.test
      client_certificate: { certificate: client.pem, key: { vault: upstreams/key } }
  silent:
    servers: [h2://127.0.0.1:${peer.port}]
    tls: { ca: ca.pem, server_name: upstream.test }
sites:
  shown.example.com: shown
  silent.example.com: silent
`
  })
  const { process, traffic } = await started(t, folder, {}, 'sites.yaml')
  t.equal(await get(traffic, 'shown.example.com'), '200 small')
  // nginx answers one that shows none itself; HAProxy ends the handshake.
  t.equal(await get(traffic, 'silent.example.com'), program === 'nginx' ? '400' : '502')
  await stopped(process)
})

withPrograms('a client certificate of the API is shown, and a wrong one or none is refused', async (t, program) => {
  const { peer } = await peerOf(t, program, { behind: await origin(t), tls: true, mutual: true })
  const refused = program === 'nginx' ? [400, undefined] : [502, 'UPSTREAM_CLIENT_CERTIFICATE']
  for (const [certificate, expected] of [
    [CLIENT, [200, undefined]],
    [STRANGER, refused],
    [undefined, refused]
  ] as const) {
    const sluice = await startSluice(t)
    const made = certificate && (await create(sluice, '/tls_certificates', certificate))
    const tls = made === undefined ? TRUSTED : { ...TRUSTED, client_certificate_id: made.id }
    await site(sluice, HOST, { backend: { backend_id: await backend(sluice, peer.port, { tls }) } })
    const { status, headers } = await visit(sluice, HOST)
    t.same([status, headers['sluice-error-code']], expected)
    if (certificate === CLIENT) t.equal(headers['x-client'], 'CN=client.test')
    t.notOk(JSON.stringify(sluice.log).includes('PRIVATE KEY'))
    await sluice.stop()
  }
})

/** The ways in which a peer passes calls on by prior knowledge; what it says of their host. */
const WAYS: Readonly<
  Record<string, { readonly program: Program; readonly conf: (port: number, folder: string, to: number) => string }>
> = {
  'nginx, which names the upstream in :authority': {
    program: 'nginx',
    conf: (port, folder, to) =>
      nginxConf(
        folder,
        `listen 127.0.0.1:${port} http2; location / { grpc_pass grpc://${HOST}; }`,
        `upstream ${HOST} { server 127.0.0.1:${to}; keepalive 4; }`
      )
  },
  'nginx, which sends a field Host': {
    program: 'nginx',
    conf: (port, folder, to) =>
      nginxConf(
        folder,
        `listen 127.0.0.1:${port} http2; location / { grpc_pass grpc://127.0.0.1:${to}; grpc_set_header Host $host; }`
      )
  },
  HAProxy: {
    program: 'haproxy',
    conf: (port, _folder, to) => haproxyConf(`bind 127.0.0.1:${port} proto h2`, `server one 127.0.0.1:${to} proto h2`)
  }
}

/** A client of gRPC that calls HOST there. */
function caller(t: Test, port: number): Client {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    'grpc.default_authority': HOST,
    'grpc.enable_retries': 0
  })
  t.teardown(() => client.close())
  return client
}

for (const [name, { program, conf }] of Object.entries(WAYS)) {
  for (const engine of engines)
    t.test(`${engine}: gRPC from ${name}`, { skip: missing(program), timeout: 60_000 }, async (t) => {
      const { port, seen } = await startWords(t)
      const sluice = await startSluice(t, { engine })
      await site(sluice, HOST, { backend: { backend_id: await backend(sluice, port) } })
      const peer = await startPeer(t, program, (port, folder) => conf(port, folder, sluice.port))
      const client = caller(t, peer.port)
      await callAll(t, client)
      await cutShort(t, client, seen)
      const refused = await account(sluice)('/edges/https')
      const [edge] = refused.json.https_edges
      t.equal((await account(sluice)(`/edges/https/${edge.id}`, { method: 'DELETE' })).status, 204)
      t.match((await ask(client, 'x')).error, { code: status.UNIMPLEMENTED }, 'a refusal of ours passes the peer')
    })

  t.test(`gRPC to ${name}`, { skip: missing(program), timeout: 60_000 }, async (t) => {
    const { port, seen } = await startWords(t)
    const peer = await startPeer(t, program, (own, folder) => conf(own, folder, port))
    const sluice = await startSluice(t)
    await site(sluice, HOST, { backend: { backend_id: await backend(sluice, peer.port) } })
    const client = caller(t, sluice.port)
    await callAll(t, client)
    await cutShort(t, client, seen)
  })
}
