import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { type ClientHttp2Stream, connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { cpuSeconds, findProgram, freePort, type Running, startProgram } from './process.js'
import { median, table } from './table.js'

/** Every proxy on this CPU; h2load and the upstream share the other. */
const CPU = 0
const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-h2-'))
const MESSAGE = Buffer.concat([Buffer.from([0, 0, 0, 0, 100]), Buffer.alloc(100, 'g')])
const message = join(folder, 'message')

/** One row of figures: HTTP/2 by prior knowledge on both sides of the proxy. */
export interface Http2Scenario {
  readonly name: string
  readonly title: string
  readonly path: string
  /** Further words for h2load. */
  readonly words: readonly string[]
}

export const http2Scenarios: readonly Http2Scenario[] = [
  { name: 'h2', title: 'HTTP/2 to HTTP/2, 102 bytes, 10 connections with 10 streams', path: '/', words: [] },
  {
    name: 'grpc',
    title: 'gRPC unary, 100 bytes each way, 10 connections with 10 streams',
    path: '/bench.Echo/One',
    words: ['-d', message, '-H', 'content-type: application/grpc', '-H', 'te: trailers']
  }
]

interface Peer {
  readonly name: string
  readonly program: string
  start(port: number, upstream: number): Promise<Running>
}

const sluice = (name: string, main: string): Peer => ({
  name,
  program: 'node',
  start(port, upstream) {
    const file = join(folder, `${port}.yaml`)
    writeFileSync(
      file,
      `listeners: ["http://127.0.0.1:${port}"]\nsites: { bench.test: { backend: up } }\nbackends: { up: { servers: ["h2c://127.0.0.1:${upstream}"] } }\n`
    )
    const env = {
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_API_LISTEN: '127.0.0.1:0',
      SLUICE_API_KEY: 'a-key-for-the-benchmark',
      SLUICE_DATA: ':memory:',
      SLUICE_ACCESS_LOG: 'off',
      SLUICE_LOG_LEVEL: 'error'
    }
    return startProgram(process.execPath, [main, 'start', file], port, { cpu: CPU, env })
  }
})

const nginx: Peer = {
  name: 'nginx grpc_pass',
  program: 'nginx',
  start(port, upstream) {
    const base = join(folder, `nginx-${port}`)
    mkdirSync(base)
    writeFileSync(
      join(base, 'nginx.conf'),
      `daemon off; worker_processes 1; pid ${base}/pid; error_log ${base}/log crit; events { worker_connections 4096; }
       http { access_log off; keepalive_requests 100000000;
         client_body_temp_path ${base}/a; proxy_temp_path ${base}/b; fastcgi_temp_path ${base}/c; uwsgi_temp_path ${base}/d; scgi_temp_path ${base}/e;
         upstream up { server 127.0.0.1:${upstream}; keepalive 256; keepalive_requests 100000000; }
         server { listen 127.0.0.1:${port} http2; location / { grpc_pass grpc://up; } } }`
    )
    return startProgram(findProgram('nginx') as string, ['-p', base, '-c', join(base, 'nginx.conf')], port, {
      cpu: CPU
    })
  }
}

const haproxy: Peer = {
  name: 'haproxy',
  program: 'haproxy',
  start(port, upstream) {
    const file = join(folder, `${port}.cfg`)
    writeFileSync(
      file,
      `global\n  nbthread 1\n  maxconn 4096\ndefaults\n  mode http\n  timeout client 30s\n  timeout server 30s\n  timeout connect 5s
  http-reuse always\nfrontend in\n  bind 127.0.0.1:${port} proto h2\n  default_backend up\nbackend up\n  server up 127.0.0.1:${upstream} proto h2\n`
    )
    return startProgram(findProgram('haproxy') as string, ['-db', '-f', file], port, { cpu: CPU })
  }
}

/** HTTP/2 on both sides, beside proxies that can do it. `others`: further builds of Sluice. */
export async function http2Rows(
  scenarios: readonly Http2Scenario[],
  others: readonly { readonly name: string; readonly main: string }[],
  { rounds, seconds }: { readonly rounds: number; readonly seconds: number }
): Promise<void> {
  if (findProgram('h2load') === undefined) {
    console.log('left out: HTTP/2 (h2load is not installed)')
    return
  }
  writeFileSync(message, MESSAGE)
  const worker = new Worker(new URL('./http2-origin.js', import.meta.url))
  const [upstream] = (await once(worker, 'message')) as [number]
  const main = fileURLToPath(new URL('../src/main.js', import.meta.url))
  const peers = [sluice('sluice', main), ...others.map((one) => sluice(one.name, one.main)), nginx, haproxy]
  const started: { readonly peer: Peer; readonly running: Running; readonly port: number }[] = []
  try {
    for (const peer of peers) {
      if (findProgram(peer.program) === undefined) continue
      const port = await freePort()
      const running = await peer.start(port, upstream)
      started.push({ peer, running, port })
      await check(peer.name, port)
    }
    for (const scenario of scenarios) await measure(scenario, started, rounds, seconds)
  } finally {
    await Promise.all(started.map(({ running }) => running.stop()))
    await worker.terminate()
  }
}

/** A proxy that loses the trailers of a call is not worth a figure. */
async function check(name: string, port: number): Promise<void> {
  const session = connect(`http://127.0.0.1:${port}`)
  try {
    const call: ClientHttp2Stream = session.request({
      ':method': 'POST',
      ':path': '/bench.Echo/One',
      ':authority': 'bench.test',
      'content-type': 'application/grpc',
      te: 'trailers'
    })
    let trailers: Record<string, unknown> = {}
    call.on('trailers', (fields) => {
      trailers = fields
    })
    call.end(MESSAGE)
    const [head] = (await once(call, 'response')) as [Record<string, unknown>]
    const chunks: Buffer[] = []
    for await (const chunk of call) chunks.push(chunk as Buffer)
    const same = Buffer.concat(chunks).equals(MESSAGE)
    if (head[':status'] !== 200 || !same || trailers['grpc-status'] !== '0')
      throw new Error(`${name} does not carry a call: ${head[':status']} ${JSON.stringify(trailers)}`)
  } finally {
    session.destroy()
  }
}

async function measure(
  { title, path, words }: Http2Scenario,
  started: readonly { readonly peer: Peer; readonly running: Running; readonly port: number }[],
  rounds: number,
  seconds: number
): Promise<void> {
  console.log(`\n${title}: ${rounds} rounds of ${seconds} s`)
  const samples = new Map<string, { readonly cpu: number; readonly rate: number; readonly failed: number }[]>()
  for (const { port } of started) await load(port, path, words, 1)
  for (let round = 0; round < rounds; round++) {
    for (const { peer, running, port } of started) {
      const pid = running.child.pid as number
      const before = cpuSeconds(pid)
      const { requests, failed } = await load(port, path, words, seconds)
      const sample = { cpu: ((cpuSeconds(pid) - before) * 1e6) / requests, rate: requests / seconds, failed }
      samples.set(peer.name, [...(samples.get(peer.name) ?? []), sample])
    }
  }
  const cost = (name: string) => median((samples.get(name) ?? []).map(({ cpu }) => cpu))
  const rows = [...samples].map(([name, all]) => [
    name,
    cost(name).toFixed(1),
    (cost('sluice') / cost(name)).toFixed(2),
    median(all.map(({ rate }) => rate)).toFixed(0),
    String(all.reduce((sum, { failed }) => sum + failed, 0))
  ])
  table(['', 'CPU µs/req', 'sluice ÷', 'req/s', 'failed'], rows)
}

function load(
  port: number,
  path: string,
  words: readonly string[],
  seconds: number
): Promise<{ readonly requests: number; readonly failed: number }> {
  const pinned = findProgram('taskset') === undefined ? [] : ['taskset', '-c', '1']
  const args = ['-t1', '-c10', '-m10', '-D', String(seconds), '-H', ':authority: bench.test', ...words]
  const [program, ...rest] = [...pinned, 'h2load', ...args, `http://127.0.0.1:${port}${path}`]
  return new Promise((resolve, reject) => {
    const child = spawn(program as string, rest)
    let output = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    child.on('error', reject)
    child.on('close', () => {
      const codes = /status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx/.exec(output)
      const broken = /(\d+) failed, (\d+) errored/.exec(output)
      if (codes === null || broken === null) return reject(new Error(`h2load said:\n${output}`))
      const refused = Number(codes[2]) + Number(codes[3]) + Number(codes[4])
      resolve({ requests: Number(codes[1]), failed: refused + Number(broken[1]) })
    })
  })
}
