import { once } from 'node:events'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { Agent, request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { selfSigned } from '../src/lib/self-signed.js'
import { cpuSeconds, findProgram, freePort, type Running, startProgram } from './process.js'
import { startProduct } from './product-traffic.js'

/** What a TLS handshake and a request over TLS cost, beside nginx. The same ECDSA certificate on both. */
const WARM_UP = 4
const SECONDS = 6
const AT_ONCE = 16
const HOST = 'shop.example.com'

const origin = createServer({ keepAliveTimeout: 60_000 }, (_request, response) => response.end('x'.repeat(102)))
origin.listen(0, '127.0.0.1')
await once(origin, 'listening')
const upstream = (origin.address() as AddressInfo).port
const { chain, privateKey } = await selfSigned(HOST, [HOST], Date.now())

async function sluice(): Promise<Running & { port: number }> {
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

async function nginx(): Promise<Running & { port: number }> {
  const port = await freePort()
  const base = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  mkdirSync(join(base, 'logs'))
  writeFileSync(join(base, 'cert.pem'), chain)
  writeFileSync(join(base, 'key.pem'), privateKey)
  writeFileSync(
    join(base, 'nginx.conf'),
    `daemon off; worker_processes 1; pid ${base}/pid; error_log ${base}/error.log crit;
     events { worker_connections 4096; }
     http {
       access_log off; keepalive_requests 100000000;
       client_body_temp_path ${base}/a; proxy_temp_path ${base}/b; fastcgi_temp_path ${base}/c;
       uwsgi_temp_path ${base}/d; scgi_temp_path ${base}/e;
       upstream u { server 127.0.0.1:${upstream}; keepalive 64; keepalive_requests 100000000; }
       server {
         listen 127.0.0.1:${port} ssl; server_name ${HOST};
         ssl_certificate ${base}/cert.pem; ssl_certificate_key ${base}/key.pem;
         location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; }
       }
     }`
  )
  const program = findProgram('nginx') as string
  return { ...(await startProgram(program, ['-c', join(base, 'nginx.conf'), '-p', base], port, { cpu: 0 })), port }
}

async function shake(port: number, maxVersion: 'TLSv1.2' | 'TLSv1.3'): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port, servername: HOST, rejectUnauthorized: false, maxVersion })
  await once(socket, 'secureConnect')
  socket.resume()
  socket.end()
  await once(socket, 'close')
}

/** Handshakes that take up the session of the last one that left a ticket. */
function resuming(port: number): () => Promise<void> {
  let session: Buffer | undefined
  return async () => {
    const offered = session
    const options = { host: '127.0.0.1', port, servername: HOST, rejectUnauthorized: false }
    const socket = connect({ ...options, ...(offered === undefined ? {} : { session: offered }) })
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

function ask(port: number, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port,
      servername: HOST,
      rejectUnauthorized: false,
      agent,
      headers: { host: HOST }
    }
    const sent = request(options, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`))
      response.resume()
      response.on('end', resolve)
    })
    sent.on('error', reject)
    sent.end()
  })
}

/** Runs `work` in several chains at once, first until the code is warm; answers runs and CPU seconds of the proxy. */
async function load(pid: number, work: () => Promise<void>): Promise<{ runs: number; cpu: number }> {
  await chains(WARM_UP, work)
  const before = cpuSeconds(pid)
  const runs = await chains(SECONDS, work)
  return { runs, cpu: cpuSeconds(pid) - before }
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

async function measure(name: string, proxy: Running & { port: number }): Promise<void> {
  const pid = proxy.child.pid as number
  const tell = (what: string, { runs, cpu }: { runs: number; cpu: number }) =>
    console.log(
      `${name}: ${what}: ${((cpu / runs) * 1e6).toFixed(0)} µs CPU each, ${(runs / cpu).toFixed(0)} per CPU second`
    )
  tell('handshake of TLS 1.3', await load(pid, () => shake(proxy.port, 'TLSv1.3')))
  tell('handshake of TLS 1.2', await load(pid, () => shake(proxy.port, 'TLSv1.2')))
  tell('resumed handshake of TLS 1.3', await load(pid, resuming(proxy.port)))
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
  tell('request', await load(pid, () => ask(proxy.port, agent)))
  agent.destroy()
  await proxy.stop()
}

await measure('sluice', await sluice())
if (findProgram('nginx') === undefined) console.log('nginx is not installed')
else await measure('nginx', await nginx())
origin.closeAllConnections()
process.exit(0)
