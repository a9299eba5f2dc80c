import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test as TapTest } from 'tap'
import { systemClock } from '../../src/lib/clock.js'
import { openStore } from '../../src/store/open-store.js'
import type { Store } from '../../src/store/store.js'
import { Lines, type Test } from './opened.js'

export interface WritingProcess {
  readonly pid: number
  /** Lets it write, kills it after this many acknowledged writes, and resolves with how many it had acknowledged. */
  killAfter(writes: number): Promise<number>
  /** Writes that it has acknowledged so far. */
  acknowledged(): number
}

/** Another process that opens a store and, once it is told to, writes without end. */
export async function startWriter(t: Test, address: string): Promise<WritingProcess> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), address], {
    stdio: ['pipe', 'pipe', 'inherit']
  })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const lines = createInterface({ input: child.stdout })
  let acknowledged = 0
  const opened = once(lines, 'line')
  await Promise.race([opened, exited.then(() => Promise.reject(new Error('the writing process ended early')))])
  const killAfter = async (writes: number) => {
    lines.on('line', () => {
      if (++acknowledged === writes) child.kill('SIGKILL')
    })
    const ended = once(lines, 'close')
    child.stdin.write('go\n')
    await Promise.all([exited, ended])
    return acknowledged
  }
  return { pid: child.pid as number, killAfter, acknowledged: () => acknowledged }
}

/** Every acknowledged write is there, at most one more is, and none is half there. */
export async function allWhole(t: TapTest, store: Store, acknowledged: number): Promise<void> {
  const revision = await store.revision()
  t.ok(revision === acknowledged || revision === acknowledged + 1, `${acknowledged} acknowledged, ${revision} there`)
  const records = await store.wholeRecords({ after: undefined, limit: revision + 1 })
  t.equal(records.length, revision, 'each revision has its record')
  t.equal((await store.changesAfter(0)).changes.length, revision, 'and its change')
  t.same(
    records.filter(({ kind, claims }) => kind !== 'edge' || claims.length !== 1),
    [],
    'and its claim'
  )
}

async function write(address: string): Promise<void> {
  const store = await openStore(address, { log: new Lines(), clock: systemClock, onRevision: () => undefined })
  process.stdout.write('open\n')
  await once(process.stdin, 'data')
  for (let count = 0; ; count++) {
    const keeper = { kind: 'edge', id: `${process.pid}-${count}` }
    await store.transact(`op_${keeper.id}`, async (transaction) => {
      await transaction.insert({ ...keeper, body: { count } })
      await transaction.claim(keeper, 'host', keeper.id)
    })
    process.stdout.write(`${count}\n`)
  }
}

const [, program, address] = process.argv
if (program === fileURLToPath(import.meta.url) && address !== undefined) await write(address)
