import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { selfSigned } from '../src/lib/self-signed.js'
import { argument } from './argument.js'
import { cpuSeconds, freePort } from './process.js'
import { median, table } from './table.js'

/**
 * How connections reach several threads: accepted by one and handed over (Node 24), or by `listen({ reusePort })` in each (Node
 * 22.12), beside one thread. The handler costs the same in all. wrk is the load, on the same cores.
 *
 * `npm run bench:threads -- [--nodes PATH,PATH] [--rounds N] [--seconds N] [--threads N]`
 */
const NODES = argument('nodes', process.execPath).split(',')
const ROUNDS = Number(argument('rounds', '3'))
const SECONDS = Number(argument('seconds', '2'))
const THREADS = Number(argument('threads', '2'))
const CLOSE = ['-H', 'connection: close']
const SCENARIOS = [
  { name: 'requests, 64 connections', connections: 64, tls: false, flags: [] },
  { name: 'requests, 512 connections', connections: 512, tls: false, flags: [] },
  { name: 'connections of one request, 64 at once', connections: 64, tls: false, flags: CLOSE },
  { name: 'full TLS handshakes of one request, 64 at once', connections: 64, tls: true, flags: CLOSE }
] as const
const SERVER = fileURLToPath(new URL('./threads-server.js', import.meta.url))

interface Served {
  readonly taken: number
  readonly open: number
  readonly requests: number
}

interface Peer {
  readonly name: string
  readonly node: string
  readonly mode: string
}

interface Figures {
  readonly perSecond: number
  readonly cpu: number
  /** Of the thread with the fewest, in percent of what all have: requests of the run, and connections that it was given. */
  readonly requests: number
  readonly connections: number
}

const { chain, privateKey } = await selfSigned('localhost', ['localhost'], Date.now())
const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
const [certificate, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
writeFileSync(certificate, chain)
writeFileSync(key, privateKey)

async function start({ node, mode }: Peer, tls: boolean) {
  const port = await freePort()
  const child = spawn(node, [SERVER, mode, String(port), String(THREADS), ...(tls ? [certificate, key] : [])], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc']
  })
  while (!(await accepts(port))) if (child.exitCode !== null) throw new Error(`${node} ${mode} ended at once`)
  // Each thread of `reuse` listens by itself; the later ones have a moment.
  await new Promise((resolve) => setTimeout(resolve, 300))
  return { child, port }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true))
    socket.on('connect', () => socket.destroy())
    socket.on('error', () => setTimeout(resolve, 50, false))
  })
}

async function counted(child: ChildProcess): Promise<readonly Served[]> {
  child.send('counts')
  const [counts] = await once(child, 'message')
  return counts
}

const least = (values: readonly number[]) =>
  (100 * Math.min(...values)) /
  Math.max(
    1,
    values.reduce((sum, one) => sum + one, 0)
  )

async function measure(peer: Peer, scenario: (typeof SCENARIOS)[number]): Promise<Figures> {
  const { child, port } = await start(peer, scenario.tls)
  const exited = once(child, 'exit')
  try {
    const { connections, tls, flags } = scenario
    const url = `${tls ? 'https' : 'http'}://127.0.0.1:${port}/`
    const load = (seconds: number) =>
      promisify(execFile)('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, ...flags, url])
    await load(1)
    const [before, used, begun] = [await counted(child), cpuSeconds(child.pid as number), performance.now()]
    await load(SECONDS)
    const [after, spent, seconds] = [
      await counted(child),
      cpuSeconds(child.pid as number) - used,
      (performance.now() - begun) / 1_000
    ]
    const each = (of: (served: Served) => number) => after.map((now, i) => of(now) - of(before[i] as Served))
    const requests = each((served) => served.requests)
    const total = requests.reduce((sum, one) => sum + one, 0)
    return {
      perSecond: total / seconds,
      cpu: (spent / total) * 1e6,
      requests: least(requests),
      connections: least(each((served) => served.taken))
    }
  } finally {
    child.disconnect()
    await exited
  }
}

async function peersOf(node: string): Promise<Peer[]> {
  const { stdout } = await promisify(execFile)(node, ['--version'])
  const [major = 0, minor = 0] = stdout.slice(1).split('.').map(Number)
  const peer = (mode: string): Peer => ({ name: `Node ${major}.${minor} ${mode}`, node, mode })
  return [
    peer('single'),
    ...(major >= 24 ? [peer('transfer')] : []),
    ...(major > 22 || (major === 22 && minor >= 12) ? [peer('reuse')] : [])
  ]
}

const peers = (await Promise.all(NODES.map(peersOf))).flat()
for (const scenario of SCENARIOS) {
  const figures = new Map<Peer, Figures[]>(peers.map((peer) => [peer, []]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const peer of peers) figures.get(peer)?.push(await measure(peer, scenario))
  }
  console.log(`\n${scenario.name} (load of the machine ${loadavg()[0]?.toFixed(1)})`)
  table(
    ['', 'most a second', 'a second', 'CPU µs each', 'fewest requests %', 'fewest connections %'],
    [...figures].map(([{ name }, runs]) => [
      name,
      Math.max(...runs.map(({ perSecond }) => perSecond)).toFixed(0),
      ...(['perSecond', 'cpu', 'requests', 'connections'] as const).map((what) =>
        median(runs.map((run) => run[what])).toFixed(what === 'perSecond' ? 0 : 1)
      )
    ])
  )
}
