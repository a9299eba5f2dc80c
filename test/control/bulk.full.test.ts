import t from 'tap'
import { Slices } from '../../src/lib/slices.js'
import type { Unit } from '../../src/runtime/plan.js'
import type { Store, StoreTransaction } from '../../src/store/store.js'
import { imported, refused } from '../capabilities/transfer/transfers.js'
import { startPostgres, through } from '../store/postgres-server.js'
import { type Account, DENY, open, resource } from './account.js'

const EDGES = 300
/** More than a transaction follows. */
const RECORDS = 2 * EDGES

const server = await startPostgres(t)

const id = (prefix: string, n: number) => `${prefix}_${String(n).padStart(27, '0')}`
const entryOf = (n: number, host: string) => ({ id: id('edghts', n), fields: { hostports: [`${host}:443`] } })

/** Edges with a route each; every tenth route has a policy. `shift` moves every host to the next edge. */
function account({ shift = 0, edges = EDGES } = {}) {
  const numbers = Array.from({ length: edges }, (_, n) => n)
  const policy = (n: number) => (n % 10 === 0 ? { traffic_policy: { value: DENY } } : {})
  return {
    format: 'sluice-account/1',
    users: [],
    records: {
      https_edge: numbers.map((n) => entryOf(n, `host-${(n + shift) % edges}.test`)),
      https_edge_route: numbers.map((n) => ({
        id: id('edghtsrt', n),
        fields: { edge_id: id('edghts', n), match: '/', ...policy(n + shift) }
      }))
    }
  }
}

const planOf = ({ holder }: Account) => [...holder.current().plan.units].sort(byKey)
const byKey = ([a]: readonly [string, Unit], [b]: readonly [string, Unit]) => (a < b ? -1 : 1)
/** Edge of each host and the policies of its route, as requests find them. */
const servedBy = ({ holder }: Account) =>
  Array.from({ length: EDGES }, (_, n) => {
    const route = holder.current().route(`host-${n}.test`, '/')
    return [route?.edge, route?.modules?.length ?? 0]
  })

/** An account whose loop is watched: each look at its clock takes a millisecond. */
async function watched(t: Parameters<typeof open>[0], at: string) {
  let now = 0
  const seen = { turns: 0, snapshots: new Set<object>() }
  const looks = new Set<() => void>()
  const one: Account = await open(t, {
    at,
    slices: () =>
      new Slices({
        now: () => now++,
        turn: async () => {
          seen.turns++
          seen.snapshots.add(one.holder.current())
          await new Promise((resolve) => setImmediate(resolve))
        }
      }),
    served: () => {
      for (const look of looks) look()
    }
  })
  const serves = (revision: number) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (one.control.configuration.revision < revision) return
        looks.delete(look)
        resolve()
      }
      looks.add(look)
      look()
    })
  return { one, seen, serves }
}

t.test('a large revision is applied in slices, whole at once, and equals a fresh start', async (t) => {
  const at = await server.database()
  const { one, seen, serves } = await watched(t, at)
  for (const step of [account(), account({ shift: 1 }), account({ edges: EDGES / 2 })]) {
    seen.turns = 0
    seen.snapshots.clear()
    const before = one.holder.current()
    const writer = await open(t, { at })
    await imported(writer.store, step, { prune: true })
    const revision = await writer.store.revision()
    await serves(revision)
    const units = RECORDS / 2
    t.ok(seen.turns >= units, `${seen.turns} turns of the loop while at least ${units} units changed`)
    t.same(
      [...seen.snapshots].filter((snapshot) => snapshot !== before && snapshot !== one.holder.current()),
      []
    )
    const fresh = await open(t, { at })
    t.same(planOf(one), planOf(fresh))
    t.same(servedBy(one), servedBy(fresh))
    t.equal(one.control.configuration.lastError, null)
  }
})

t.test('a write that finds itself far behind follows first, outside of its transaction', async (t) => {
  const at = await server.database()
  const writer = await open(t, { at })
  const { one } = await watched(t, at)
  const [, policy] = await Promise.all([
    imported(writer.store, account()),
    // Waits for the import, which holds the turn to write, and then starts from what it made.
    writer.store.revision().then(() => one.create('ip_policy', { description: 'after' }))
  ])
  t.equal((await one.get('ip_policy', { id: policy.id })).description, 'after')
  await t.rejects(one.create('https_edge', { hostports: ['host-7.test:443'] }), { code: 'ALREADY_EXISTS' })
  t.same(servedBy(one), servedBy(await open(t, { at })))
})

t.test('a write that waits for another process in vain says so', async (t) => {
  const at = await server.database()
  const importing = await open(t, { at })
  const waiting = await open(t, { at: `${through(at, server.port)}?lock_timeout=150` })
  await importing.store.transact('op_held', async (tx) => {
    tx.abandon()
    await t.rejects(waiting.create('ip_policy', { description: 'x' }), {
      code: 'BUSY',
      message: /another process is writing, such as an import; nothing was changed/
    })
  })
  t.ok(await waiting.create('ip_policy', { description: 'x' }), 'and works afterwards')
})

t.test('an import says of every claim that is taken who has it', async (t) => {
  const { store } = await open(t)
  await imported(store, account())
  const entries = [entryOf(EDGES, 'host-7.test'), entryOf(EDGES + 1, 'new.test'), entryOf(EDGES + 2, 'new.test')]
  const problems = await refused(imported(store, { ...account(), records: { https_edge: entries } }))
  const message = (n: number) => `hostports is taken by https_edge ${id('edghts', n)}`
  t.same(
    problems.map(({ path, code, message }) => [path[2], code, message]),
    [
      [0, 'ALREADY_EXISTS', message(7)],
      [2, 'ALREADY_EXISTS', message(EDGES + 1)]
    ]
  )
})

/** How often a store is asked while `run` runs, inside and outside of transactions. */
async function questions(t: Parameters<typeof open>[0], run: (one: Account, asked: () => number) => Promise<number[]>) {
  let asked = 0
  const counting = <T extends object>(target: T): T =>
    new Proxy(target, {
      get(_, name) {
        const value = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        return (...words: unknown[]) => {
          asked++
          return value.apply(target, words)
        }
      }
    })
  const wrap = (store: Store): Store =>
    new Proxy(counting(store), {
      get: (target, name) =>
        name === 'transact'
          ? (operation: string, work: (tx: StoreTransaction) => Promise<unknown>) =>
              store.transact(operation, (tx) => work(counting(tx)))
          : Reflect.get(target, name)
    })
  return await run(await open(t, { wrap }), () => asked)
}

t.test('a page asks as often as one record, whatever stands below its records', async (t) => {
  const counts = await questions(t, async (one, asked) => {
    await imported(one.store, account({ edges: 40 }))
    const counts: number[] = []
    for (const limit of [1, 40]) {
      const before = asked()
      const page = await one.control.records.list(
        resource('https_edge'),
        { path: {}, limit, beforeId: undefined },
        one.call()
      )
      counts.push(asked() - before)
      const { https_edges } = page as { https_edges: { routes: { id: string }[] }[] }
      t.equal(https_edges.length, limit)
      t.ok(https_edges.every(({ routes }) => routes.length === 1))
      t.equal(new Set(https_edges.map(({ routes }) => routes[0]?.id)).size, limit, 'each edge with its own route')
    }
    return counts
  })
  t.equal(counts[0], counts[1])
})

t.test('an import that changes or deletes asks as often for many records as for few', async (t) => {
  const counts = await questions(t, async (one, asked) => {
    const counts: number[] = []
    for (const edges of [10, 60]) {
      await imported(one.store, account({ edges }), { prune: true })
      const before = asked()
      const changed = await imported(one.store, account({ edges, shift: 1 }), { prune: true })
      t.equal(changed.records.filter(({ change }) => change === 'updated').length > edges, true)
      const middle = asked()
      const gone = await imported(one.store, { format: 'sluice-account/1' }, { prune: true })
      t.equal(gone.records.filter(({ change }) => change === 'deleted').length, 2 * edges)
      counts.push(middle - before, asked() - middle)
    }
    return counts
  })
  // The store is looked after by time too, which may fall into one of them.
  const [change = 0, removal = 0, changeOfMany = 0, removalOfMany = 0] = counts
  t.ok(Math.abs(changeOfMany - change) <= 3, `${change} and ${changeOfMany}`)
  t.ok(Math.abs(removalOfMany - removal) <= 3, `${removal} and ${removalOfMany}`)
})
