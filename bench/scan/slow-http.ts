import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { residentMegabytes } from '../process.js'
import { HonestClient } from './honest-client.js'

export interface Attack {
  readonly name: string
  /** Words for slowhttptest. */
  readonly words: readonly string[]
  readonly path: string
}

export interface Target {
  readonly engine: string
  readonly host: string
  readonly port: number
  readonly secure: boolean
  /** Of the product. */
  readonly pid: number
  readonly folder: string
}

const CONNECTIONS = 1_000
const SECONDS = 20
/** What an honest client may wait for in 99 of 100 cases, however busy the machine is. Milliseconds. */
const PATIENCE = 1_000
/** Bytes that a slow reader may hold on top of what the system's buffers take, per connection. */
const HELD = 200 * 1024

const common = ['-c', String(CONNECTIONS), '-r', '400', '-l', String(SECONDS), '-p', '2']

export const attacks: readonly Attack[] = [
  { name: 'slow headers', words: ['-H', ...common, '-i', '1', '-t', 'GET', '-x', '24'], path: '/' },
  { name: 'slow body', words: ['-B', ...common, '-i', '5', '-s', '8192', '-t', 'POST', '-x', '10'], path: '/' },
  {
    name: 'slow read',
    words: ['-X', ...common, '-n', '5', '-w', '512', '-y', '1024', '-z', '32', '-k', '1'],
    path: '/large'
  }
]

/** When all slow clients have come and their time is over, however busy the machine is. Milliseconds. */
const SETTLED = 12_000

/** One attack; prints what came of it and answers how much of it was wrong. */
export async function slowHttp(attack: Attack, { engine, host, port, secure, pid }: Target): Promise<number> {
  const scheme = secure ? 'https' : 'http'
  const at = `${attack.name} ${scheme} ${engine}`
  const quiet = new HonestClient(host, port, secure)
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  const before = await quiet.stop()
  const resident = residentMegabytes(pid)
  const honest = new HonestClient(host, port, secure)
  const url = `${scheme}://127.0.0.1:${port}${attack.path}`
  // What it costs itself is no part of the attack: a slow reader of it keeps a whole processor busy.
  const child = spawn('nice', ['-n', '19', 'slowhttptest', ...attack.words, '-u', url], { stdio: 'ignore' })
  const begun = performance.now()
  let [grown, atMost, left] = [0, 0, Number.POSITIVE_INFINITY]
  const watch = setInterval(() => {
    grown = Math.max(grown, residentMegabytes(pid) - resident)
    const open = established(port)
    atMost = Math.max(atMost, open)
    if (performance.now() - begun > SETTLED) left = Math.min(left, open)
  }, 250)
  await once(child, 'exit')
  clearInterval(watch)
  // It goes home when all its connections are gone.
  left = Math.min(left, established(port))
  const during = await honest.stop()
  console.log(
    `${at}: ${atMost} connections at most, ${left} in the end; honest client: ${during.asked} asked, ` +
      `${during.failed} failed, p99 ${during.p99.toFixed(0)} ms (before: ${before.p99.toFixed(0)} ms); ` +
      `memory +${grown.toFixed(0)} MiB`
  )
  let wrong = 0
  const must = (holds: boolean, what: string) => {
    if (holds) return
    wrong++
    console.log(`${at}: ${what}`)
  }
  must(during.failed === 0 && during.asked > 0, 'an honest client was not served')
  must(during.p99 < PATIENCE, 'an honest client waited too long')
  must(grown * 2 ** 20 < CONNECTIONS * HELD, 'slow clients make the memory grow')
  must(atMost > CONNECTIONS / 4, 'the attack was none')
  must(left < CONNECTIONS / 4, 'slow clients are not sent away')
  return wrong
}

/** Connections to a port of this machine that both sides hold open. */
function established(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')} `
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .filter((line) => line.slice(0, 20).includes(local) && line.slice(34, 36) === '01').length
}
