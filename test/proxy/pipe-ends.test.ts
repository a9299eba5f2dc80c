import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import t from 'tap'
import { account } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { until } from '../helpers/until.js'
import { clientWays, PipeStand, pipeKinds, upstreamWays } from './pipe-stand.js'

/** Short for a half-closed pipe, long for one that is only silent. */
const SOON = { TIMEOUTS_IDLE: '10m', TIMEOUTS_HALF_CLOSED: '300ms' }

t.test('whatever ends a pipe, both connections of it are closed, and their places are free', async (t) => {
  const stand = await PipeStand.start(t, { options: SOON })
  const before = stand.descriptors
  // A client that stays is left to an upstream that ends by itself.
  const meetings = upstreamWays.flatMap((upstream) =>
    clientWays
      .filter((client) => client !== 'stay' || upstream.endsWith('first'))
      .map((client) => ({ upstream, client }))
  )
  for (const { upstream, client } of meetings) {
    stand.way = upstream
    await Promise.all(pipeKinds.map((kind) => stand.leave(kind, client)))
    t.comment(`${upstream}, ${client}`)
  }
  await until(() => stand.descriptors <= before)
  await until(async () => /^sluice_connections 0$/m.test((await account(stand.sluice)('/metrics')).text))
  t.pass(`${meetings.length * pipeKinds.length} pipes`)
})

t.test('a pipe that is silent in both directions ends; one where only the upstream speaks does not', async (t) => {
  const stand = await PipeStand.start(t, { options: { TIMEOUTS_IDLE: '400ms' } })
  const speaking = await stand.open('websocket')
  const [upstream] = stand.upstreams
  const timer = setInterval(() => upstream?.write('.'), 100)
  const silent = await Promise.all(pipeKinds.map((kind) => stand.open(kind)))
  await Promise.all(silent.map(({ stream }) => until(() => stream.destroyed)))
  t.notOk(speaking.stream.destroyed)
  clearInterval(timer)
  t.pass('and then it ends too')
  await until(() => stand.sluice.log.filter(({ failure, code }) => failure === 'idle' || code === 'IDLE').length === 6)
  t.pass('and the log says why, for each of six')
})

t.test('a half-closed pipe goes on as long as bytes move', async (t) => {
  const stand = await PipeStand.start(t, { options: SOON })
  const { stream } = await stand.open('TCP edge')
  const [upstream] = stand.upstreams
  stream.end()
  for (let i = 0; i < 8; i++) {
    upstream?.write('x')
    await once(stream, 'data')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  t.notOk(stream.destroyed)
  upstream?.end()
})

t.test(
  'the system probes connections to clients and to upstreams',
  { skip: process.platform !== 'linux' },
  async (t) => {
    for (const [time, timer] of [
      ['60s', '02'],
      ['0s', '00']
    ] as const) {
      const stand = await PipeStand.start(t, { options: { TIMEOUTS_TCP_KEEP_ALIVE: time } })
      const pipes = await Promise.all([stand.open('websocket'), stand.open('TCP edge')])
      const timers = timersOf((local, remote) => {
        const ports = pipes.map(({ stream }) => (stream as Socket).localPort)
        const upstreams = [...stand.upstreams].map((socket) => socket.remotePort)
        return ports.includes(remote) || upstreams.includes(local)
      })
      t.same(timers, Array(4).fill(timer), `${time}: both connections of two pipes`)
      for (const { stream } of pipes) stream.destroy()
    }
  }
)

/** What timers run for the TCP connections of this machine whose ports are chosen; 02: keep-alive (proc_net_tcp). */
function timersOf(chosen: (local: number, remote: number) => boolean): string[] {
  const port = (text = ''): number => Number.parseInt(text.split(':')[1] ?? '', 16)
  return ['tcp', 'tcp6']
    .flatMap((file) => readFileSync(`/proc/net/${file}`, 'utf8').trim().split('\n').slice(1))
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, remote, state]) => state === '01' && chosen(port(local), port(remote)))
    .map(([, , , , , timer = '']) => timer.slice(0, 2))
}

t.test('pipes leave a tenth of the places to others, and a listener without places says so', async (t) => {
  const stand = await PipeStand.start(t, { options: { ...SOON, LIMITS_CONNECTIONS: '20' } })
  const { sluice } = stand
  const ready = async () => (await account(sluice)('/readyz')).json
  const pipes = await Promise.all(Array.from({ length: 18 }, () => stand.open('websocket')))
  t.ok(pipes.every(({ stream }) => !stream.destroyed))
  const refused = await rawClient(sluice.port)
  refused.send(
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n'
  )
  const answer = await refused.answer()
  t.equal(answer.status, 503)
  t.equal(answer.headers.find(([name]) => name.toLowerCase() === 'sluice-error-code')?.[1], 'OVERLOADED')
  await sluice.line(({ limit }) => limit === 'limits.connections')
  t.match(await ready(), { status: 'ready' }, 'a request that is refused a pipe leaves its place to others')
  const other = await rawClient(sluice.port)
  await until(async () => (await ready()).status === 'degraded')
  t.same((await ready()).reasons, ['connections_used_up'])
  t.match((await account(sluice)('/metrics')).text, /^sluice_degraded\{reason="connections_used_up"\} 1$/m)
  await sluice.line(({ reason }) => reason === 'connections_used_up')
  t.equal((await (await rawClient(sluice.port)).answer()).status, 503)
  refused.reset()
  other.reset()
  for (const { stream } of pipes.slice(0, 5)) stream.destroy()
  await until(async () => (await ready()).status === 'ready')
  await until(async () => /^sluice_connections 13$/m.test((await account(sluice)('/metrics')).text))
  await stand.leave('websocket', 'close')
  for (const { stream } of pipes) stream.destroy()
})
