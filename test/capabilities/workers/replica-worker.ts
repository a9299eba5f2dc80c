import { setTimeout as sleep } from 'node:timers/promises'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { offline, policyServices } from '../../../src/app/services.js'
import { Replica } from '../../../src/capabilities/workers/replicas/replica.js'
import { actions } from '../../../src/features/registry.js'
import { Slices } from '../../../src/lib/slices.js'
import { PersistentState } from '../../../src/runtime/persistent-state.js'
import { noPorts, type Ports } from '../../../src/runtime/ports.js'
import { Snapshot, SnapshotHolder } from '../../../src/runtime/snapshot.js'

/** What a test asks of the thread beside the plan. */
export type Order =
  | { readonly what: 'look' }
  /** No port can be bound from now on, or it can again. */
  | { readonly what: 'ports'; readonly taken: boolean }
  /** So many milliseconds pass between two steps of a change. */
  | { readonly what: 'rests'; readonly milliseconds: number }
  /** It ends in the midst of the next preparation. */
  | { readonly what: 'dies at a preparation' }
  | { readonly what: 'throws' | 'exits' | 'takes all memory' | 'hangs' }

/** What serves in the thread. */
export interface Look {
  readonly number: number
  readonly revision: number
  readonly units: ReadonlyMap<string, unknown>
  readonly compiled: readonly string[]
  readonly secret: string | undefined
}

/** A thread that serves the plan to nobody but the test. */
const { port } = workerData as { readonly port: MessagePort }
const holder = new SnapshotHolder(Snapshot.empty())
let taken = false
let dies = false
let rest = 0

const ports: Ports = {
  missing: [],
  async bind(running, next) {
    if (dies) process.exit(3)
    const bound = await noPorts.bind(running, next)
    return taken ? { ...bound, failed: [{ unit: 'listener:x', host: '', port: 1, reason: 'EADDRINUSE' }] } : bound
  }
}

const replica = new Replica(
  {
    holder,
    compile: {
      services: policyServices(offline(actions)),
      actions,
      persistentState: new PersistentState()
    },
    ports,
    slices: () => (rest === 0 ? new Slices() : new Slices({ hold: 0, turn: () => sleep(rest) })),
    swapped: () => undefined,
    settling: function* () {}
  },
  (message) => parentPort?.postMessage(message)
)
parentPort?.on('message', (message) => void replica.receive(message))

port.on('message', (order: Order) => {
  switch (order.what) {
    case 'look':
      return port.postMessage(look())
    case 'ports':
      taken = order.taken
      break
    case 'rests':
      rest = order.milliseconds
      break
    case 'dies at a preparation':
      dies = true
      break
    case 'throws':
      setImmediate(() => {
        throw new Error('thrown for a test')
      })
      break
    case 'exits':
      process.exit(0)
      break
    case 'takes all memory':
      for (const kept: unknown[] = []; ; ) kept.push(new Array(100_000).fill(kept.length))
    case 'hangs':
      port.postMessage('done')
      for (;;);
  }
  port.postMessage('done')
})

function look(): Look {
  const snapshot = holder.current()
  const { plan, revision, tables } = snapshot
  return {
    number: plan.number,
    revision,
    units: new Map(plan.units),
    compiled: [...tables.policies].map(([key]) => key),
    secret: snapshot.secret('words', 'first')
  }
}
