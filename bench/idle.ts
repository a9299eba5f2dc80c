import { connect, type Socket } from 'node:net'
import type { Peer } from './peers.js'
import { residentMegabytes } from './process.js'
import type { Scenario } from './scenarios.js'
import { table } from './table.js'

/** Resident memory that one idle keep-alive connection costs, after one request on each. */
export async function idleConnections(
  peers: readonly Peer[],
  scenario: Scenario,
  upstream: number,
  count: number
): Promise<void> {
  console.log(`\n${count} idle connections, one request on each`)
  const rows: string[][] = []
  for (const peer of peers) {
    const running = await peer.start(scenario, upstream)
    const pid = running.child.pid as number
    // Code and pools that the first requests bring in are not the price of a connection.
    await hold(running.port, 200, true)
    const before = residentMegabytes(pid)
    const sockets = await hold(running.port, count, false)
    const after = residentMegabytes(pid)
    for (const socket of sockets) socket.destroy()
    rows.push([peer.name, (((after - before) * 1_024) / sockets.length).toFixed(1), String(sockets.length)])
    await running.stop()
  }
  table(['', 'KiB each', 'held'], rows)
}

async function hold(port: number, count: number, release: boolean): Promise<Socket[]> {
  const sockets: Socket[] = []
  while (sockets.length < count) {
    const batch = Array.from({ length: Math.min(100, count - sockets.length) }, () => ask(port))
    for (const socket of await Promise.all(batch)) {
      if (socket === undefined) return sockets
      sockets.push(socket)
    }
  }
  if (release) for (const socket of sockets) socket.destroy()
  return sockets
}

function ask(port: number): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.once('error', () => resolve(undefined))
    socket.once('data', () => resolve(socket))
    socket.write('GET / HTTP/1.1\r\nHost: bench.test\r\n\r\n')
  })
}
