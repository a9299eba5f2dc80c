import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request as plainRequest } from 'node:http'
import { request as secureRequest } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { selfSigned } from '../src/lib/self-signed.js'
import { type Load, load } from './load.js'
import { findProgram, freePort, type Running, startProgram } from './process.js'
import { sampleOf } from './scenario-load.js'
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

/** A kind of request: `megabytes` of an answer. */
interface Kind {
  readonly title: string
  readonly path: string
  readonly connections: number
  readonly megabytes: number
}

const KINDS: readonly Kind[] = [
  { title: `a file of ${SMALL / 1024} KiB`, path: '/small.txt', connections: CONNECTIONS, megabytes: SMALL / 2 ** 20 },
  { title: `a file of ${LARGE / 2 ** 20} MiB`, path: '/large.bin', connections: 1, megabytes: LARGE / 2 ** 20 }
]
const usual: readonly Peer[] = [
  {
    name: 'sluice',
    program: 'node',
    start: (at) => sluice(fileURLToPath(new URL('../src/main.js', import.meta.url)), at)
  },
  { name: 'nginx', program: 'nginx', start: nginx },
  { name: 'caddy', program: 'caddy', start: caddy }
]

interface FileRowsOptions {
  readonly rounds: number
  readonly seconds: number
  /** Other builds of Sluice, by the path of their `main.js`. */
  readonly builds: readonly { readonly name: string; readonly main: string }[]
}

/**
 * Measures a small file with many connections, and a file of 256 MiB with one, in clear text and over TLS, beside nginx and Caddy where they are
 * installed. Each server has one CPU. The figures are those of the servers alone; CPU is that of one complete answer.
 */
export async function fileRows({ rounds, seconds, builds }: FileRowsOptions): Promise<void> {
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
  const others = builds.map(({ name, main }) => ({
    name,
    program: 'node',
    start: (place: Place) => sluice(main, place)
  }))
  const peers = [...usual, ...others]
  const present = peers.filter(({ program }) => program === 'node' || findProgram(program) !== undefined)
  for (const { name } of peers) if (!present.some((one) => one.name === name)) console.log(`left out: ${name}`)
  const started = await Promise.all(present.map(async (peer) => ({ name: peer.name, server: await peer.start(at) })))
  for (const kind of KINDS) {
    for (const secure of [false, true]) {
      const how = secure ? 'over TLS' : 'in clear text'
      console.log(`\n${kind.title} ${how}: ${rounds} rounds of ${seconds} s, connections: ${kind.connections}`)
      await rows(started, kind, secure, { rounds, seconds })
    }
  }
  for (const { server } of started) await server.stop()
}

interface Started {
  readonly name: string
  readonly server: FileServer
}

/** Measures every server in each round, and prints a row for each. */
async function rows(
  started: readonly Started[],
  { path, connections, megabytes }: Kind,
  secure: boolean,
  { rounds, seconds }: { rounds: number; seconds: number }
): Promise<void> {
  const samples = new Map<string, { cpu: number; rate: number; memory: number }[]>(
    started.map(({ name }) => [name, []])
  )
  const portOf = ({ port, tlsPort }: FileServer) => (secure ? tlsPort : port)
  for (const { name, server } of started) await checkFile(name, secure, portOf(server))
  // The first round warms up.
  for (let round = 0; round <= rounds; round++) {
    for (const { name, server } of round % 2 === 0 ? started : [...started].reverse()) {
      const pid = server.child.pid as number
      const answers = ({ bytes }: Load) => bytes / 2 ** 20 / megabytes
      const ask = (duration: number) => load(portOf(server), path, connections, duration, false, { host: HOST, secure })
      const seen = await sampleOf(pid, seconds, ask, answers)
      if (seen.errors > 0) throw new Error(`${name}: ${seen.errors} answers failed`)
      const sent = answers(seen)
      if (round > 0)
        samples.get(name)?.push({ cpu: (seen.cpu * 1e6) / sent, rate: sent / seen.seconds, memory: seen.memory })
    }
  }
  const of = (name: string, what: 'cpu' | 'rate' | 'memory') =>
    median((samples.get(name) ?? []).map((one) => one[what]))
  /** Median of the ratios of rounds, because the machine's speed changes between them. */
  const against = (name: string) =>
    median((samples.get(name) ?? []).map(({ cpu }, i) => (samples.get('sluice')?.[i]?.cpu ?? Number.NaN) / cpu))
  table(
    ['', 'CPU µs/answer', 'sluice ÷', 'answers/s', 'RSS MB'],
    [...samples.keys()].map((name) => [
      name,
      of(name, 'cpu').toFixed(1),
      against(name).toFixed(2),
      of(name, 'rate').toFixed(1),
      of(name, 'memory').toFixed(0)
    ])
  )
}

/** A server that sends another file is not worth a figure. */
async function checkFile(name: string, secure: boolean, port: number): Promise<void> {
  for (const { path, megabytes } of KINDS) {
    const asked = {
      host: '127.0.0.1',
      port,
      path,
      headers: { host: HOST },
      servername: HOST,
      rejectUnauthorized: false
    }
    const asking = secure ? secureRequest(asked) : plainRequest(asked)
    const answered = once(asking, 'response')
    asking.end()
    const [response] = (await answered) as [IncomingMessage]
    let got = 0
    for await (const chunk of response) got += (chunk as Buffer).length
    if (response.statusCode !== 200 || got !== megabytes * 2 ** 20)
      throw new Error(`${name}: ${path}: ${response.statusCode}, ${got} bytes`)
  }
}

async function sluice(main: string, { root, certificate, key }: Place): Promise<FileServer> {
  const [port, tlsPort] = [await freePort(), await freePort()]
  const site = join(root, '..', `site-${port}.yaml`)
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
  return {
    ...(await startProgram(process.execPath, [main, 'start', site], [port, tlsPort], { cpu: 0, env })),
    port,
    tlsPort
  }
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
  return { ...(await startProgram(findProgram('nginx') as string, args, [port, tlsPort], { cpu: 0 })), port, tlsPort }
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
  return {
    ...(await startProgram(findProgram('caddy') as string, args, [port, tlsPort], { cpu: 0, env })),
    port,
    tlsPort
  }
}
