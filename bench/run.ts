import { existsSync } from 'node:fs'
import { type IncomingMessage, request as plainRequest } from 'node:http'
import { request as secureRequest } from 'node:https'
import { join, resolve } from 'node:path'
import { Worker } from 'node:worker_threads'
import { argument } from './argument.js'
import { fileRows } from './files.js'
import { halfLoad } from './half-load.js'
import { http2Rows, http2Scenarios } from './http2.js'
import { idleConnections } from './idle.js'
import { bodyLoad, type Load, load, requestLoad } from './load.js'
import { build, type Peer, peers } from './peers.js'
import { cpuSeconds, findProgram, residentMegabytes } from './process.js'
import { type Scenario, scenarios } from './scenarios.js'
import { severalThreads } from './several-threads.js'
import { systemCalls } from './system-calls.js'
import { median, table } from './table.js'
import { MODSECURITY, wafScenarios } from './waf.js'

/**
 * Sluice beside its peers, in one run: each round measures every peer once, one after the other, so that a change in
 * the machine's speed hits all of them. CPU comes from the kernel's accounting of the proxy's own processes.
 *
 * `npm run bench -- --workers N` measures Sluice, nginx and HAProxy with one thread and with N (Node 24).
 * `npm run bench -- [--rounds N] [--seconds N] [--only pass,log,policy,flood,download,upload,tls-download,h2-download,latency,files,idle,waf,h2,grpc] [--beside FOLDER]`; FOLDER holds the
 * `main.js` of another build of Sluice, which is measured too. `--connections N`: idle ones. `--calls`: count system calls of downloads and uploads.
 */
interface Sample extends Load {
  readonly cpu: number
  readonly memory: number
}

/** Load before the first round (s). */
const WARM_SECONDS = 4
/** One short round of the scenarios that say most. */
const quick = process.argv.includes('--quick')
const rounds = Number(argument('rounds', quick ? '1' : '3'))
const seconds = Number(argument('seconds', quick ? '1' : '3'))
const only = argument('only', quick ? 'pass,policy' : '')
const beside = argument('beside', '')
/** Count the system calls of downloads and uploads too. */
const calls = process.argv.includes('--calls')
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
    if (scenario.bulk && findProgram('h2load') === undefined) {
      console.log(`left out: ${scenario.title} (h2load is not installed)`)
      continue
    }
    const rates = await measure(
      scenario,
      present.filter((peer) => peer.can(scenario)),
      origin.plain
    )
    if (scenario.name === 'pass') slowest = Math.min(...rates)
  }
  const pass = scenarios[0] as Scenario
  if (wanted('waf')) await firewall(present, origin.plain)
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
async function checkAnswer(peer: Peer, port: number, scenario: Scenario): Promise<void> {
  const { refused, answer: expectedBytes } = scenario
  const expected = refused ? 429 : 200
  let answer = ''
  // A limit lets the first ones pass.
  for (let asked = 0; asked < (refused ? 4 : 1); asked++) {
    const { status, bytes } = await askOnce(port, scenario)
    answer = `${status} with ${bytes} bytes`
    if (status === expected && (refused || bytes === expectedBytes)) return
  }
  throw new Error(`${peer.name} answers ${answer}`)
}

/** Asks once over HTTP/1.1. */
function askOnce(
  port: number,
  { path, secure, upload, request }: Scenario
): Promise<{ status: number | undefined; bytes: number }> {
  const body = upload === undefined ? request?.body : Buffer.alloc(upload)
  const method = body === undefined ? 'GET' : 'POST'
  const asked = { host: '127.0.0.1', port, path, method, headers: request?.headers ?? {}, rejectUnauthorized: false }
  return new Promise((resolve, reject) => {
    const answered = (response: IncomingMessage): void => {
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
      })
      response.on('end', () => resolve({ status: response.statusCode, bytes }))
    }
    const asking = secure !== undefined ? secureRequest(asked, answered) : plainRequest(asked, answered)
    asking.on('error', reject)
    asking.end(body)
  })
}

async function measure(scenario: Scenario, able: readonly Peer[], upstream: number): Promise<number[]> {
  console.log(`\n${scenario.title}: ${rounds} rounds of ${seconds} s, ${scenario.connections} connections`)
  const started = await Promise.all(able.map(async (peer) => ({ peer, running: await peer.start(scenario, upstream) })))
  const samples = new Map<string, Sample[]>(able.map(({ name }) => [name, []]))
  const { path, connections, secure, upload, refused, bulk, request } = scenario
  const portOf = ({ port, tlsPort = port }: (typeof started)[number]['running']) =>
    secure === undefined ? port : tlsPort
  const loaded = (running: (typeof started)[number]['running'], duration: number): Promise<Load> =>
    bulk
      ? bodyLoad(portOf(running), { path, connections, seconds: duration, secure, upload })
      : request === undefined
        ? load(running.port, path, connections, duration, refused)
        : requestLoad(running.port, path, { request, connections, seconds: duration })
  for (const { peer, running } of started) await checkAnswer(peer, portOf(running), scenario)
  for (const { running } of started) await loaded(running, WARM_SECONDS)
  for (let round = 0; round < rounds; round++) {
    for (const { peer, running } of started) {
      const pid = running.child.pid as number
      const before = cpuSeconds(pid)
      const seen = await loaded(running, seconds)
      samples.get(peer.name)?.push({ ...seen, cpu: cpuSeconds(pid) - before, memory: residentMegabytes(pid) })
    }
  }
  report(scenario, samples)
  if (bulk && calls && findProgram('strace') !== undefined) {
    const size = upload ?? scenario.answer
    await systemCalls(
      started.map(({ peer, running }) => ({
        name: peer.name,
        pid: running.child.pid as number,
        run: async () => {
          const { requests } = await loaded(running, 1)
          return { megabytes: (requests * size) / 2 ** 20, requests }
        }
      }))
    )
  }
  await Promise.all(started.map(({ running }) => running.stop()))
  return [...samples.values()].map((all) => median(all.map((one) => one.requests / one.seconds)))
}

function report(scenario: Scenario, samples: ReadonlyMap<string, readonly Sample[]>): void {
  const cost = (all: readonly Sample[]) => median(all.map((one) => (one.cpu * 1e6) / one.requests))
  const own = samples.get('sluice') ?? []
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
    scenario.bulk ? median(all.map((one) => one.bytes / 2 ** 20 / one.cpu)).toFixed(0) : '',
    median(all.map((one) => one.memory)).toFixed(0),
    String(all.reduce((sum, one) => sum + one.errors, 0))
  ])
  table(head, rows)
}

await main()
