import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { argument } from './argument.js'
import { cpuSeconds, residentMegabytes } from './process.js'
import { median, table } from './table.js'

/**
 * What a start costs until the process listens: time on the clock, CPU of all of its threads and resident memory, beside a Node that
 * does nothing. Each round starts everything once, one after the other.
 *
 * `npm run bench:start -- [--rounds N] [--beside PLACE,…]`; a PLACE is an executable, or the folder with `main.js` of another build.
 */
interface Start {
  readonly name: string
  /** Program and words. `fresh`: a folder that is not there yet; `used`: one that a start has used. */
  readonly words: (folders: { readonly fresh: string; readonly used: string }) => readonly string[]
  /** It ends by itself: only its time is measured. */
  readonly ends?: boolean
}

interface Cost {
  readonly time: number
  readonly cpu: number
  readonly memory: number
}

const rounds = Number(argument('rounds', '10'))
const beside = argument('beside', '').split(',').filter(Boolean)
const LISTENING = 'listening'
const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-start-'))

function starts(name: string, program: readonly string[]): readonly Start[] {
  const listen = ['--upstream', 'http://127.0.0.1:9', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
  const words = [...program, 'start', ...listen]
  return [
    { name: `${name}, --version`, words: () => [...program, '--version'], ends: true },
    { name: `${name}, a fresh data folder`, words: ({ fresh }) => [...words, '--data', fresh] },
    { name: `${name}, one that was used`, words: ({ used }) => [...words, '--data', used] },
    { name: `${name}, in memory`, words: () => [...words, '--data', ':memory:'] }
  ]
}

const peers: readonly Start[] = [
  {
    name: 'node',
    words: () => [process.execPath, '-e', `console.log('${LISTENING}'); setInterval(() => undefined, 1000)`]
  },
  ...starts('sluice', [process.execPath, fileURLToPath(new URL('../src/main.js', import.meta.url))]),
  ...beside.flatMap((place) => {
    const path = resolve(place)
    return starts(place, statSync(path).isFile() ? [path] : [process.execPath, join(path, 'main.js')])
  })
]

async function cost([program = '', ...words]: readonly string[], ends: boolean): Promise<Cost> {
  const begun = performance.now()
  const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  const listening = new Promise<void>((done, fail) => {
    child.stdout.on('data', (piece) => {
      said += piece
      if (said.includes(LISTENING)) done()
    })
    child.stderr.on('data', (piece) => {
      said += piece
    })
    child.once('exit', (code) => {
      if (ends && code === 0) done()
      else fail(new Error(`a start ended with ${code}:\n${said}`))
    })
  })
  await listening
  const time = performance.now() - begun
  if (ends) return { time, cpu: Number.NaN, memory: Number.NaN }
  const pid = child.pid as number
  const measured = { time, cpu: cpuSeconds(pid) * 1000, memory: residentMegabytes(pid) }
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
  return measured
}

const costs = new Map<string, Cost[]>(peers.map(({ name }) => [name, []]))
try {
  // The first start of each makes what later ones find, and warms the cache of files.
  for (let round = 0; round <= rounds; round++) {
    for (const [place, { name, words, ends = false }] of peers.entries()) {
      const folders = { fresh: join(folder, `${round}-${place}`), used: join(folder, `used-${place}`) }
      const measured = await cost(words(folders), ends)
      if (round > 0) costs.get(name)?.push(measured)
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
const figure = (of: readonly Cost[], read: (cost: Cost) => number) => {
  const value = median(of.map(read))
  return Number.isNaN(value) ? '' : value.toFixed(0)
}
console.log(`medians of ${rounds} rounds`)
table(
  ['', 'ms until it listens or ends', 'CPU ms', 'RSS MB'],
  [...costs].map(([name, of]) => [
    name,
    figure(of, ({ time }) => time),
    figure(of, ({ cpu }) => cpu),
    figure(of, ({ memory }) => memory)
  ])
)
