import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Client, credentials, status } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { makeAuthority, makeServerCertificate } from '../../src/lib/self-signed.js'
import { create, site, visit } from '../helpers/account.js'
import { ask, callAll, METHODS, startWords } from '../helpers/grpc.js'
import { needs, peerProgram } from '../helpers/peer-program.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { freePort } from '../proxy/free-port.js'

/** Servers of HTTP/2 that other people have written, behind Sluice and in front of it. */

const HOST = 'shop.example.com'
const DAY = 86_400_000
const MEGABYTE = randomBytes(1_048_576)
const NGINX = '/usr/sbin/nginx'
const HAPROXY = '/usr/sbin/haproxy'
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

const authority = await makeAuthority('CN=Authority of peers', { now: Date.now(), life: DAY })
const identity = await makeServerCertificate(
  'CN=peer',
  ['peer.test'],
  { now: Date.now(), life: DAY },
  {
    subject: 'CN=Authority of peers',
    key: authority.key
  }
)

/** What stands behind a peer, in HTTP/1.1: it answers with what it got. */
async function origin(t: Test): Promise<number> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    if (request.url === '/missing') response.statusCode = 404
    response.setHeader('x-got', `${request.method} ${request.headers.host} ${body.length} ${sha256(body)}`)
    response.end(request.url === '/1mb' ? MEGABYTE : 'small')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

interface Peer {
  readonly program: string
  /** Starts one that serves HTTP/2 on `port` and asks `behind`. `words`: further ones on its command line. */
  start(t: Test, about: PeerSetup, words?: readonly string[]): Promise<number>
  /** Has it read its configuration anew: a new worker accepts, the old one says GOAWAY. */
  renew(t: Test, about: PeerSetup, process: number): Promise<void>
}

interface PeerSetup {
  readonly folder: string
  readonly port: number
  /** Port behind it, and what is spoken there. */
  readonly behind: number
  readonly speaks: 'http1' | 'grpc'
  readonly tls: boolean
  /** The host that it asks for. */
  readonly host?: string
}

const nginx: Peer = {
  program: NGINX,
  async start(t, { folder, port, behind, speaks, tls, host }) {
    const pass =
      speaks === 'grpc'
        ? `grpc_pass grpc://127.0.0.1:${behind}; grpc_set_header Host ${host ?? '$host'}; grpc_read_timeout 30s;`
        : `proxy_pass http://127.0.0.1:${behind}; proxy_http_version 1.1; proxy_set_header Host $host;`
    await writeFile(
      join(folder, 'nginx.conf'),
      `daemon off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/log crit; events { worker_connections 1024; }
http {
  access_log off; client_max_body_size 0;
  client_body_temp_path ${folder}/a; proxy_temp_path ${folder}/b; fastcgi_temp_path ${folder}/c; uwsgi_temp_path ${folder}/d;
  scgi_temp_path ${folder}/e;
  server {
    listen 127.0.0.1:${port} ${tls ? 'ssl' : ''} http2;
    ${tls ? `ssl_certificate ${folder}/cert.pem; ssl_certificate_key ${folder}/key.pem;` : ''}
    location / { ${pass} }
  }
}
`
    )
    return await peerProgram(t, port, NGINX, ['-p', folder, '-c', join(folder, 'nginx.conf')])
  },
  async renew(_t, _about, pid) {
    process.kill(pid, 'SIGHUP')
  }
}

const haproxy: Peer = {
  program: HAPROXY,
  async start(t, { folder, port, behind, speaks, tls, host }, words = []) {
    const bind = tls ? `ssl crt ${folder}/both.pem alpn h2` : 'proto h2'
    await writeFile(
      join(folder, 'haproxy.cfg'),
      `global
  maxconn 1000
  nbthread 1
defaults
  mode http
  timeout client 30s
  timeout server 30s
  timeout connect 5s
frontend in
  bind 127.0.0.1:${port} ${bind}
  ${host === undefined ? '' : `http-request set-header host ${host}`}
  default_backend behind
backend behind
  server one 127.0.0.1:${behind} ${speaks === 'grpc' ? 'proto h2' : ''}
`
    )
    return await peerProgram(t, port, HAPROXY, ['-db', '-f', join(folder, 'haproxy.cfg'), ...words])
  },
  async renew(t, about, process) {
    await haproxy.start(t, about, ['-sf', String(process)])
  }
}

const peers = { nginx, haproxy }

function folderOf(t: Test): string {
  const { cert, key } = identity
  return t.testdir({ 'cert.pem': cert, 'key.pem': key, 'both.pem': `${cert}${key}` })
}

async function behind(t: Test, peer: Peer, about: Omit<PeerSetup, 'folder' | 'port'>) {
  const setup = { ...about, folder: folderOf(t), port: await freePort() }
  const process = await peer.start(t, setup)
  const sluice = await startSluice(t)
  const trust = { enabled: true, ca_pem: authority.cert, server_name: 'peer.test' }
  const { id } = await create(sluice, '/backends/static', {
    address: `127.0.0.1:${setup.port}`,
    http2: true,
    ...(about.tls ? { tls: trust } : {})
  })
  await site(sluice, HOST, { backend: { backend_id: id } })
  return { sluice, process, setup }
}

interface Asked {
  readonly path?: string
  readonly method?: string
  readonly body?: Buffer
}

interface Got {
  readonly status: number
  readonly got: string
  readonly sum: string
}

/** Clients of both versions, the second one with a session for all of its requests. */
function clients(t: Test, sluice: RunningSluice): Readonly<Record<string, (asked?: Asked) => Promise<Got>>> {
  const session = connect(`http://127.0.0.1:${sluice.port}`)
  t.teardown(() => session.destroy())
  return {
    async 'HTTP/1.1'({ path = '/', method = 'GET', body } = {}) {
      const sending = request({ port: sluice.port, host: '127.0.0.1', path, method, headers: { host: HOST } })
      sending.end(body)
      const [response] = (await once(sending, 'response')) as [IncomingMessage]
      const chunks: Buffer[] = []
      for await (const chunk of response) chunks.push(chunk as Buffer)
      return gotOf(response.statusCode ?? 0, response.headers['x-got'] as string | undefined, Buffer.concat(chunks))
    },
    async 'HTTP/2'({ path = '/', method = 'GET', body } = {}) {
      const stream = session.request(
        { ':authority': HOST, ':path': path, ':method': method },
        { endStream: body === undefined }
      )
      if (body !== undefined) stream.end(body)
      const [fields] = (await once(stream, 'response')) as [Record<string, string>]
      const chunks: Buffer[] = []
      for await (const chunk of stream) chunks.push(chunk as Buffer)
      return gotOf(Number(fields[':status']), fields['x-got'], Buffer.concat(chunks))
    }
  }
}

function gotOf(status: number, got: string | undefined, body: Buffer): Got {
  return { status, got: got ?? '', sum: `${body.length} ${sha256(body)}` }
}

const EMPTY = `0 ${sha256(Buffer.alloc(0))}`
const SMALL = `5 ${sha256(Buffer.from('small'))}`
const LARGE = `${MEGABYTE.length} ${sha256(MEGABYTE)}`

for (const [name, peer] of Object.entries(peers)) {
  for (const tls of [false, true]) {
    t.test(
      `${name} as upstream, ${tls ? 'over TLS by ALPN' : 'by prior knowledge'}`,
      needs(peer.program),
      async (t) => {
        const { sluice } = await behind(t, peer, { behind: await origin(t), speaks: 'http1', tls })
        for (const [version, ask] of Object.entries(clients(t, sluice))) {
          t.same(await ask(), { status: 200, got: `GET ${HOST} ${EMPTY}`, sum: SMALL }, version)
          t.match(await ask({ path: '/1mb' }), { status: 200, sum: LARGE })
          t.match(await ask({ method: 'HEAD' }), { status: 200, sum: EMPTY })
          t.match(await ask({ path: '/missing' }), { status: 404, sum: SMALL })
          t.match(await ask({ method: 'POST', body: MEGABYTE }), { status: 200, got: `POST ${HOST} ${LARGE}` })
          const many = await Promise.all(
            Array.from({ length: 64 }, (_, n) => ask({ path: n % 8 === 0 ? '/1mb' : '/' }))
          )
          t.same(
            many.map(({ status, sum }) => [status, sum]),
            many.map((_, n) => [200, n % 8 === 0 ? LARGE : SMALL]),
            `${version}: 64 at once`
          )
        }
      }
    )
  }

  t.test(`${name} as upstream is renewed under load, and no request fails`, needs(peer.program), async (t) => {
    const { sluice, process, setup } = await behind(t, peer, { behind: await origin(t), speaks: 'http1', tls: false })
    const ask = clients(t, sluice)['HTTP/2'] as (asked?: Asked) => Promise<Got>
    const seen = new Map<number, number>()
    let renewed: Promise<void> | undefined
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let n = 0; n < 120; n++) {
          if (n === 20) renewed ??= peer.renew(t, setup, process)
          const { status } = await ask({ path: n % 10 === 0 ? '/1mb' : '/' })
          seen.set(status, (seen.get(status) ?? 0) + 1)
        }
      })
    )
    await renewed
    t.same([...seen], [[200, 960]])
  })

  t.test(`gRPC through ${name} behind Sluice`, needs(peer.program), async (t) => {
    const { port: words } = await startWords(t)
    const { sluice } = await behind(t, peer, { behind: words, speaks: 'grpc', tls: false })
    await callAll(t, grpcClient(t, sluice.port))
  })

  t.test(`gRPC through ${name} in front of Sluice`, needs(peer.program), async (t) => {
    const { port: words, seen } = await startWords(t)
    const sluice = await startSluice(t)
    const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${words}`, http2: true })
    await site(sluice, HOST, { backend: { backend_id: id } })
    const port = await freePort()
    await peer.start(t, { folder: folderOf(t), port, behind: sluice.port, speaks: 'grpc', tls: false, host: HOST })
    const client = grpcClient(t, port)
    await callAll(t, client)
    t.match((await ask(client, 'x', METHODS.never, 300)).error, { code: status.DEADLINE_EXCEEDED })
    while (seen.cancelled < 1) await new Promise(setImmediate)
    t.pass('the end of the call reaches the server')
    t.equal((await ask(client, 'after')).value, 'AFTER')
    t.equal((await visit(sluice, HOST, { path: '/' })).status, 415, 'the server of gRPC refuses what is none')
  })
}

function grpcClient(t: Test, port: number): Client {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    'grpc.default_authority': HOST,
    'grpc.enable_retries': 0
  })
  t.teardown(() => client.close())
  return client
}
