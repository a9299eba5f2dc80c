import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { load } from './load.js'
import type { Peer } from './peers.js'
import { findProgram } from './process.js'
import type { Scenario } from './scenarios.js'
import { median, table } from './table.js'

const run = promisify(execFile)
const CLIENT = fileURLToPath(new URL('./paced-client.js', import.meta.url))

const CONNECTIONS = 32

interface Paced {
  readonly requests: number
  readonly p50: number
  readonly p99: number
  readonly errors: number
}

/** Latency of every peer at one fixed rate: half of what the slowest of them has just carried. */
export async function halfLoad(
  peers: readonly Peer[],
  scenario: Scenario,
  upstream: number,
  rate: number,
  rounds: number,
  seconds: number
): Promise<void> {
  console.log(`\nlatency at ${rate} requests a second, ${CONNECTIONS} connections: ${rounds} rounds of ${seconds} s`)
  const started = await Promise.all(
    peers.map(async (peer) => ({ peer, running: await peer.start(scenario, upstream) }))
  )
  const samples = new Map<string, Paced[]>(peers.map(({ name }) => [name, []]))
  // The client does not wait for answers: a peer that began cold could fall behind for good.
  for (const { running } of started) await load(running.port, scenario.path, CONNECTIONS, 2, scenario.refused)
  for (let round = 0; round < rounds; round++) {
    for (const { peer, running } of started) samples.get(peer.name)?.push(await paced(running.port, rate, seconds))
  }
  await Promise.all(started.map(({ running }) => running.stop()))
  const rows = [...samples].map(([name, all]) => [
    name,
    median(all.map(({ p50 }) => p50)).toFixed(2),
    median(all.map(({ p99 }) => p99)).toFixed(2),
    String(all.reduce((sum, { errors }) => sum + errors, 0))
  ])
  table(['', 'p50 ms', 'p99 ms', 'errors'], rows)
}

async function paced(port: number, rate: number, seconds: number): Promise<Paced> {
  const args = [CLIENT, String(port), String(rate), String(seconds), String(CONNECTIONS)]
  const pinned = findProgram('taskset') !== undefined
  const { stdout } = pinned
    ? await run('taskset', ['-c', '1', process.execPath, ...args])
    : await run(process.execPath, args)
  return JSON.parse(stdout) as Paced
}
