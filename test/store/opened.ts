import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '../../src/lib/clock.js'
import { KyselyStore } from '../../src/store/kysely-store.js'
import { openStore } from '../../src/store/open-store.js'
import type { Place, Store, StoreLog } from '../../src/store/store.js'
import type { Database } from '../../src/store/tables.js'
import { ManualClock } from '../helpers/clock.js'

export interface Test {
  teardown(run: () => Promise<unknown>): void
}

/** Every line that a store logged. */
export class Lines implements StoreLog {
  readonly texts: string[] = []

  info(fields: object, message: string): void {
    this.texts.push(`${message} ${JSON.stringify(fields)}`)
  }

  warn(fields: object, message: string): void {
    this.info(fields, message)
  }
}

export interface Opened {
  readonly store: Store
  readonly clock: ManualClock
  readonly log: Lines
  /** The revisions that the store reported, as they came. */
  readonly revisions: number[]
  /** Resolves once a revision of at least this number was reported. */
  heard(revision: number): Promise<void>
}

/** A store that closes with the test. */
export async function opened(t: Test, address: string, clock: Clock = new ManualClock()): Promise<Opened> {
  const log = new Lines()
  const revisions: number[] = []
  const waiting = new Set<() => void>()
  const onRevision = ({ revision }: Place) => {
    revisions.push(revision)
    for (const look of waiting) look()
  }
  const store = await openStore(address, { log, clock, onRevision })
  t.teardown(() => store.close())
  const heard = (revision: number) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (!revisions.some((known) => known >= revision)) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })
  return { store, clock: clock as ManualClock, log, revisions, heard }
}

/** A store over a database that somebody else closes. */
export function over(database: Database, clock: Clock = new ManualClock()): Opened {
  const nothing = () => Promise.resolve()
  const log = new Lines()
  const parts = { log, clock, onCommit: () => undefined, onClose: nothing }
  const store = new KyselyStore({ ...database, close: nothing }, parts)
  return { store, clock: clock as ManualClock, log, revisions: [], heard: nothing }
}

/** A folder that goes with the test. */
export async function folder(t: Test, below = tmpdir()): Promise<string> {
  const path = await mkdtemp(join(below, 'sluice-store-'))
  t.teardown(() => rm(path, { recursive: true, force: true }))
  return path
}

let operations = 0

/** A new operation id. */
export function operation(): string {
  return `op_${process.pid}_${++operations}`
}

/** One record, inserted in a transaction of its own. */
export async function put(store: Store, kind: string, id: string, body: unknown = {}): Promise<number> {
  const outcome = await store.transact(operation(), (transaction) =>
    transaction.insert({ kind, id, body: body as never })
  )
  return outcome.revision
}
