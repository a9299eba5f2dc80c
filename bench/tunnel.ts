import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { RawAgent } from '../test/capabilities/tunnel/raw-agent.js'
import { load } from './load.js'
import { cpuSeconds, freePort, residentMegabytes } from './process.js'
import { type Product, startProduct } from './product-traffic.js'
import { table } from './table.js'

/**
 * What a tunnel costs beside a direct upstream: requests one at a time and 64 at once through the whole product, megabytes both
 * ways through a TCP edge, and the memory of idle agents. `npm run bench:tunnel [-- ours|sdk [seconds]]`.
 */
const IDLE = 1_000
const BLOCK = Buffer.alloc(262_144, 'x')
const DOWNLOAD = 0x44

/** The SDK's agent as a process of its own: `fork` calls this file with its arguments. */
async function sdkAgent(port: string, caFile: string, token: string, targets: readonly string[]): Promise<void> {
  const { SessionBuilder } = await import('@ngrok/ngrok')
  const session = await new SessionBuilder()
    .authtoken(token)
    .serverAddr(`localhost:${port}`)
    .caCert(readFileSync(caFile))
    .connect()
  const forwarding = targets.map(async (target, index) => {
    const listener = await session.labeledListener().label('app', `t${index}`).listen()
    return listener.forward(`tcp://127.0.0.1:${target}`)
  })
  await Promise.all(forwarding)
}

interface Setup {
  readonly product: Product
  readonly agents: { readonly port: number; readonly ca: string }
  readonly caFile: string
  readonly token: string
  readonly tcp: { readonly direct: number; readonly tunnel: number }
  readonly targets: readonly [http: number, raw: number]
}

async function prepare(): Promise<Setup> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const port = await freePort()
  const product = await startProduct({
    AGENTS: `127.0.0.1:${port}`,
    DATA: folder,
    STORE: ':memory:',
    ENGINE: process.env.SLUICE_ENGINE ?? 'codec'
  })
  const caFile = join(folder, 'agents', 'ca.pem')
  const targets = [await origin(), await bytes()] as const
  const { token } = (await product.api('/credentials', {})) as unknown as { token: string }
  const backends = {
    direct: targets.map((target) => product.api('/backends/static', { address: `127.0.0.1:${target}` })),
    tunnel: targets.map((_, index) => product.api('/backends/tunnel_group', { labels: { app: `t${index}` } }))
  }
  const tcp = { direct: await freePort(), tunnel: await freePort() }
  const edge = await product.api('/edges/https', { hostports: ['127.0.0.1:443'] })
  for (const kind of ['direct', 'tunnel'] as const) {
    const [http, raw] = await Promise.all(backends[kind])
    await product.api(`/edges/https/${edge.id}/routes`, {
      match: `/${kind}`,
      match_type: 'path_prefix',
      backend: { backend_id: http?.id }
    })
    await product.api('/edges/tcp', { hostports: [`localhost:${tcp[kind]}`], backend: { backend_id: raw?.id } })
  }
  return { product, agents: { port, ca: readFileSync(caFile, 'utf8') }, caFile, token, tcp, targets }
}

async function origin(): Promise<number> {
  const worker = new Worker(new URL('./origin.js', import.meta.url))
  worker.unref()
  const [{ plain }] = (await once(worker, 'message')) as [{ plain: number }]
  return plain
}

let received = 0
/** Swallows and counts, or sends without end when the first byte asks for it. */
async function bytes(): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    socket.once('data', (first: Buffer) => {
      if (first[0] !== DOWNLOAD) return
      socket.on('drain', () => flood(socket))
      flood(socket)
    })
    socket.on('data', (chunk) => {
      received += chunk.length
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  server.unref()
  return (server.address() as AddressInfo).port
}

function flood(socket: Socket): void {
  while (!socket.destroyed && socket.write(BLOCK));
}

async function startAgent(kind: string, { agents, caFile, token, targets }: Setup): Promise<ChildProcess> {
  if (kind === 'sdk') {
    return fork(fileURLToPath(import.meta.url), ['agent', String(agents.port), caFile, token, ...targets.map(String)])
  }
  const main = fileURLToPath(new URL('../src/main.js', import.meta.url))
  const config = join(mkdtempSync(join(tmpdir(), 'sluice-bench-')), 'agent.json')
  const tunnels = targets.map((target, index) => [`t${index}`, { labels: { app: `t${index}` }, forward: target }])
  const text = JSON.stringify({ server: `localhost:${agents.port}`, ca: caFile, tunnels: Object.fromEntries(tunnels) })
  writeFileSync(config, text)
  return fork(main, ['agent', '--config', config], {
    env: { ...process.env, SLUICE_TOKEN: token },
    stdio: ['ignore', 'ignore', 'ignore', 'ipc']
  })
}

async function requests({ product }: Setup, agent: ChildProcess, seconds: number): Promise<void> {
  const rows: string[][] = []
  for (const kind of ['direct', 'tunnel'] as const) {
    for (const connections of [1, 64]) {
      await load(product.port, `/${kind}`, connections, 1, false)
      const before = [product.child.pid, agent.pid].map((pid) => cpuSeconds(pid as number))
      const { requests, seconds: took, p99, errors } = await load(product.port, `/${kind}`, connections, seconds, false)
      const used = [product.child.pid, agent.pid].map((pid, i) => cpuSeconds(pid as number) - (before[i] as number))
      const each = used.map((cpu) => ((cpu * 1e6) / requests).toFixed(1))
      rows.push([`${kind} ×${connections}`, (requests / took).toFixed(0), ...each, p99.toFixed(2), String(errors)])
    }
  }
  table(['', 'req/s', 'µs here', 'µs agent', 'p99 ms', 'errors'], rows)
}

async function transfers({ product, tcp }: Setup, agent: ChildProcess, seconds: number): Promise<void> {
  const rows: string[][] = []
  for (const kind of ['direct', 'tunnel'] as const) {
    for (const [way, connections] of [
      ['down', 1],
      ['down', 4],
      ['up', 1],
      ['up', 4]
    ] as const) {
      let came = 0
      const sockets = Array.from({ length: connections }, () => {
        // One buffer for all reads: what this program spends is missing where the product runs.
        const callback = (length: number) => {
          came += length
          return true
        }
        const onread = { buffer: Buffer.allocUnsafe(262_144), callback }
        const socket = connect({ host: '127.0.0.1', port: tcp[kind], onread })
        socket.on('error', () => socket.destroy())
        if (way === 'down') socket.write(Buffer.from([DOWNLOAD]))
        else {
          socket.on('drain', () => flood(socket))
          flood(socket)
        }
        return socket
      })
      await wait(700)
      const count = () => (way === 'down' ? came : received)
      const [before, since] = [count(), performance.now()]
      const cpu = [product.child.pid, agent.pid].map((pid) => cpuSeconds(pid as number))
      await wait(seconds * 1_000)
      const megabytes = (count() - before) / 1e6
      const used = [product.child.pid, agent.pid].map((pid, i) => cpuSeconds(pid as number) - (cpu[i] as number))
      const rate = megabytes / ((performance.now() - since) / 1_000)
      rows.push([
        `${kind} ${way} ×${connections}`,
        rate.toFixed(0),
        ...used.map((one) => ((one * 1e3) / megabytes).toFixed(2))
      ])
      for (const socket of sockets) socket.destroy()
      await wait(300)
    }
  }
  table(['', 'MB/s', 'ms/MB here', 'ms/MB agent'], rows)
}

/** Resident memory of the product for each agent that has a tunnel and does nothing. */
async function idle({ product, agents, token }: Setup): Promise<void> {
  const pid = product.child.pid as number
  const join = async (count: number): Promise<RawAgent[]> => {
    const all: RawAgent[] = []
    for (let i = 0; i < count; i++) {
      // Nobody beats here, so that the agents' own silence is allowed to be long.
      const raw = await RawAgent.session(agents, token, { HeartbeatInterval: 200e9, HeartbeatTolerance: 100e9 })
      await raw.call(7, { Labels: { idle: 'yes', number: String(i) } })
      all.push(raw)
    }
    return all
  }
  // Code and pools that the first agents bring in are not the price of one.
  const first = await join(100)
  const before = residentMegabytes(pid)
  const held = await join(IDLE)
  await wait(2_000)
  const each = ((residentMegabytes(pid) - before) * 1_024) / held.length
  console.log(`${held.length} idle agents: ${each.toFixed(1)} KiB each`)
  for (const raw of [...first, ...held]) raw.socket.destroy()
}

const [, , role = 'ours', argument = '4', ...rest] = process.argv
if (role === 'agent') {
  const [caFile = '', token = '', ...targets] = rest
  await sdkAgent(argument, caFile, token, targets)
} else {
  const setup = await prepare()
  await idle(setup)
  const agent = await startAgent(role, setup)
  await untilCarried(setup.product.port)
  await requests(setup, agent, Number(argument))
  await transfers(setup, agent, Number(argument) / 2)
  agent.kill()
  await setup.product.stop()
  process.exit(0)
}

async function untilCarried(port: number): Promise<void> {
  for (let attempt = 0; attempt < 100; attempt++) {
    if ((await fetch(`http://127.0.0.1:${port}/tunnel`)).ok) return
    await wait(100)
  }
  throw new Error('the agent does not carry traffic')
}
