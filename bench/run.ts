import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Worker } from 'node:worker_threads'
import { argument } from './argument.js'
import { fileRows } from './files.js'
import { garbage } from './garbage.js'
import { halfLoad } from './half-load.js'
import { startHogs } from './hogs.js'
import { http2Rows, http2Scenarios } from './http2.js'
import { idleConnections } from './idle.js'
import { build, OWN_MAIN, type Peer, peers } from './peers.js'
import { findProgram } from './process.js'
import { checkAnswer, type Sample, sampleOf, scenarioLoad } from './scenario-load.js'
import { type Scenario, scenarios } from './scenarios.js'
import { severalThreads } from './several-threads.js'
import { systemCalls } from './system-calls.js'
import { median, table } from './table.js'
import { MODSECURITY, wafScenarios } from './waf.js'

/**
 * Sluice beside its peers, in one run: each round measures every peer once, one after the other, so that a change in
 * the machine's speed hits all of them. Every second round goes backwards, because the place in a round has an effect of its own. CPU comes from
 * the kernel's accounting of the proxy's own processes.
 *
 * `npm run bench -- --help` lists the options.
 */

/** Load before the first round (s): requests with bodies are few, and V8 compiles for longer. */
const WARM_SECONDS = { few: 12, many: 4 }
/** One short round of the scenarios that say most. */
const quick = process.argv.includes('--quick')
const rounds = Number(argument('rounds', quick ? '1' : '3'))
const seconds = Number(argument('seconds', quick ? '1' : '3'))
const only = argument('only', quick ? 'pass,policy' : '')
const beside = argument('beside', '')
/** Flags of Node for a second start of this build, with blanks between. */
const flags = argument('flags', '')
/** Peers that are measured, with commas between. */
const named = argument('peers', '')
/** Count system calls and garbage of scenarios with bodies too. */
const calls = process.argv.includes('--calls')
const workers = Number(argument('workers', '1'))
const hogs = Number(argument('hogs', '0'))
/** Seconds of load before the first round. */
const warm = Number(argument('warm', '0'))
const wanted = (name: string) => only === '' || only.split(',').includes(name)
const builds = [
  ...(beside === '' ? [] : [{ name: 'other build', main: join(resolve(beside), 'main.js'), flags: [] }]),
  ...(flags === '' ? [] : [{ name: 'other flags', main: OWN_MAIN, flags: flags.split(' ') }])
]

async function main(): Promise<void> {
  const worker = new Worker(new URL('./origin.js', import.meta.url))
  const origin = await new Promise<{ plain: number; echo: number }>((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  const others = builds.map((one) => build(one.name, one.main, one))
  const chosen = [...peers, ...others].filter(({ name }) => named === '' || named.split(',').includes(name))
  const present = chosen.filter((peer) => {
    const missing = peer.missing()
    if (missing !== undefined) console.log(`left out: ${peer.name} (${missing})`)
    return missing === undefined
  })
  for (const peer of present) await check(peer, origin.echo)
  const stopHogs = hogs === 0 ? undefined : startHogs(hogs)
  if (hogs > 0 && stopHogs === undefined) console.log('left out: hogs of the caches (stress-ng is not installed)')
  if (stopHogs !== undefined) console.log(`beside ${hogs} hogs of the caches (stress-ng --cache)`)
  try {
    await measureAll(present, origin.plain)
  } finally {
    await stopHogs?.()
    await worker.terminate()
  }
}

async function measureAll(present: readonly Peer[], upstream: number): Promise<void> {
  const chosen = scenarios.filter((scenario) => {
    if (!wanted(scenario.name)) return false
    const able = !scenario.bulk || findProgram('h2load') !== undefined
    if (!able) console.log(`left out: ${scenario.title} (h2load is not installed)`)
    return able
  })
  if (workers > 1) {
    const able = present.filter(({ name }) => ['sluice', 'other build', 'nginx', 'haproxy'].includes(name))
    await severalThreads(chosen, able, upstream, { threads: workers, rounds, seconds })
    return
  }
  let slowest = Number.POSITIVE_INFINITY
  for (const scenario of chosen) {
    const able = present.filter((peer) => peer.can(scenario))
    if (peers[0]?.can(scenario) !== true) {
      console.log(`\nleft out: ${scenario.title} (Node ${process.version} cannot)`)
      continue
    }
    const rates = await measure(scenario, able, upstream)
    if (scenario.name === 'pass') slowest = Math.min(...rates)
  }
  const pass = scenarios[0] as Scenario
  if (wanted('waf')) await firewall(present, upstream)
  const overHttp2 = http2Scenarios.filter(({ name }) => wanted(name))
  if (overHttp2.length > 0) await http2Rows(overHttp2, builds, { rounds, seconds })
  const rate = Number.isFinite(slowest) ? Math.round(slowest / 2_000) * 1_000 : 5_000
  if (wanted('latency')) await halfLoad(present, pass, upstream, rate, rounds, seconds)
  if (wanted('files')) await fileRows({ rounds, seconds, builds })
  if (wanted('idle'))
    await idleConnections(
      present.filter(({ name }) => ['sluice', 'other build', 'http-proxy'].includes(name)),
      pass,
      upstream,
      Number(argument('connections', '10000'))
    )
}

/** Measures the web application firewall beside ModSecurity with the same rules. */
async function firewall(present: readonly Peer[], upstream: number): Promise<void> {
  const all = wafScenarios()
  if (all.length === 0)
    console.log('left out: web application firewall (there are no rules: set SLUICE_CRS, or install modsecurity-crs)')
  else if (!existsSync(MODSECURITY))
    console.log('left out: nginx with ModSecurity (libnginx-mod-http-modsecurity is not installed)')
  for (const scenario of all)
    await measure(
      scenario,
      present.filter((peer) => peer.can(scenario)),
      upstream
    )
}

/** A peer that does not carry a body, repeated fields and the target faithfully is not worth a figure. */
async function check(peer: Peer, echo: number): Promise<void> {
  const running = await peer.start(scenarios[0] as Scenario, echo)
  const body = 'e'.repeat(100_000)
  const asked = fetch(`http://127.0.0.1:${running.port}/a/b?c=d`, { method: 'POST', body })
  const answer = await asked.catch((error: Error) => {
    throw new Error(`${peer.name} does not answer: ${error.cause ?? error}${running.failure()}`)
  })
  const text = await answer.text()
  await running.stop()
  const faithful =
    answer.status === 200 &&
    text === body &&
    answer.headers.get('x-echo') === 'POST /a/b?c=d' &&
    answer.headers.getSetCookie().length === 2
  if (!faithful) throw new Error(`${peer.name} does not echo: ${answer.status}, ${text.length} bytes`)
}

async function measure(scenario: Scenario, able: readonly Peer[], upstream: number): Promise<number[]> {
  console.log(`\n${scenario.title}: ${rounds} rounds of ${seconds} s, ${scenario.connections} connections`)
  const started = await Promise.all(able.map(async (peer) => ({ peer, running: await peer.start(scenario, upstream) })))
  const samples = new Map<string, Sample[]>(able.map(({ name }) => [name, []]))
  for (const { peer, running } of started) await checkAnswer(peer, running, scenario, upstream)
  const warmUp = warm > 0 ? warm : scenario.bulk ? WARM_SECONDS.few : WARM_SECONDS.many
  for (const { running } of started) await scenarioLoad(running, scenario, warmUp)
  for (let round = 0; round < rounds; round++) {
    for (const { peer, running } of round % 2 === 0 ? started : [...started].reverse()) {
      const load = (duration: number) => scenarioLoad(running, scenario, duration)
      samples.get(peer.name)?.push(await sampleOf(running.child.pid as number, seconds, load))
    }
  }
  report(scenario, samples)
  if (scenario.bulk && calls) await counts(scenario, started, upstream)
  await Promise.all(started.map(({ running }) => running.stop()))
  return [...samples.values()].map((all) => median(all.map((one) => one.requests / one.seconds)))
}

/** Counts what bodies cost in system calls and garbage. */
async function counts(
  scenario: Scenario,
  started: readonly { readonly peer: Peer; readonly running: Awaited<ReturnType<Peer['start']>> }[],
  upstream: number
): Promise<void> {
  const megabytes = (scenario.upload ?? scenario.answer) / 2 ** 20
  if (findProgram('strace') === undefined) console.log('left out: system calls (strace is not installed)')
  else
    await systemCalls(
      started.map(({ peer, running }) => ({
        name: peer.name,
        pid: running.child.pid as number,
        run: async () => {
          const { requests } = await scenarioLoad(running, scenario, 1)
          return { megabytes: requests * megabytes, requests }
        }
      }))
    )
  await garbage(scenario, [{ name: 'sluice', main: OWN_MAIN, flags: [] }, ...builds], upstream, megabytes)
}

function report(scenario: Scenario, samples: ReadonlyMap<string, readonly Sample[]>): void {
  const cost = (all: readonly Sample[]) => median(all.map((one) => (one.cpu * 1e6) / one.requests))
  const own = samples.get('sluice') ?? []
  /** Bytes of a body, before its compression. */
  const size = scenario.upload ?? scenario.answer
  /** Median of the ratios of rounds, because the machine's speed changes between them. */
  const ratio = (all: readonly Sample[]) => median(all.map((one, i) => cost(own.slice(i, i + 1)) / cost([one])))
  const more = (all: readonly Sample[]) => median(all.map((one, i) => cost(own.slice(i, i + 1)) - cost([one])))
  const head = [
    '',
    'CPU µs/req',
    'sluice ÷',
    'sluice − µs',
    'req/s',
    'p50 ms',
    'p99 ms',
    'MB/CPU s',
    'RSS MB',
    'errors'
  ]
  const rows = [...samples].map(([name, all]) => [
    name,
    cost(all).toFixed(1),
    ratio(all).toFixed(2),
    more(all).toFixed(1),
    median(all.map((one) => one.requests / one.seconds)).toFixed(0),
    median(all.map((one) => one.p50)).toFixed(2),
    median(all.map((one) => one.p99)).toFixed(2),
    scenario.bulk ? median(all.map((one) => (one.requests * size) / 2 ** 20 / one.cpu)).toFixed(0) : '',
    median(all.map((one) => one.memory)).toFixed(0),
    String(all.reduce((sum, one) => sum + one.errors, 0))
  ])
  table(head, rows)
}

await main()
