import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, Agent as PlainAgent, request as plainRequest } from 'node:http'
import { Agent as SecureAgent, request as secureRequest } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { selfSigned } from '../src/lib/self-signed.js'
import { cpuSeconds, findProgram, freePort, type Running, residentMegabytes, startProgram } from './process.js'
import { median, table } from './table.js'

const HOST = 'localhost'
const SMALL = 4 * 1024
const LARGE = 256 * 2 ** 20
/** Connections that ask for the small file. */
const CONNECTIONS = 32

interface FileServer extends Running {
  readonly port: number
  readonly tlsPort: number
}

interface Peer {
  readonly name: string
  readonly program: string
  start(at: Place): Promise<FileServer>
}

/** The folder with the files, and the files of the certificate. */
interface Place {
  readonly root: string
  readonly certificate: string
  readonly key: string
}

const peers: readonly Peer[] = [
  { name: 'sluice', program: 'node', start: sluice },
  { name: 'nginx', program: 'nginx', start: nginx },
  { name: 'caddy', program: 'caddy', start: caddy }
]

/**
 * What a small file costs with many requests, and a file of 256 MiB with one download at a time, in clear text and over TLS, beside nginx and Caddy
 * where they are installed. Each server has one CPU. The figures are those of the servers alone.
 */
export async function fileRows({ rounds, seconds }: { rounds: number; seconds: number }): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'sluice-bench-files-'))
  const { chain, privateKey } = await selfSigned(HOST, [HOST], Date.now())
  const at = { root: join(root, 'public'), certificate: join(root, 'cert.pem'), key: join(root, 'key.pem') }
  // Workers of nginx run as another user.
  chmodSync(root, 0o755)
  mkdirSync(at.root)
  writeFileSync(at.certificate, chain)
  writeFileSync(at.key, privateKey)
  writeFileSync(join(at.root, 'small.txt'), 's'.repeat(SMALL))
  writeFileSync(join(at.root, 'large.bin'), Buffer.alloc(LARGE, 'l'))
  const present = peers.filter(({ program }) => program === 'node' || findProgram(program) !== undefined)
  for (const { name } of peers) if (!present.some((one) => one.name === name)) console.log(`left out: ${name}`)
  const started = await Promise.all(present.map(async (peer) => ({ name: peer.name, server: await peer.start(at) })))
  for (const secure of [false, true]) {
    const how = secure ? 'over TLS' : 'in clear text'
    console.log(`\na file of ${SMALL / 1024} KiB ${how}: ${rounds} rounds of ${seconds} s, ${CONNECTIONS} connections`)
    await rows(started, secure, rounds, async (ask) => {
      await Promise.all(Array.from({ length: CONNECTIONS }, () => askFor(ask, seconds)))
    })
    console.log(`\na file of ${LARGE / 2 ** 20} MiB ${how}: ${rounds} rounds of 3 downloads`)
    await rows(started, secure, rounds, async (ask) => {
      for (let i = 0; i < 3; i++) await ask('/large.bin', LARGE)
    })
  }
  for (const { server } of started) await server.stop()
}

type Ask = (path: string, bytes: number) => Promise<void>

async function askFor(ask: Ask, seconds: number): Promise<void> {
  for (const end = performance.now() + seconds * 1_000; performance.now() < end; ) await ask('/small.txt', SMALL)
}

/** Measures every server in each round, and prints a row for each. */
async function rows(
  started: readonly { readonly name: string; readonly server: FileServer }[],
  secure: boolean,
  rounds: number,
  run: (ask: Ask) => Promise<void>
): Promise<void> {
  const samples = new Map<string, { cpu: number; wall: number; memory: number }[]>(
    started.map(({ name }) => [name, []])
  )
  // The first one warms up.
  for (let round = 0; round <= rounds; round++) {
    for (const { name, server } of started) {
      const pid = server.child.pid as number
      const { ask, count, close } = client(secure ? server.tlsPort : server.port, secure)
      const before = { cpu: cpuSeconds(pid), at: performance.now() }
      await run(ask)
      const cpu = ((cpuSeconds(pid) - before.cpu) * 1e6) / count()
      const wall = ((performance.now() - before.at) * 1e3) / count()
      if (round > 0) samples.get(name)?.push({ cpu, wall, memory: residentMegabytes(pid) })
      close()
    }
  }
  const of = (name: string, what: 'cpu' | 'wall' | 'memory') =>
    median((samples.get(name) ?? []).map((one) => one[what]))
  const own = of('sluice', 'cpu')
  table(
    ['', 'CPU µs/answer', 'sluice ÷', 'wall µs/answer', 'RSS MB'],
    [...samples.keys()].map((name) => [
      name,
      of(name, 'cpu').toFixed(1),
      (own / of(name, 'cpu')).toFixed(2),
      of(name, 'wall').toFixed(1),
      of(name, 'memory').toFixed(0)
    ])
  )
}

/** Asks over connections that stay open, and refuses other answers than the whole file. */
function client(port: number, secure: boolean): { ask: Ask; count: () => number; close: () => void } {
  const request = secure ? secureRequest : plainRequest
  const settings = { keepAlive: true, maxSockets: CONNECTIONS }
  const agent = secure ? new SecureAgent({ ...settings, rejectUnauthorized: false }) : new PlainAgent(settings)
  let answers = 0
  return {
    async ask(path, bytes) {
      const asking = request({ host: '127.0.0.1', port, path, agent, headers: { host: HOST }, servername: HOST })
      const answered = once(asking, 'response')
      asking.end()
      const [response] = (await answered) as [IncomingMessage]
      let got = 0
      response.on('data', (chunk: Buffer) => {
        got += chunk.length
      })
      await once(response, 'end')
      if (response.statusCode !== 200 || got !== bytes) throw new Error(`${path}: ${response.statusCode}, ${got} bytes`)
      answers++
    },
    count: () => answers,
    close: () => agent.destroy()
  }
}

async function sluice({ root, certificate, key }: Place): Promise<FileServer> {
  const [port, tlsPort] = [await freePort(), await freePort()]
  const site = join(root, '..', 'site.yaml')
  writeFileSync(
    site,
    `listeners: ["http://127.0.0.1:${port}", "https://127.0.0.1:${tlsPort}"]
certificates: [{ certificate: ${certificate}, key: ${key} }]
sites:
  ${HOST}: { files: ./public, redirect: off }
`
  )
  const env = {
    SLUICE_API_LISTEN: '127.0.0.1:0',
    SLUICE_DATA: ':memory:',
    SLUICE_LOG_LEVEL: 'error',
    SLUICE_ACCESS_LOG: 'off'
  }
  const main = fileURLToPath(new URL('../src/main.js', import.meta.url))
  return { ...(await startProgram(process.execPath, [main, 'start', site], port, { cpu: 0, env })), port, tlsPort }
}

async function nginx({ root, certificate, key }: Place): Promise<FileServer> {
  const [port, tlsPort] = [await freePort(), await freePort()]
  const base = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  writeFileSync(
    join(base, 'nginx.conf'),
    `daemon off; worker_processes 1; pid ${base}/pid; error_log ${base}/error.log crit;
     events { worker_connections 4096; }
     http {
       access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; open_file_cache max=1000;
       client_body_temp_path ${base}/a; proxy_temp_path ${base}/b; fastcgi_temp_path ${base}/c;
       uwsgi_temp_path ${base}/d; scgi_temp_path ${base}/e;
       server { listen 127.0.0.1:${port}; listen 127.0.0.1:${tlsPort} ssl; root ${root};
         ssl_certificate ${certificate}; ssl_certificate_key ${key}; }
     }`
  )
  const args = ['-p', base, '-c', join(base, 'nginx.conf')]
  return { ...(await startProgram(findProgram('nginx') as string, args, port, { cpu: 0 })), port, tlsPort }
}

async function caddy({ root, certificate, key }: Place): Promise<FileServer> {
  const [port, tlsPort] = [await freePort(), await freePort()]
  const base = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const routes = [{ handle: [{ handler: 'file_server', root }] }]
  const usual = { automatic_https: { disable: true }, routes }
  const servers = {
    plain: { ...usual, listen: [`127.0.0.1:${port}`] },
    secure: { ...usual, listen: [`127.0.0.1:${tlsPort}`], tls_connection_policies: [{}] }
  }
  writeFileSync(
    join(base, 'caddy.json'),
    JSON.stringify({
      admin: { disabled: true },
      logging: { logs: { default: { level: 'ERROR' } } },
      apps: { http: { servers }, tls: { certificates: { load_files: [{ certificate, key }] } } }
    })
  )
  const env = { GOMAXPROCS: '1', HOME: base }
  const args = ['run', '--config', join(base, 'caddy.json')]
  return { ...(await startProgram(findProgram('caddy') as string, args, port, { cpu: 0, env })), port, tlsPort }
}
