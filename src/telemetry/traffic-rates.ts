import { hostPatterns } from '../lib/host.js'

/** Result of one exchange or of one connection to a TCP edge. */
export type RateOutcome = 'served' | 'client-error' | 'refused' | 'failed'

/** Counts of a span of time. */
export interface Tally {
  readonly requests: number
  /** Responses with status 500 and above, and exchanges without a response. */
  readonly failed: number
  /** Refused by Sluice: statuses 400 to 499 without an upstream response, and closed connections. */
  readonly refused: number
  /** Statuses 400 to 499, including those from upstreams. */
  readonly clientErrors: number
}

/** Selects traffic. */
export interface RateScope {
  /** Selects all traffic; the other members are ignored. */
  readonly all: boolean
  /** Route ids. */
  readonly routes: ReadonlySet<string>
  /** Edge ids, including TCP edges. */
  readonly edges: ReadonlySet<string>
  /** Hosts, with `*.` for a suffix, of edges that may have been removed. */
  readonly hosts: ReadonlySet<string>
}

/** Counts by second since the start of a watch and of a revision. */
export interface RateWatch {
  /** Returns one entry for each second with traffic among the last `LONGEST`, oldest first. */
  seconds(): readonly Tally[]
  /** Returns the sum since the start. */
  total(): Tally
  end(): void
}

/** Data for counting one exchange. */
export interface RateRecord {
  readonly route: string | undefined
  /** The id of the edge; undefined if none has the host. */
  readonly edge: string | undefined
  /** Routes of internal endpoints that the exchange was forwarded through. */
  readonly inner: readonly string[] | undefined
  /** Host as sent by the client. */
  readonly host: string | undefined
  /** True for a request from a policy instead of a client. */
  readonly inside: boolean
  readonly revision: number
  readonly outcome: RateOutcome
  /** Monotonic milliseconds. */
  readonly at: number
}

/** Range of revisions, without the upper end. */
interface Revisions {
  readonly from: number
  readonly to: number
}

/** Maximum number of revisions with a known start; five minutes hold more only if single blocks have many. */
const MOST_BEGUN = 1_000
/** Maximum number of reverted writes whose last requests may still finish. */
const MOST_SPOILT = 8

/** Seconds in one block. */
export const BLOCK = 5
/** Number of blocks kept: five minutes. */
const BLOCKS = 60
/** Seconds that a watch keeps individually. */
const LONGEST = 60
/** Maximum number of routes and edges with separate counts of one kilobyte each. */
const MOST = 10_000

const FIELDS = 4
const PLACES: Readonly<Record<RateOutcome, readonly number[]>> = {
  served: [0],
  failed: [0, 1],
  refused: [0, 2, 3],
  'client-error': [0, 3]
}
const NOTHING: Tally = { requests: 0, failed: 0, refused: 0, clientErrors: 0 }

function tallyAt(counts: Uint32Array, at: number): Tally {
  const [requests = 0, failed = 0, refused = 0, clientErrors = 0] = counts.subarray(at, at + FIELDS)
  return { requests, failed, refused, clientErrors }
}

/** Returns the sum of tallies. */
export function sumOf(tallies: Iterable<Tally>): Tally {
  let { requests, failed, refused, clientErrors } = NOTHING
  for (const one of tallies) {
    requests += one.requests
    failed += one.failed
    refused += one.refused
    clientErrors += one.clientErrors
  }
  return { requests, failed, refused, clientErrors }
}

/** Ring of counts in steps of equal length; a new step replaces the oldest. */
class Ring {
  readonly #steps: Float64Array
  readonly #counts: Uint32Array
  last = -1

  constructor(length: number) {
    this.#steps = new Float64Array(length).fill(-1)
    this.#counts = new Uint32Array(length * FIELDS)
  }

  add(step: number, places: readonly number[], times: number): void {
    const slot = step % this.#steps.length
    const at = slot * FIELDS
    if (this.#steps[slot] !== step) {
      // The step of an old exchange may have been replaced.
      if ((this.#steps[slot] as number) > step) return
      this.#steps[slot] = step
      this.#counts.fill(0, at, at + FIELDS)
      if (step > this.last) this.last = step
    }
    for (const place of places) this.#counts[at + place] = (this.#counts[at + place] as number) + times
  }

  at(step: number): Tally | undefined {
    const slot = step % this.#steps.length
    return this.#steps[slot] === step ? tallyAt(this.#counts, slot * FIELDS) : undefined
  }

  /** Drops the steps from `first` on. */
  forget(first: number): void {
    for (const [slot, step] of this.#steps.entries()) if (step >= first) this.#steps[slot] = -1
  }
}

/** Counts of the traffic that a write affects, from its revision on. */
class Watch implements RateWatch {
  readonly scope: RateScope
  readonly revision: number
  readonly #begun: number
  readonly #ring = new Ring(LONGEST)
  readonly #total = new Float64Array(FIELDS)
  readonly #ended: (watch: Watch) => void

  constructor(scope: RateScope, revision: number, begun: number, ended: (watch: Watch) => void) {
    this.scope = scope
    this.revision = revision
    this.#begun = begun
    this.#ended = ended
  }

  add(at: number, places: readonly number[], times: number): void {
    this.#ring.add(Math.max(0, Math.floor((at - this.#begun) / 1_000)), places, times)
    for (const place of places) this.#total[place] = (this.#total[place] as number) + times
  }

  seconds(): readonly Tally[] {
    const { last } = this.#ring
    const first = Math.max(0, last - LONGEST + 1)
    return Array.from({ length: last - first + 1 }, (_, i) => this.#ring.at(first + i)).filter(
      (tally) => tally !== undefined
    )
  }

  total(): Tally {
    const [requests = 0, failed = 0, refused = 0, clientErrors = 0] = this.#total
    return { requests, failed, refused, clientErrors }
  }

  end(): void {
    this.#ended(this)
  }
}

/**
 * Numbers of failed and refused requests of the last minutes, by route and edge, in a ring that requests increment. A watch counts by
 * second for one revision and later ones.
 */
export class TrafficRates {
  /** Totals of all client exchanges since the start, by outcome index: requests, failed, refused, client errors. */
  readonly totals = new Float64Array(FIELDS)
  readonly #routes = new Map<string, Ring>()
  readonly #edges = new Map<string, Ring>()
  readonly #all = new Ring(BLOCKS)
  #watches: readonly Watch[] = []
  #spoilt: readonly Revisions[] = []
  /** First block of each recent revision. */
  #begun: readonly { readonly revision: number; readonly block: number }[] = []
  #newest = -1

  /** `times`: number of equal records. */
  count(record: RateRecord, times = 1): void {
    const places = PLACES[record.outcome]
    if (!record.inside) for (const place of places) this.totals[place] = (this.totals[place] as number) + times
    for (const watch of this.#watches) {
      if (record.revision >= watch.revision && concerns(watch.scope, record)) watch.add(record.at, places, times)
    }
    const { revision } = record
    if (this.#spoilt.some(({ from, to }) => revision >= from && revision < to)) return
    const { route, edge, inner, inside, at } = record
    const block = Math.floor(at / (BLOCK * 1_000))
    if (revision > this.#newest) {
      this.#newest = revision
      this.#begun = [...this.#begun, { revision, block }].slice(-MOST_BEGUN)
    }
    if (route !== undefined) this.#ringOf(this.#routes, route, block)?.add(block, places, times)
    if (edge !== undefined) this.#ringOf(this.#edges, edge, block)?.add(block, places, times)
    if (edge !== undefined && !inside) this.#all.add(block, places, times)
    if (inner !== undefined) for (const id of inner) this.#ringOf(this.#routes, id, block)?.add(block, places, times)
  }

  /**
   * Returns the counts of a scope before `now`, by blocks of `BLOCK` seconds with traffic, oldest first; only blocks before the first one
   * of `revision`, if it has begun.
   */
  before(scope: RateScope, now: number, revision: number): readonly Tally[] {
    const rings = scope.all
      ? [this.#all]
      : [...ringsOf(this.#routes, scope.routes), ...ringsOf(this.#edges, scope.edges)]
    const begun = this.#begun.find((one) => one.revision >= revision)
    const last = Math.min(Math.floor(now / (BLOCK * 1_000)), (begun?.block ?? Number.POSITIVE_INFINITY) - 1)
    const blocks = Array.from({ length: BLOCKS }, (_, i) =>
      sumOf(rings.flatMap((ring) => ring.at(last - BLOCKS + 1 + i) ?? []))
    )
    return blocks.filter(({ requests }) => requests > 0)
  }

  /** Returns the counts of a route or edge in the last minute before `now`, to the precision of a block. */
  lastMinute(kind: 'route' | 'edge', id: string, now: number): Tally {
    const ring = (kind === 'route' ? this.#routes : this.#edges).get(id)
    const last = Math.floor(now / (BLOCK * 1_000))
    return sumOf(Array.from({ length: 60 / BLOCK }, (_, i) => ring?.at(last - i) ?? NOTHING))
  }

  /** Starts counting the traffic of a scope under `revision` and later ones. */
  watch(scope: RateScope, revision: number, now: number): RateWatch {
    const watch = new Watch(scope, revision, now, (ended) => {
      this.#watches = this.#watches.filter((one) => one !== ended)
    })
    this.#watches = [...this.#watches, watch]
    return watch
  }

  /**
   * Drops the counts of a scope since `from` and ignores what these revisions still serve, so that later writes are not compared with it.
   */
  forget(scope: RateScope, from: number, revisions: Revisions): void {
    this.#spoilt = [...this.#spoilt, revisions].slice(-MOST_SPOILT)
    const first = Math.floor(from / (BLOCK * 1_000))
    for (const ring of ringsOf(this.#routes, scope.routes)) ring.forget(first)
    for (const ring of ringsOf(this.#edges, scope.edges)) ring.forget(first)
    this.#all.forget(first)
  }

  #ringOf(rings: Map<string, Ring>, id: string, block: number): Ring | undefined {
    const known = rings.get(id)
    if (known !== undefined) return known
    if (rings.size >= MOST) {
      for (const [key, { last }] of rings) if (last < block - BLOCKS) rings.delete(key)
      if (rings.size >= MOST) return undefined
    }
    const ring = new Ring(BLOCKS)
    rings.set(id, ring)
    return ring
  }
}

function ringsOf(rings: ReadonlyMap<string, Ring>, ids: ReadonlySet<string>): Ring[] {
  return [...ids].flatMap((id) => rings.get(id) ?? [])
}

function concerns({ all, routes, edges, hosts }: RateScope, record: RateRecord): boolean {
  const { route, edge, inner, host, inside } = record
  if (all) return edge !== undefined && !inside
  if (route !== undefined && routes.has(route)) return true
  if (edge !== undefined && edges.has(edge)) return true
  if (inner?.some((id) => routes.has(id)) === true) return true
  return host !== undefined && hosts.size > 0 && hostPatterns(host).some((one) => hosts.has(one))
}
