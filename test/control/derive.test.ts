import t from 'tap'
import { everyRecord, Records } from '../../src/control/records.js'
import { addUnits, type DerivedUnits, deriving, PLANNED_KINDS, type Touched } from '../../src/control/units.js'
import { newSealKey, parseSealKey, Sealer } from '../../src/lib/seal.js'
import { ShardedMap } from '../../src/lib/sharded-map.js'
import { atOnce } from '../../src/lib/slices.js'
import type { PlannedRecord } from '../../src/resources/units.js'
import type { EdgeUnit, RouteUnit, Unit } from '../../src/runtime/plan.js'
import type { Snapshot } from '../../src/runtime/snapshot.js'
import type { ResourceRecord } from '../../src/schema/field.js'
import { random as seeded } from '../features/rate-limit/limiter/support/random.js'
import { type Account, DENY, open } from './account.js'

const HOSTS = ['a.test', 'b.test', '*.b.test', '[2001:db8::1]']
const PORTS = [80, 443, 8443]

/** The units of all records: each has units of its own, so the whole is nothing but the sum. */
function unitsOf(records: readonly PlannedRecord[]) {
  const whole: DerivedUnits = { units: new Map(), secrets: new Map() }
  for (const one of records) addUnits(whole, one)
  return whole.units
}

/** Records that a history of writes leaves, and the plan that follows it write by write. */
class Model {
  readonly records = new Map<string, ResourceRecord>()
  units = ShardedMap.empty<Unit>()
  #ids = 0

  write(touched: Touched[]): void {
    const { put, drop } = atOnce(deriving(this.units, touched))
    this.units = this.units.with(put, drop)
    for (const { id, after } of touched) {
      if (after === undefined) this.records.delete(id)
      else this.records.set(id, after.record)
    }
  }

  of(kind: string): ResourceRecord[] {
    return [...this.records.values()].filter((record) => record.kind === kind)
  }

  put(kind: string, body: Record<string, unknown>, id = `${kind}_${++this.#ids}`): Touched {
    return { kind, id, after: planned({ kind, id, createdAt: '', body, secrets: {} }) }
  }

  gone({ kind, id }: ResourceRecord): Touched {
    return { kind, id, after: undefined }
  }

  /** What deletes an edge: its routes go in the same write. */
  withoutEdge(edge: ResourceRecord): Touched[] {
    return [edge, ...this.of('https_edge_route').filter(({ body }) => body.edge_id === edge.id)].map(this.gone)
  }
}

const planned = (record: ResourceRecord): PlannedRecord => ({ record, revision: 1 })

const sorted = (units: Iterable<readonly [string, Unit]>) => [...units].sort(([a], [b]) => (a < b ? -1 : 1))

t.test('changes applied one by one give what all records give at once', async (t) => {
  const random = seeded(20_240_711)
  const pick = <T>(list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)]
  const model = new Model()
  const taken = (hostport: string) =>
    model.of('https_edge').some(({ body }) => (body.hostports as string[]).includes(hostport))
  const hostports = () =>
    HOSTS.flatMap((host) => PORTS.map((port) => `${host}:${port}`)).filter((one) => random() < 0.2 && !taken(one))
  const route = (edge_id: string) => ({
    edge_id,
    match: `/${Math.floor(random() * 1000)}`,
    match_type: random() < 0.5 ? 'exact_path' : 'path_prefix',
    backend: random() < 0.5 ? null : { enabled: random() < 0.8, backend: pick(['bkdsc_1', 'bkdtg_1']) },
    traffic_policy: random() < 0.4 ? null : { enabled: random() < 0.8, value: `p${random()}` }
  })
  let steps = 0
  const writes: (() => Touched[])[] = [
    () => [model.put('https_edge', { hostports: hostports() })],
    () =>
      model
        .of('https_edge')
        .flatMap((edge) => (random() < 0.3 ? [model.put(edge.kind, { hostports: hostports() }, edge.id)] : []))
        .slice(0, 1),
    () =>
      pick(model.of('https_edge')) === undefined
        ? []
        : [model.put('https_edge_route', route(pick(model.of('https_edge'))?.id as string))],
    () =>
      model
        .of('https_edge_route')
        .slice(0, 2)
        .map(({ kind, id, body }) => model.put(kind, route(body.edge_id as string), id)),
    () =>
      model
        .of('https_edge_route')
        .filter(() => random() < 0.2)
        .map(model.gone),
    () =>
      [pick(model.of('https_edge'))].flatMap((edge) =>
        edge !== undefined && random() < 0.4 ? model.withoutEdge(edge) : []
      ),
    () => [model.put('static_backend', { address: `127.0.0.1:${Math.ceil(random() * 9)}`, tls: null })],
    () =>
      model
        .of('static_backend')
        .filter(() => random() < 0.2)
        .map(model.gone),
    // An edge and its routes in one write, the routes first: as another process's revisions come together.
    () => {
      const edge = model.put('https_edge', { hostports: hostports() })
      return [model.put('https_edge_route', route(edge.id)), model.put('https_edge_route', route(edge.id)), edge]
    }
  ]
  for (; steps < 600; steps++) {
    model.write(pick(writes)?.() ?? [])
    const expected = sorted(unitsOf([...model.records.values()].map(planned)))
    const actual = sorted(model.units)
    if (JSON.stringify(actual) !== JSON.stringify(expected)) {
      t.same(actual, expected, `after step ${steps}`)
      return
    }
  }
  t.ok(model.of('https_edge').length > 3 && model.of('https_edge_route').length > 10, 'the history came to something')
})

function routeOf(snapshot: Snapshot, { edge, path }: RouteUnit) {
  const { hosts } = snapshot.plan.units.get(`edge:${edge}`) as EdgeUnit
  const at = hosts === 'every' ? undefined : hosts[0]
  return at === undefined ? undefined : snapshot.route(at.host, path, at.port)
}

/** The oracle at run time: the units that run against those of everything in the store. */
async function mustEqualStore(account: Account): Promise<void> {
  const records = new Records(new Sealer(parseSealKey(newSealKey())))
  const all: PlannedRecord[] = []
  for (const kind of PLANNED_KINDS) {
    for await (const page of everyRecord(account.store, kind)) {
      for (const stored of page) all.push(records.open({ ...stored, sealed: null }))
    }
  }
  const running = sorted(account.holder.current().plan.units)
  const expected = sorted(unitsOf(all))
  if (JSON.stringify(running) !== JSON.stringify(expected)) throw new Error('the plan differs from the records')
}

t.test('what runs is what the store holds after every write, refused ones included', async (t) => {
  const account = await open(t)
  const random = seeded(7)
  const host = () => `${'abcdefgh'[Math.floor(random() * 8)]}.test:${PORTS[Math.floor(random() * 3)]}`
  const policy = () =>
    [null, { value: DENY }, { value: DENY, enabled: false }, { value: 'nonsense: 1' }][Math.floor(random() * 4)]
  const edges: string[] = []
  const routes: { id: string; edge_id: string }[] = []
  let refused = 0
  for (let step = 0; step < 120; step++) {
    const edge_id = edges[Math.floor(random() * edges.length)] ?? 'edghts_none'
    const route = routes[Math.floor(random() * routes.length)] ?? { id: 'edghtsrt_none', edge_id }
    const writes: (() => Promise<unknown>)[] = [
      async () => edges.push((await account.create('https_edge', { hostports: [host()] })).id),
      () => account.update('https_edge', { id: edge_id }, { hostports: [host()] }),
      () => account.remove('https_edge', { id: edge_id }),
      async () => {
        const match = `/${Math.floor(random() * 9)}`
        const made = await account.create('https_edge_route', { match, traffic_policy: policy() }, { edge_id })
        routes.push({ id: made.id, edge_id })
      },
      () =>
        account.update('https_edge_route', route, { traffic_policy: policy(), match: `/${Math.floor(random() * 9)}` }),
      () => account.remove('https_edge_route', route)
    ]
    const [index] = [Math.floor(random() * writes.length)]
    await writes[index]?.().catch((error: { name: string }) => {
      if (error.name !== 'ControlError') throw error
      refused++
    })
    await mustEqualStore(account)
  }
  t.ok(refused > 10, 'some writes were refused')
  t.ok(account.holder.current().plan.units.size > 3, 'some units run')
  const snapshot = account.holder.current()
  for (const [, unit] of snapshot.plan.units) {
    if (unit.kind === 'route') t.equal(routeOf(snapshot, unit)?.id, unit.id, `${unit.path} leads to its route`)
    if (unit.kind !== 'edge' || unit.hosts === 'every') continue
    for (const { host, port } of unit.hosts)
      t.equal(snapshot.edge(host, port)?.id, unit.id, `${host} leads to its edge`)
  }
})
