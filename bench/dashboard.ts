import { execFile, execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { chromium, type Page } from 'playwright-core'
import { cpuSeconds, findProgram, freePort, residentMegabytes, startProgram } from './process.js'
import { median, table } from './table.js'

/**
 * What an open dashboard costs, and whether it stays usable: requests at a fixed rate against a limit with many buckets, with what the page
 * of traffic reads read by a plain client, and with each page open. The proxy has one CPU to itself; client, origin and browser share the
 * other one, the browser only what they leave. Whoever reads or draws slows what runs beside it, so that each page, and the plain
 * client, is compared with the same one at another process, which has as much to show and none of the traffic. Then how long the
 * page takes to handle a key that is pressed.
 * `dashboard [SECONDS] [ROUNDS] [RATE] [BUCKETS]`.
 */
const [seconds = 10, rounds = 3, rate = 5_000, buckets = 1_000_000] = process.argv.slice(2).map(Number)
const CLIENT = fileURLToPath(new URL('./paced-client.js', import.meta.url))
const MAIN = fileURLToPath(new URL('../src/main.js', import.meta.url))
const KEY = 'a-key-for-the-benchmark'
const PAGES = ['traffic', 'limits', 'routes'] as const
/** Requests a second while the buckets are filled. */
const FILLING = 12_000
/** Seconds of traffic after a page was opened, which are not counted. */
const SETTLING = 4
/** Requests a second that the other process has to show: more than the page of traffic shows. */
const SHOWN = 50
/** Keys that are pressed to measure how long each takes. */
const PRESSED = 40
const run = promisify(execFile)

interface Paced {
  readonly p50: number
  readonly p99: number
  readonly errors: number
  readonly cpu: number
}

/** Each key of a client has a bucket of its own; a tenth of a percent of the answers is a refusal. */
const POLICY = `on_http_request:
  - actions:
      - type: rate-limit
        config:
          name: many
          algorithm: sliding_window
          capacity: 1000
          rate: 20m
          bucket_key: ["getReqHeader('x-client')"]
  - expressions: ["req.headers['x-client'][0].endsWith('999')"]
    actions: [{ type: deny }]
`

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
const policy = join(folder, 'policy.yaml')
writeFileSync(policy, POLICY)
const browserOfMachine = findProgram('chromium')
if (browserOfMachine === undefined) throw new Error("this needs Debian's chromium")
const polite = join(folder, 'chromium')
writeFileSync(polite, `#!/bin/sh\nexec chrt --idle 0 ${browserOfMachine} "$@"\n`)
chmodSync(polite, 0o755)

const origin = new Worker(new URL('./origin.js', import.meta.url))
const { plain } = await new Promise<{ plain: number }>((resolve, reject) => {
  origin.once('message', resolve)
  origin.once('error', reject)
})
if (findProgram('taskset') !== undefined)
  execFileSync('taskset', ['-acp', '1', String(process.pid)], { stdio: 'ignore' })

async function startSluice(cpu: number) {
  const [traffic, api] = [await freePort(), await freePort()]
  const env = { SLUICE_API_KEY: KEY, SLUICE_DATA: ':memory:', SLUICE_ACCESS_LOG: 'false' }
  const addresses = ['--listen', `127.0.0.1:${traffic}`, '--api', `127.0.0.1:${api}`, '--policy', policy]
  const words = [MAIN, 'start', ...addresses, '--upstream', `http://127.0.0.1:${plain}`]
  return { traffic, api, program: await startProgram(process.execPath, words, api, { cpu, env }) }
}
const own = await startSluice(0)
const other = await startSluice(1)
const pid = own.program.child.pid ?? 0

function startLoad(port: number, perSecond: number, lasting: number) {
  return run(process.execPath, [CLIENT, String(port), String(perSecond), String(lasting), '32', String(buckets)])
}

async function paced(perSecond: number, lasting: number): Promise<Paced> {
  const before = cpuSeconds(pid)
  const [{ stdout }] = await Promise.all([
    startLoad(own.traffic, perSecond, lasting),
    startLoad(other.traffic, SHOWN, lasting)
  ])
  const { p50, p99, errors, requests } = JSON.parse(stdout) as Paced & { readonly requests: number }
  return { p50, p99, errors, cpu: ((cpuSeconds(pid) - before) * 1e6) / requests }
}

/** The delays of keys that are pressed in the first field of the page, milliseconds, worst last. */
async function keyDelays(page: Page): Promise<readonly number[]> {
  await page.evaluate(`globalThis.delays = []; new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (entry.name === 'keydown') delays.push(entry.processingStart - entry.startTime)
  }).observe({ type: 'event', durationThreshold: 16 })`)
  await page.locator('main input').first().focus()
  for (let pressed = 0; pressed < PRESSED; pressed++) {
    await page.keyboard.press('a')
    await page.keyboard.press('Backspace')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const seen = (await page.evaluate('delays')) as number[]
  // Those that took less than 16 ms in all are not reported.
  return [...new Array<number>(Math.max(PRESSED * 2 - seen.length, 0)).fill(0), ...seen].sort((a, b) => a - b)
}

console.log(`filling ${buckets} buckets …`)
await paced(FILLING, Math.ceil((buckets / FILLING) * 1.05))
const filled = residentMegabytes(pid)

/** Reads the streams of an API that the page of traffic reads, until the function it answers is called. */
async function readAsThePage(api: number): Promise<() => void> {
  const ending = new AbortController()
  for (const path of ['/exchanges/stream?rate=20&explain=true', '/traffic/stream']) {
    const url = `http://127.0.0.1:${api}${path}`
    const answer = await fetch(url, {
      headers: { authorization: `Bearer ${KEY}`, 'ngrok-version': '2' },
      signal: ending.signal
    })
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    void answer.body?.pipeTo(new WritableStream()).catch(() => undefined)
  }
  return () => ending.abort()
}

const browser = await chromium.launch({ executablePath: polite, args: ['--no-sandbox', '--disable-gpu'] })

/** A signed-in browser window: cookies do not tell ports of one host apart. */
async function openPage(api: number): Promise<Page> {
  const page = await (await browser.newContext()).newPage()
  await page.goto(`http://127.0.0.1:${api}/`)
  await page.getByLabel('API key').fill(KEY)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
  await page.goto('about:blank')
  return page
}
const page = await openPage(own.api)
const otherPage = await openPage(other.api)

const PLAIN_CLIENT = 'traffic, no browser'
const shown = [PLAIN_CLIENT, ...PAGES] as const
interface Sample extends Paced {
  /** Right before and after it, with what it is compared with. */
  readonly beside: readonly Paced[]
}
const samples = new Map<string, Sample[]>(shown.map((name) => [name, []]))

async function sampled(name: (typeof shown)[number], isOwn: boolean): Promise<Paced> {
  const [process, window] = isOwn ? [own, page] : [other, otherPage]
  const shows = PAGES.some((one) => one === name)
  if (shows) {
    await window.goto(`http://127.0.0.1:${process.api}/#/${name}`)
    await window.locator('h1').waitFor()
  }
  const end = name === PLAIN_CLIENT ? await readAsThePage(process.api) : undefined
  // A page that was just opened: what it loads is not what it costs while it is open.
  await paced(rate, SETTLING)
  const sample = await paced(rate, seconds)
  end?.()
  await window.goto('about:blank')
  return sample
}

for (let round = 0; round <= rounds; round++) {
  for (const name of shown) {
    const before = await sampled(name, false)
    const sample = await sampled(name, true)
    const after = await sampled(name, false)
    // The first round warms up.
    if (round > 0) samples.get(name)?.push({ ...sample, beside: [before, after] })
  }
}
const after = residentMegabytes(pid)

const delays = new Map<string, readonly number[]>()
for (const name of PAGES) {
  await page.goto(`http://127.0.0.1:${own.api}/#/${name}`)
  await page.locator('main input').first().waitFor()
  const load = paced(rate, 8)
  delays.set(name, await keyDelays(page))
  await load
}

const compared = (list: readonly Sample[], read: (sample: Paced) => number, digits: number) => {
  const ratios = list.map(
    (sample) => (read(sample) * sample.beside.length) / sample.beside.reduce((sum, one) => sum + read(one), 0)
  )
  return `${median(list.map(read)).toFixed(digits)} (×${median(ratios).toFixed(2)})`
}
console.log(`${rate} requests a second, ${buckets} buckets: ${rounds} rounds of ${seconds} s`)
table(
  ['page that is open', 'p50 ms', 'p99 ms', 'CPU µs/request', 'errors', 'key delay p95 / worst, ms'],
  [...samples].map(([name, list]) => {
    const keys = delays.get(name)
    return [
      name,
      compared(list, ({ p50 }) => p50, 2),
      compared(list, ({ p99 }) => p99, 2),
      compared(list, ({ cpu }) => cpu, 1),
      String(list.reduce((sum, { errors }) => sum + errors, 0)),
      keys === undefined ? '' : `${keys[Math.floor(keys.length * 0.95)]?.toFixed(0)} / ${keys.at(-1)?.toFixed(0)}`
    ]
  })
)
console.log(`memory of the process: ${filled.toFixed(0)} MiB when filled, ${after.toFixed(0)} MiB at the end`)
await browser.close()
await own.program.stop()
await other.program.stop()
await origin.terminate()
rmSync(folder, { recursive: true, force: true })
