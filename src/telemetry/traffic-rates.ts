import { hostPatterns } from '../lib/host.js'

/** What one exchange, or one connection to a TCP edge, came to. */
export type RateOutcome = 'served' | 'client-error' | 'refused' | 'failed'

/** Counts of a span of time. */
export interface Tally {
  readonly requests: number
  /** Answers of 500 and above, and what had no answer. */
  readonly failed: number
  /** What Sluice refused itself: statuses from 400 to 499 that no upstream answered, and closed connections. */
  readonly refused: number
  /** Every status from 400 to 499, those of upstreams among them. */
  readonly clientErrors: number
}

/** Which traffic is meant. */
export interface RateScope {
  /** All of it; the rest is not looked at then. */
  readonly all: boolean
  /** Ids of routes. */
  readonly routes: ReadonlySet<string>
  /** Ids of edges, those of TCP among them. */
  readonly edges: ReadonlySet<string>
  /** Hosts, `*.` before a suffix, of edges that may be gone. */
  readonly hosts: ReadonlySet<string>
}

/** Counts by second since a watch began, and the revision from which on it counts. */
export interface RateWatch {
  /** One for each second with traffic among the last `LONGEST`, oldest first. */
  seconds(): readonly Tally[]
  /** Since it began. */
  total(): Tally
  end(): void
}

/** What the counting of one exchange needs. */
export interface RateRecord {
  readonly route: string | undefined
  /** undefined: no edge has the host. */
  readonly edge: string | undefined
  /** Routes of internal entries that it was led through. */
  readonly inner: readonly string[] | undefined
  /** As the client names it. */
  readonly host: string | undefined
  /** Does a policy ask, and no client? */
  readonly inside: boolean
  readonly revision: number
  readonly outcome: RateOutcome
  /** Monotonic milliseconds. */
  readonly at: number
}

/** Revisions from one up to another, which is not among them. */
interface Revisions {
  readonly from: number
  readonly to: number
}

/** Revisions of which it is known when they began: more of them come in five minutes only where blocks hold many. */
const MOST_BEGUN = 1_000
/** Reverted writes whose last requests may still end. */
const MOST_SPOILT = 8

/** Seconds of one block, and blocks that are kept: what happened before is known for five minutes. */
export const BLOCK = 5
const BLOCKS = 60
/** Seconds that a watch keeps one by one. */
const LONGEST = 60
/** Routes and edges that are counted on their own: each takes a kilobyte. */
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

/** Tallies taken together. */
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

/** Counts by steps of equal length; a step that comes around takes the place of the one before. */
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
      // What began long ago may end after its place has gone to another.
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

/** Counts of what one write touches, from its revision on. */
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
 * How many requests failed or were refused in the last minutes, by route and edge: numbers in a ring, which a request
 * changes by itself. A watch counts by seconds what one revision and those after it serve.
 */
export class TrafficRates {
  /** Of all exchanges of clients since the start, by the places of outcomes: requests, failed, refused, errors of clients. */
  readonly totals = new Float64Array(FIELDS)
  readonly #routes = new Map<string, Ring>()
  readonly #edges = new Map<string, Ring>()
  readonly #all = new Ring(BLOCKS)
  #watches: readonly Watch[] = []
  #spoilt: readonly Revisions[] = []
  /** When each of the last revisions served first, by blocks. */
  #begun: readonly { readonly revision: number; readonly block: number }[] = []
  #newest = -1

  /** `times`: how many such there were. */
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
   * What was counted of a scope before `now`, by blocks of `BLOCK` seconds that had traffic, oldest first; only blocks before
   * the one in which `revision` served first, if it has.
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

  /** What was counted of a route or an edge in the last minute before `now`, to within a block. */
  lastMinute(kind: 'route' | 'edge', id: string, now: number): Tally {
    const ring = (kind === 'route' ? this.#routes : this.#edges).get(id)
    const last = Math.floor(now / (BLOCK * 1_000))
    return sumOf(Array.from({ length: 60 / BLOCK }, (_, i) => ring?.at(last - i) ?? NOTHING))
  }

  /** Counts what `revision` and later ones serve of a scope from now on. */
  watch(scope: RateScope, revision: number, now: number): RateWatch {
    const watch = new Watch(scope, revision, now, (ended) => {
      this.#watches = this.#watches.filter((one) => one !== ended)
    })
    this.#watches = [...this.#watches, watch]
    return watch
  }

  /** What was counted of a scope since `from`, and what these revisions still serve, is no measure for later writes. */
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
