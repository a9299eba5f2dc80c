import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { systemClock } from '../../src/lib/clock.js'
import { Agent } from '../../src/tunnel/agent/agent.js'
import { labelDialer } from '../../src/tunnel/dialer.js'
import { AgentServer, open, TOKEN } from './agent-server.js'
import { RawAgent } from './raw-agent.js'

/**
 * What a tunnel costs, beside direct connections to the same upstream: requests one at a time and 64 at once,
 * megabytes both ways, and the memory of idle sessions. Compile with `tsc -p tsconfig.json --noEmit false --outDir
 * dist-bench`, then `node --expose-gc dist-bench/test/tunnel/bench-run.js [ours|sdk] [seconds]`.
 */
const ANSWER = Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\n\r\nok`)
const REQUEST = Buffer.from('GET / HTTP/1.1\r\nhost: bench\r\nuser-agent: bench\r\n\r\n')
const PIECE = Buffer.alloc(65_536, 'x')
const IDLE = 1000

const [, , role = 'ours', argument = '3', ...rest] = process.argv

/** G: requests. D: endless bytes. Anything else: bytes that are swallowed. */
async function upstream(): Promise<void> {
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => socket.destroy())
    let kind = 0
    let came = 0
    const flood = () => {
      while (!socket.destroyed && socket.write(PIECE));
    }
    socket.on('data', (chunk) => {
      if (kind === 0) {
        kind = chunk[0] as number
        if (kind === 0x44) {
          socket.on('drain', flood)
          flood()
        }
      }
      if (kind !== 0x47) return
      came += chunk.length
      for (; came >= REQUEST.length; came -= REQUEST.length) socket.write(ANSWER)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.send?.((server.address() as { port: number }).port)
}

async function agent([port = '', ca = '', target = '']: readonly string[], kind: string): Promise<void> {
  if (kind === 'sdk-agent') {
    const { SessionBuilder } = await import('@ngrok/ngrok')
    const session = await new SessionBuilder()
      .authtoken(TOKEN)
      .serverAddr(`localhost:${port}`)
      .caCert(Buffer.from(ca))
      .connect()
    const listener = await session.labeledListener().label('app', 'web').listen()
    process.send?.('ready')
    await listener.forward(`tcp://127.0.0.1:${target}`)
    return
  }
  await new Agent({
    server: { host: '127.0.0.1', port: Number(port), ca },
    token: TOKEN,
    tunnels: [
      {
        labels: { app: 'web' },
        forwardsTo: target,
        target: { kind: 'tcp', host: '127.0.0.1', port: Number(target) }
      }
    ],
    version: '0.0.0',
    clock: systemClock,
    random: Math.random,
    wait: async () => undefined,
    report: ({ kind: event }) => event === 'bound' && process.send?.('ready')
  }).run()
}

/** Requests by turns on each pipe until the time is over; answers per second. */
async function requests(pipes: readonly Duplex[], seconds: number): Promise<number> {
  let answers = 0
  for (const pipe of pipes) {
    let came = 0
    pipe.on('data', (chunk: Buffer) => {
      came += chunk.length
      if (came < ANSWER.length) return
      came -= ANSWER.length
      answers++
      pipe.write(REQUEST)
    })
    pipe.write(REQUEST)
  }
  return rate(seconds, () => answers)
}

async function download(pipes: readonly Duplex[], seconds: number): Promise<number> {
  let bytes = 0
  for (const pipe of pipes) {
    pipe.on('data', (chunk: Buffer) => {
      bytes += chunk.length
    })
    pipe.write('D')
  }
  return (await rate(seconds, () => bytes)) / 1e6
}

async function upload(pipes: readonly Duplex[], seconds: number): Promise<number> {
  let bytes = 0
  for (const pipe of pipes) {
    const flood = () => {
      let more = true
      while (more && !pipe.destroyed) {
        more = pipe.write(PIECE)
        bytes += PIECE.length
      }
    }
    pipe.on('drain', flood)
    flood()
  }
  return (await rate(seconds, () => bytes)) / 1e6
}

async function rate(seconds: number, count: () => number): Promise<number> {
  await wait(500)
  const [before, since, cpu] = [count(), performance.now(), process.cpuUsage()]
  await wait(seconds * 1000)
  const used = process.cpuUsage(cpu)
  const [units, time] = [count() - before, (performance.now() - since) / 1000]
  cpuPerUnit = (used.user + used.system) / units
  return units / time
}

let cpuPerUnit = 0

async function main(seconds: number): Promise<void> {
  const stops: (() => unknown)[] = []
  const server = await AgentServer.start({ teardown: (run) => stops.push(run) })
  const file = process.argv[1] as string
  const started = async (args: string[]): Promise<[ChildProcess, unknown]> => {
    const child = fork(file, args)
    const [message] = await once(child, 'message')
    return [child, message]
  }
  const [origin, port] = await started(['upstream'])
  const [client] = await started([`${role}-agent`, String(server.port), server.ca, String(port)])
  await server.until(() => server.tunnelIds().length === 1)
  const dialer = labelDialer(server.registry, { app: 'web' }, 'tcp')
  const tunnel = async () => (await open(dialer)).duplex
  const direct = async () => connect({ port: port as number, host: '127.0.0.1', noDelay: true })
  for (const [name, dial] of [
    ['direct', direct],
    [role, tunnel]
  ] as const) {
    for (const [what, unit, run, count] of [
      ['requests', 'req/s', requests, 1],
      ['requests', 'req/s', requests, 64],
      ['download', 'MB/s', download, 1],
      ['download', 'MB/s', download, 4],
      ['upload', 'MB/s', upload, 1],
      ['upload', 'MB/s', upload, 4]
    ] as const) {
      const pipes = await Promise.all(Array.from({ length: count }, dial))
      for (const pipe of pipes) pipe.on('error', () => undefined)
      const result = await run(pipes, seconds)
      console.log(
        `${name} ${what} x${count}: ${Math.round(result)} ${unit} (${cpuPerUnit.toFixed(4)} µs CPU here per unit)`
      )
      for (const pipe of pipes) pipe.destroy()
      await wait(200)
    }
  }
  client.kill()
  origin.kill()
  await idle(server)
  for (const stop of stops) await stop()
}

/** Both ends of each session live here, so the figure is an upper bound; the TLS client is about half of it. */
async function idle(server: AgentServer): Promise<void> {
  global.gc?.()
  const before = process.memoryUsage()
  const agents: RawAgent[] = []
  for (let index = 0; index < IDLE; index++) {
    const raw = await RawAgent.session(server, TOKEN)
    await raw.call(7, { Labels: { app: 'web', index: String(index) } })
    agents.push(raw)
  }
  await wait(1000)
  global.gc?.()
  const after = process.memoryUsage()
  const each = (name: 'rss' | 'heapUsed' | 'external') => Math.round((after[name] - before[name]) / IDLE / 1024)
  console.log(`${IDLE} idle sessions, both ends: rss ${each('rss')} KiB, heap ${each('heapUsed')} KiB each`)
  const held = server.registry.select({ app: 'web' }).length
  console.log(`${held} tunnels registered`)
  for (const raw of agents) raw.socket.destroy()
}

if (role === 'upstream') await upstream()
else if (role.endsWith('-agent')) await agent([argument, ...rest], role)
else await main(Number(argument))
