import t from 'tap'
import type { Unit } from '../../src/runtime/plan.js'
import { random as seeded, whole } from '../features/rate-limit/limiter/support/random.js'
import { startPostgres } from '../store/postgres-server.js'
import { type Account, DENY, open } from './account.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'
const RUNS = LONG ? 40 : 3
/** Of writes that are under way together, on both processes. */
const WAVES = 12
const seed = Number(process.env.TEST_SEED ?? 20_251_124)

const server = await startPostgres(t)

const sorted = (units: Iterable<readonly [string, Unit]>) => [...units].sort(([a], [b]) => (a < b ? -1 : 1))
const planOf = ({ holder }: Account) => sorted(holder.current().plan.units)

/** Writes of both processes meet in any order: on the same few hosts, edges and routes. */
class Writes {
  readonly #random: () => number
  readonly #edges: string[] = []
  readonly #routes: { readonly id: string; readonly edge_id: string }[] = []
  refused = 0
  accepted = 0

  constructor(random: () => number) {
    this.#random = random
  }

  /** Decides now and runs at once; what is refused (taken, gone meanwhile) is counted. */
  async one(account: Account): Promise<void> {
    const edge_id = this.#pick(this.#edges) ?? 'edghts_none'
    const route = this.#pick(this.#routes) ?? { id: 'edghtsrt_none', edge_id }
    const hostports = [`${this.#letter()}.test:${[80, 443, 8443][whole(this.#random, 0, 2)]}`]
    const match = `/${whole(this.#random, 0, 5)}`
    const traffic_policy = [null, { value: DENY }, { value: DENY, enabled: false }, { value: 'nonsense: 1' }][
      whole(this.#random, 0, 3)
    ]
    const writes: (() => Promise<unknown>)[] = [
      async () => this.#edges.push((await account.create('https_edge', { hostports })).id),
      () => account.update('https_edge', { id: edge_id }, { hostports }),
      () => account.remove('https_edge', { id: edge_id }),
      async () => {
        const made = await account.create('https_edge_route', { match, traffic_policy }, { edge_id })
        this.#routes.push({ id: made.id, edge_id })
      },
      () => account.update('https_edge_route', route, { traffic_policy, match }),
      () => account.update('https_edge_route', route, { traffic_policy }),
      () => account.remove('https_edge_route', route),
      () => account.create('static_backend', { address: `127.0.0.1:${whole(this.#random, 1, 9)}` })
    ]
    // Twice as many creations, so that the history comes to something.
    const index = [0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 7][whole(this.#random, 0, 10)] as number
    try {
      await (writes[index] as () => Promise<unknown>)()
      this.accepted++
    } catch (error) {
      if (!(error instanceof Error) || error.name !== 'ControlError') throw error
      this.refused++
    }
  }

  #pick<T>(list: readonly T[]): T | undefined {
    return list[whole(this.#random, 0, Math.max(0, list.length - 1))]
  }

  #letter(): string {
    return 'abcdef'[whole(this.#random, 0, 5)] as string
  }
}

/** Resolves with an account that can be awaited to serve a revision. */
async function following(t: Parameters<typeof open>[0], at: string) {
  const looks = new Set<() => void>()
  const served = () => {
    for (const look of looks) look()
  }
  const account = await open(t, { at, served })
  const serves = (revision: number) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (account.control.configuration.revision < revision) return
        looks.delete(look)
        resolve()
      }
      looks.add(look)
      look()
    })
  return { account, serves }
}

t.test(`writes of two processes on one database, in any order, end in equal plans (TEST_SEED=${seed})`, async (t) => {
  const random = seeded(seed)
  let accepted = 0
  let refused = 0
  for (let run = 0; run < RUNS; run++) {
    const at = await server.database()
    const first = await following(t, at)
    const second = await following(t, at)
    const writes = new Writes(seeded(whole(random, 0, 2 ** 31)))
    for (let wave = 0; wave < WAVES; wave++) {
      const together = Array.from({ length: whole(random, 1, 8) }, () =>
        writes.one(random() < 0.5 ? first.account : second.account)
      )
      await Promise.all(together)
    }
    const revision = await first.account.store.revision()
    await Promise.all([first.serves(revision), second.serves(revision)])
    // One that starts now derives everything at once.
    const third = await open(t, { at })
    const expected = planOf(third)
    t.same(planOf(first.account), expected, `run ${run}: the first process serves what the records say`)
    t.same(planOf(second.account), expected, `run ${run}: and so does the second`)
    t.equal(first.account.control.configuration.lastError, null)
    t.equal(second.account.control.configuration.lastError, null)
    accepted += writes.accepted
    refused += writes.refused
    await Promise.all([first.account, second.account, third].map(({ control }) => control.close()))
  }
  t.ok(accepted > RUNS * 10 && refused > RUNS, `${accepted} writes were accepted and ${refused} refused`)
})
