import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { selfSigned } from '../src/lib/self-signed.js'
import { argument } from './argument.js'
import { cpuSeconds, findProgram, freePort, type Running, startProgram } from './process.js'
import { startProduct } from './product-traffic.js'
import { median, table } from './table.js'

/**
 * What a TLS handshake, a request and an upload over TLS cost, beside nginx and Node's sockets alone, in turns. The same
 * ECDSA certificate on all.
 *
 * `npm run bench:tls -- [--rounds N] [--seconds N]`
 */
const ROUNDS = Number(argument('rounds', '3'))
const SECONDS = Number(argument('seconds', '2'))
const AT_ONCE = 16
const UPLOAD = 2 ** 20
const HOST = 'shop.example.com'

const origin = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  let bytes = 0
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  })
  request.on('end', () => response.setHeader('x-bytes', bytes).end('x'.repeat(102)))
})
origin.listen(0, '127.0.0.1')
await once(origin, 'listening')
const upstream = (origin.address() as AddressInfo).port
const { chain, privateKey } = await selfSigned(HOST, [HOST], Date.now())
const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
const file = (name: string, text: string | Buffer) => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
const certificateFile = file('cert.pem', chain)
const keyFile = file('key.pem', privateKey)
const uploadFile = file('upload', Buffer.alloc(UPLOAD, 'u'))

type Proxy = Running & { readonly port: number }

async function sluice(): Promise<Proxy> {
  const port = await freePort()
  const product = await startProduct({ LISTENERS: `https://127.0.0.1:${port}` })
  await product.api('/tls_certificates', { certificate_pem: chain, private_key_pem: privateKey })
  const backend = await product.api('/backends/static', { address: `127.0.0.1:${upstream}` })
  const edge = await product.api('/edges/https', { hostports: [`${HOST}:443`] })
  await product.api(`/edges/https/${edge.id}/routes`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { enabled: true, backend_id: backend.id }
  })
  return { ...product, port }
}

async function nginx(): Promise<Proxy> {
  const port = await freePort()
  const base = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  mkdirSync(join(base, 'logs'))
  writeFileSync(
    join(base, 'nginx.conf'),
    `daemon off; worker_processes 1; pid ${base}/pid; error_log ${base}/error.log crit;
     events { worker_connections 4096; }
     http {
       access_log off; client_max_body_size 0; proxy_request_buffering off; keepalive_requests 100000000;
       client_body_temp_path ${base}/a; proxy_temp_path ${base}/b; fastcgi_temp_path ${base}/c;
       uwsgi_temp_path ${base}/d; scgi_temp_path ${base}/e;
       upstream u { server 127.0.0.1:${upstream}; keepalive 64; keepalive_requests 100000000; }
       server {
         listen 127.0.0.1:${port} ssl http2; server_name ${HOST};
         ssl_protocols TLSv1.2 TLSv1.3; ssl_prefer_server_ciphers on; ssl_ecdh_curve X25519;
         ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256;
         ssl_certificate ${certificateFile}; ssl_certificate_key ${keyFile};
         location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; }
       }
     }`
  )
  const program = findProgram('nginx') as string
  return { ...(await startProgram(program, ['-c', join(base, 'nginx.conf'), '-p', base], port, { cpu: 0 })), port }
}

async function floor(): Promise<Proxy> {
  const port = await freePort()
  const program = fileURLToPath(new URL('./floor.js', import.meta.url))
  const ciphers = 'TLS_AES_128_GCM_SHA256:ECDHE-ECDSA-AES128-GCM-SHA256'
  const args = [program, 'tls', String(port), String(upstream), certificateFile, keyFile, ciphers]
  return { ...(await startProgram(process.execPath, args, port, { cpu: 0 })), port }
}

type Version = 'TLSv1.2' | 'TLSv1.3'

const about = (port: number, version: Version) => ({
  host: '127.0.0.1',
  port,
  servername: HOST,
  rejectUnauthorized: false,
  minVersion: version,
  maxVersion: version
})

async function shake(port: number, version: Version): Promise<void> {
  const socket = connect(about(port, version))
  await once(socket, 'secureConnect')
  socket.resume()
  socket.end()
  await once(socket, 'close')
}

/** Handshakes that take up the session of the last one that left a ticket. */
function resuming(port: number, version: Version): () => Promise<void> {
  let session: Buffer | undefined
  return async () => {
    const offered = session
    const socket = connect({ ...about(port, version), ...(offered === undefined ? {} : { session: offered }) })
    socket.on('session', (ticket: Buffer) => {
      session = ticket
    })
    await once(socket, 'secureConnect')
    if (offered !== undefined && !socket.isSessionReused()) throw new Error('the session was not taken up')
    socket.resume()
    socket.end()
    await once(socket, 'close')
  }
}

/** A peer that does not carry a body whole is not worth a figure. */
function check(name: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = request(
      { ...about(port, 'TLSv1.3'), method: 'POST', headers: { host: HOST, 'content-length': UPLOAD } },
      (response) => {
        const { statusCode, headers } = response
        response.resume()
        if (statusCode === 200 && headers['x-bytes'] === String(UPLOAD)) resolve()
        else reject(new Error(`${name} answers ${statusCode}, and the upstream had ${headers['x-bytes']} bytes`))
      }
    )
    sent.on('error', reject)
    sent.end(Buffer.alloc(UPLOAD, 'u'))
  })
}

async function chains(seconds: number, work: () => Promise<void>): Promise<number> {
  const until = performance.now() + seconds * 1_000
  let runs = 0
  const chained = async () => {
    while (performance.now() < until) {
      await work()
      runs++
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, chained))
  return runs
}

/** Requests that h2load got answered. */
function h2load(port: number, seconds: number, ...more: readonly string[]): Promise<number> {
  const url = `https://${HOST}/`
  const args = ['-t1', `-c${AT_ONCE}`, '-m1', `-D${seconds}`, `--connect-to=127.0.0.1:${port}`, ...more, url]
  return new Promise((resolve, reject) => {
    const child = spawn(findProgram('h2load') as string, args)
    let said = ''
    child.stdout.on('data', (chunk) => {
      said += chunk
    })
    child.on('error', reject)
    child.on('close', () => {
      const succeeded = /(\d+) succeeded/.exec(said)?.[1]
      const good = /status codes: (\d+) 2xx/.exec(said)?.[1]
      if (succeeded === undefined || succeeded === '0' || good === undefined || Number(good) < Number(succeeded))
        reject(new Error(`h2load said:\n${said}`))
      else resolve(Number(succeeded))
    })
  })
}

interface Scenario {
  readonly name: string
  /** Bytes of each run, where they matter more than the runs. */
  readonly bytes?: number
  readonly http2?: true
  readonly needs?: string
  run(port: number, seconds: number): Promise<number>
}

const scenarios: readonly Scenario[] = [
  { name: 'handshake, TLS 1.3', run: (port, seconds) => chains(seconds, () => shake(port, 'TLSv1.3')) },
  { name: 'handshake, TLS 1.2', run: (port, seconds) => chains(seconds, () => shake(port, 'TLSv1.2')) },
  { name: 'resumed handshake, TLS 1.3', run: (port, seconds) => chains(seconds, resuming(port, 'TLSv1.3')) },
  { name: 'resumed handshake, TLS 1.2', run: (port, seconds) => chains(seconds, resuming(port, 'TLSv1.2')) },
  { name: 'request, HTTP/1.1', needs: 'h2load', run: (port, seconds) => h2load(port, seconds, '--h1') },
  { name: 'request, HTTP/2', needs: 'h2load', http2: true, run: (port, seconds) => h2load(port, seconds) },
  {
    name: 'upload, HTTP/1.1',
    needs: 'h2load',
    bytes: UPLOAD,
    run: (port, seconds) => h2load(port, seconds, '--h1', '-d', uploadFile)
  },
  {
    name: 'upload, HTTP/2',
    needs: 'h2load',
    bytes: UPLOAD,
    http2: true,
    run: (port, seconds) => h2load(port, seconds, '-d', uploadFile)
  }
]

const proxies: [string, Proxy][] = [
  ['sluice', await sluice()],
  ['node:tls floor', await floor()]
]
if (findProgram('nginx') === undefined) console.log('left out: nginx is not installed')
else proxies.push(['nginx', await nginx()])
for (const [name, { port }] of proxies) await check(name, port)

const rows: string[][] = []
for (const { name, bytes, http2, needs, run } of scenarios) {
  if (needs !== undefined && findProgram(needs) === undefined) {
    console.log(`left out: ${name} (${needs} is not installed)`)
    continue
  }
  // What only carries bytes has no HTTP/2 to speak.
  const able = proxies.filter(([peer]) => http2 !== true || peer !== 'node:tls floor')
  const costs = new Map<string, number[]>(able.map(([peer]) => [peer, []]))
  for (const [, { port }] of able) await run(port, SECONDS)
  for (let round = 0; round < ROUNDS; round++) {
    for (const [peer, { port, child }] of able) {
      const pid = child.pid as number
      const before = cpuSeconds(pid)
      const runs = await run(port, SECONDS)
      costs.get(peer)?.push(((cpuSeconds(pid) - before) / runs) * 1e6)
    }
  }
  const figure = (peer: string) => {
    const all = costs.get(peer)
    if (all === undefined) return ''
    const each = median(all)
    return bytes === undefined ? `${each.toFixed(0)} µs` : `${(bytes / each / 1.048576).toFixed(0)} MB/CPU s`
  }
  rows.push([name, ...proxies.map(([peer]) => figure(peer))])
}
table(['CPU', ...proxies.map(([name]) => name)], rows)
for (const [, proxy] of proxies) await proxy.stop()
origin.closeAllConnections()
process.exit(0)
