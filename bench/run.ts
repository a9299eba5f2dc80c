import { join, resolve } from 'node:path'
import { Worker } from 'node:worker_threads'
import { argument } from './argument.js'
import { fileRows } from './files.js'
import { halfLoad } from './half-load.js'
import { http2Rows, http2Scenarios } from './http2.js'
import { idleConnections } from './idle.js'
import { type Load, load } from './load.js'
import { build, type Peer, peers } from './peers.js'
import { cpuSeconds, residentMegabytes } from './process.js'
import { type Scenario, scenarios } from './scenarios.js'
import { severalThreads } from './several-threads.js'
import { median, table } from './table.js'

/**
 * Sluice beside its peers, in one run: each round measures every peer once, one after the other, so that a change in
 * the machine's speed hits all of them. CPU comes from the kernel's accounting of the proxy's own processes.
 *
 * `npm run bench -- --workers N` measures Sluice, nginx and HAProxy with one thread and with N (Node 24).
 * `npm run bench -- [--rounds N] [--seconds N] [--only pass,log,policy,flood,download,latency,files,idle,h2,grpc] [--beside FOLDER]`; FOLDER holds the
 * `main.js` of another build of Sluice, which is measured too. `--connections N`: idle ones.
 */
interface Sample extends Load {
  readonly cpu: number
  readonly memory: number
}

/** One short round of the scenarios that say most. */
const quick = process.argv.includes('--quick')
const rounds = Number(argument('rounds', quick ? '1' : '3'))
const seconds = Number(argument('seconds', quick ? '1' : '3'))
const only = argument('only', quick ? 'pass,policy' : '')
const beside = argument('beside', '')
const workers = Number(argument('workers', '1'))
const wanted = (name: string) => only === '' || only.split(',').includes(name)

async function main(): Promise<void> {
  const worker = new Worker(new URL('./origin.js', import.meta.url))
  const origin = await new Promise<{ plain: number; echo: number }>((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  const others = beside === '' ? [] : [build('other build', join(resolve(beside), 'main.js'))]
  const present = [...peers, ...others].filter((peer) => {
    const missing = peer.missing()
    if (missing !== undefined) console.log(`left out: ${peer.name} (${missing})`)
    return missing === undefined
  })
  for (const peer of present) await check(peer, origin.echo)
  if (workers > 1) {
    const able = present.filter(({ name }) => ['sluice', 'other build', 'nginx', 'haproxy'].includes(name))
    const about = { threads: workers, rounds, seconds }
    await severalThreads(
      scenarios.filter(({ name }) => wanted(name)),
      able,
      origin.plain,
      about
    )
    await worker.terminate()
    return
  }
  let slowest = Number.POSITIVE_INFINITY
  for (const scenario of scenarios) {
    if (!wanted(scenario.name)) continue
    const rates = await measure(
      scenario,
      present.filter((peer) => peer.can(scenario)),
      origin.plain
    )
    if (scenario.name === 'pass') slowest = Math.min(...rates)
  }
  const pass = scenarios[0] as Scenario
  const overHttp2 = http2Scenarios.filter(({ name }) => wanted(name))
  const builds = beside === '' ? [] : [{ name: 'other build', main: join(resolve(beside), 'main.js') }]
  if (overHttp2.length > 0) await http2Rows(overHttp2, builds, { rounds, seconds })
  const rate = Number.isFinite(slowest) ? Math.round(slowest / 2_000) * 1_000 : 5_000
  if (wanted('latency')) await halfLoad(present, pass, origin.plain, rate, rounds, seconds)
  if (wanted('files')) await fileRows({ rounds, seconds, builds })
  if (wanted('idle'))
    await idleConnections(
      present.filter(({ name }) => ['sluice', 'other build', 'http-proxy'].includes(name)),
      pass,
      origin.plain,
      Number(argument('connections', '10000'))
    )
  await worker.terminate()
}

/** A peer that does not carry a body, repeated fields and the target faithfully is not worth a figure. */
async function check(peer: Peer, echo: number): Promise<void> {
  const running = await peer.start(scenarios[0] as Scenario, echo)
  const body = 'e'.repeat(100_000)
  const answer = await fetch(`http://127.0.0.1:${running.port}/a/b?c=d`, { method: 'POST', body })
  const text = await answer.text()
  await running.stop()
  const faithful =
    answer.status === 200 &&
    text === body &&
    answer.headers.get('x-echo') === 'POST /a/b?c=d' &&
    answer.headers.getSetCookie().length === 2
  if (!faithful) throw new Error(`${peer.name} does not echo: ${answer.status}, ${text.length} bytes`)
}

/** The answer that the scenario is about, and no other, is what gets a figure. */
async function checkAnswer(peer: Peer, port: number, { path, refused }: Scenario): Promise<void> {
  const expected = refused ? 429 : 200
  let answer = ''
  // A limit lets the first ones pass.
  for (let asked = 0; asked < (refused ? 4 : 1); asked++) {
    const response = await fetch(`http://127.0.0.1:${port}${path}`)
    const { byteLength } = await response.arrayBuffer()
    answer = `${response.status} with ${byteLength} bytes`
    if (response.status === expected && (refused || byteLength === (path === '/1mb' ? 1_048_576 : 102))) return
  }
  throw new Error(`${peer.name} answers ${answer}`)
}

async function measure(scenario: Scenario, able: readonly Peer[], upstream: number): Promise<number[]> {
  console.log(`\n${scenario.title}: ${rounds} rounds of ${seconds} s, ${scenario.connections} connections`)
  const started = await Promise.all(able.map(async (peer) => ({ peer, running: await peer.start(scenario, upstream) })))
  const samples = new Map<string, Sample[]>(able.map(({ name }) => [name, []]))
  for (const { peer, running } of started) await checkAnswer(peer, running.port, scenario)
  for (const { running } of started) await load(running.port, scenario.path, scenario.connections, 2, scenario.refused)
  for (let round = 0; round < rounds; round++) {
    for (const { peer, running } of started) {
      const pid = running.child.pid as number
      const before = cpuSeconds(pid)
      const seen = await load(running.port, scenario.path, scenario.connections, seconds, scenario.refused)
      samples.get(peer.name)?.push({ ...seen, cpu: cpuSeconds(pid) - before, memory: residentMegabytes(pid) })
    }
  }
  await Promise.all(started.map(({ running }) => running.stop()))
  report(scenario, samples)
  return [...samples.values()].map((all) => median(all.map((one) => one.requests / one.seconds)))
}

function report(scenario: Scenario, samples: ReadonlyMap<string, readonly Sample[]>): void {
  const cost = (all: readonly Sample[]) => median(all.map((one) => (one.cpu * 1e6) / one.requests))
  const own = cost(samples.get('sluice') ?? [])
  const head = ['', 'CPU µs/req', 'sluice ÷', 'req/s', 'p50 ms', 'p99 ms', 'MB/CPU s', 'RSS MB', 'errors']
  const rows = [...samples].map(([name, all]) => [
    name,
    cost(all).toFixed(1),
    (own / cost(all)).toFixed(2),
    median(all.map((one) => one.requests / one.seconds)).toFixed(0),
    median(all.map((one) => one.p50)).toFixed(2),
    median(all.map((one) => one.p99)).toFixed(2),
    scenario.bulk ? median(all.map((one) => one.bytes / 2 ** 20 / one.cpu)).toFixed(0) : '',
    median(all.map((one) => one.memory)).toFixed(0),
    String(all.reduce((sum, one) => sum + one.errors, 0))
  ])
  table(head, rows)
}

await main()
