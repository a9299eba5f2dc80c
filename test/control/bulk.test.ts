import t from 'tap'
import { Slices } from '../../src/lib/slices.js'
import type { Unit } from '../../src/plan/plan.js'
import { startPostgres, through } from '../store/postgres-server.js'
import { type Account, DENY, open } from './account.js'
import { imported, refused } from './transfers.js'

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
        if (one.control.revision < revision) return
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
    t.equal(one.control.lastError, null)
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
