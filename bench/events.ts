import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { cpuSeconds, findProgram, freePort, startProgram } from './process.js'
import { median, table } from './table.js'

/**
 * What events of traffic cost: the same paced load with nobody subscribed, with a file and with a webhook, by turns, and how
 * requests fare beside those of the same round with nobody subscribed. The receiver of the webhook shares the machine, so
 * webhooks stand beside a load with nobody subscribed while another program posts as much to the same receiver. By default
 * 1,700 requests a second, which is 102,000 events a minute. `events [SECONDS] [ROUNDS] [RATE]`.
 */
const [seconds = 20, rounds = 3, rate = 1_700] = process.argv.slice(2).map(Number)
const CLIENT = fileURLToPath(new URL('./paced-client.js', import.meta.url))
const POSTER = fileURLToPath(new URL('./poster.js', import.meta.url))
const MAIN = fileURLToPath(new URL('../src/main.js', import.meta.url))
const KEY = 'a-key-for-the-benchmark'
const run = promisify(execFile)

interface Sample {
  readonly p50: number
  readonly p99: number
  readonly errors: number
  readonly cpu: number
}

/** Bodies as they came: they are read when nothing is measured, for the client shares its CPU with this program. */
const bodies: Buffer[] = []
const sink = createServer((request, response) => {
  const parts: Buffer[] = []
  request.on('data', (part: Buffer) => parts.push(part))
  request.on('end', () => {
    bodies.push(Buffer.concat(parts))
    response.writeHead(204).end()
  })
})
sink.listen(0, '127.0.0.1')
await once(sink, 'listening')
const hook = `http://127.0.0.1:${(sink.address() as AddressInfo).port}/`

const origin = new Worker(new URL('./origin.js', import.meta.url))
const [{ plain }] = (await once(origin, 'message')) as [{ plain: number }]
const [traffic, api] = [await freePort(), await freePort()]
// The proxy has one CPU to itself; client, origin and receiver share the other.
if (findProgram('taskset') !== undefined)
  execFileSync('taskset', ['-acp', '1', String(process.pid)], { stdio: 'ignore' })
const env = {
  SLUICE_API_KEY: KEY,
  SLUICE_DATA: ':memory:',
  SLUICE_LIMITER_BUDGET: '64MiB',
  SLUICE_OUTBOUND_ALLOW_PRIVATE: 'true',
  SLUICE_ACCESS_LOG: 'false'
}
const addresses = ['--listen', `127.0.0.1:${traffic}`, '--api', `127.0.0.1:${api}`]
const words = [MAIN, 'start', ...addresses, '--upstream', `http://127.0.0.1:${plain}`]
const sluice = await startProgram(process.execPath, words, api, { cpu: 0, env })
const pid = sluice.child.pid ?? 0

interface Answer {
  readonly id: string
  readonly delivery: { readonly delivered: number; readonly dropped: number } | null
}

async function ask(method: string, path: string, body?: object): Promise<Answer> {
  const headers = { authorization: `Bearer ${KEY}`, 'service-version': '2', 'content-type': 'application/json' }
  const given = body === undefined ? {} : { body: JSON.stringify(body) }
  const answer = await fetch(`http://127.0.0.1:${api}${path}`, { method, headers, ...given })
  if (!answer.ok) throw new Error(`${method} ${path} gave ${answer.status}: ${await answer.text()}`)
  return (answer.status === 204 ? {} : await answer.json()) as Answer
}

/** Subscribed for the time of `work`; answers what the destination counted. */
async function subscribed(target: object, work: () => Promise<void>): Promise<{ delivered: number; dropped: number }> {
  const { id } = await ask('POST', '/event_destinations', { target })
  const sources = [{ type: 'http_request_complete.v0' }]
  const subscription = await ask('POST', '/event_subscriptions', { sources, destination_ids: [id] })
  await work()
  await ask('DELETE', `/event_subscriptions/${subscription.id}`)
  const { delivery } = await ask('GET', `/event_destinations/${id}`)
  await ask('DELETE', `/event_destinations/${id}`)
  return { delivered: delivery?.delivered ?? 0, dropped: delivery?.dropped ?? 0 }
}

async function paced(): Promise<Sample> {
  const before = cpuSeconds(pid)
  const { stdout } = await run(process.execPath, [CLIENT, String(traffic), String(rate), String(seconds), '32'])
  const { p50, p99, errors, requests } = JSON.parse(stdout) as Sample & { readonly requests: number }
  return { p50, p99, errors, cpu: ((cpuSeconds(pid) - before) * 1e6) / requests }
}

const BUSY = 'nobody, receiver busy'
/** Bytes of one event of this load. */
const EVENT_BYTES = 1_276

/** Meanwhile another program posts to the receiver. */
async function besidePoster(work: () => Promise<void>): Promise<void> {
  const poster = spawn(process.execPath, [POSTER, hook, String(rate * EVENT_BYTES)], { stdio: 'ignore' })
  try {
    await work()
  } finally {
    poster.kill()
    await once(poster, 'exit')
    bodies.length = 0
  }
}

const samples = new Map<string, Sample[]>([
  ['nobody', []],
  ['file', []],
  [BUSY, []],
  ['webhook', []]
])
const counts = { delivered: 0, dropped: 0, received: 0 }
for (let round = 0; round <= rounds; round++) {
  for (const [name, list] of samples) {
    const measure = async () => {
      const sample = await paced()
      // The first round warms up.
      if (round > 0) list.push(sample)
    }
    if (name === 'nobody') await measure()
    else if (name === BUSY) await besidePoster(measure)
    else {
      const target = name === 'file' ? { file: { path: '/dev/null' } } : { webhook: { url: hook, secret: 'signed' } }
      const { delivered, dropped } = await subscribed(target, measure)
      counts.delivered += delivered
      counts.dropped += dropped
      for (const body of bodies.splice(0)) counts.received += (JSON.parse(body.toString()) as unknown[]).length
    }
  }
}
console.log(`${rate} requests a second, ${rate * 60} events a minute: ${rounds} rounds of ${seconds} s`)

/** The median over the rounds, and beside it that of the ratios to the same round's run with nobody subscribed. */
function beside(name: string, read: (sample: Sample) => number, digits: number): string {
  const list = samples.get(name) ?? []
  const base = samples.get(name === 'webhook' || name === BUSY ? BUSY : 'nobody') ?? []
  const ratios = list.flatMap((sample, round) => {
    const quiet = base[round]
    return quiet === undefined ? [] : [read(sample) / read(quiet)]
  })
  return `${median(list.map(read)).toFixed(digits)} (×${median(ratios).toFixed(2)})`
}

table(
  ['subscribed', 'p50 ms', 'p99 ms', 'CPU µs/request', 'errors'],
  [...samples].map(([name, list]) => [
    name,
    beside(name, ({ p50 }) => p50, 2),
    beside(name, ({ p99 }) => p99, 2),
    beside(name, ({ cpu }) => cpu, 1),
    String(list.reduce((sum, { errors }) => sum + errors, 0))
  ])
)
console.log(`events delivered: ${counts.delivered} (${counts.received} by webhook), dropped: ${counts.dropped}`)
await sluice.stop()
await origin.terminate()
sink.close()
