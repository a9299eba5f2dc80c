import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { buildSync } from 'esbuild'
import type { Test } from 'tap'
import { ReplicaPool } from '../../../src/capabilities/workers/replicas/pool.js'
import { Snapshot } from '../../../src/runtime/snapshot.js'
import { type Account, open } from '../../control/account.js'
import { Lines } from '../../store/opened.js'
import type { Look, Order } from './replica-worker.js'

/** The thread in one piece: hundreds of modules take each of the many threads of these tests a second. */
const PROGRAM = buildSync({
  entryPoints: [fileURLToPath(new URL('./replica-worker.js', import.meta.url))],
  bundle: true,
  write: false,
  platform: 'node',
  format: 'cjs',
  define: { 'import.meta.url': JSON.stringify(import.meta.url) },
  external: ['libsql', '@ip-location-db/*'],
  keepNames: true,
  logLevel: 'warning'
}).outputFiles[0]?.text as string

/** Threads with a way to each of them that the pool does not know. */
class Threads {
  readonly #ports = new Map<Worker, MessagePort>()

  readonly start = (): Worker => {
    const { port1, port2 } = new MessageChannel()
    const worker = new Worker(PROGRAM, {
      eval: true,
      workerData: { port: port2 },
      transferList: [port2],
      resourceLimits: { maxOldGenerationSizeMb: 96 },
      stderr: true
    })
    this.#ports.set(worker, port1)
    worker.once('exit', () => {
      this.#ports.delete(worker)
      port1.close()
    })
    return worker
  }

  get ports(): MessagePort[] {
    return [...this.#ports.values()]
  }

  at(index: number): MessagePort {
    return this.ports[index] as MessagePort
  }

  /** Resolves once the thread is gone. */
  async end(index: number, what: Extract<Order['what'], 'throws' | 'exits' | 'takes all memory'>): Promise<void> {
    const [worker, port] = [...this.#ports][index] as [Worker, MessagePort]
    // An error may come just before it, which `once` would reject with.
    const gone = new Promise((resolve) => worker.once('exit', resolve))
    port.postMessage({ what })
    await gone
  }

  async looks(): Promise<Look[]> {
    return await Promise.all(this.ports.map((port) => ask<Look>(port, { what: 'look' })))
  }
}

export async function ask<T>(port: MessagePort, order: Order): Promise<T> {
  const answer = once(port, 'message')
  port.postMessage(order)
  const [message] = await answer
  return message as T
}

interface Setup {
  readonly account: Account
  readonly pool: ReplicaPool
  readonly threads: Threads
  readonly log: Lines
}

export async function setup(
  t: Test,
  patience?: { readonly prepare: number; readonly silence: number }
): Promise<Setup> {
  const threads = new Threads()
  const log = new Lines()
  const pool = new ReplicaPool({
    start: threads.start,
    size: 2,
    running: Snapshot.empty(),
    log,
    // A busy machine is no silent thread.
    patience: patience ?? { prepare: 30_000, silence: 60_000 }
  })
  t.teardown(() => pool.stop())
  await pool.whole()
  return { account: await open(t, { replicas: pool }), pool, threads, log }
}

/** Every thread serves exactly what the thread that writes does. */
export async function same(t: Test, { account, threads }: Setup): Promise<void> {
  const { plan, revision, tables } = account.holder.current()
  const looks = await threads.looks()
  t.equal(looks.length, 2)
  for (const look of looks) {
    t.equal(look.number, plan.number)
    t.equal(look.revision, revision)
    t.same(look.units, new Map(plan.units))
    t.same(new Set(look.compiled), new Set([...tables.policies].map(([key]) => key)))
  }
}
