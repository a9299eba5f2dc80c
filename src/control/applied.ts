import { ipPolicyRule } from '../resources/ip-policy-rule.js'
import type { UnitProblems } from '../snapshot/compile.js'
import type { StoreLog, StoreReader } from '../store/store.js'
import { type ApiGate, readRestriction } from './api-gate.js'
import type { Derivation, Touched } from './derive.js'
import type { Live, Units } from './live.js'
import type { Principals } from './principals.js'
import { everyRecord } from './records.js'
import { readyWhatCompiles } from './tolerant.js'
import { PLANNED_KINDS } from './units.js'

/** The kinds of which the content matters here; of others it is enough to know that they have changed. */
const READ_KINDS: ReadonlySet<string> = new Set([...PLANNED_KINDS, ipPolicyRule.name])

export interface AppliedParts {
  readonly derivation: Derivation
  readonly live: Live
  readonly gate: ApiGate
  readonly principals: Principals
  readonly log: StoreLog
  /** Hears of each revision once it serves. Must not throw. */
  readonly served: (revision: number) => void
}

/** How far this process has followed the store. Callers take turns. */
export class AppliedRevision {
  readonly #parts: AppliedParts
  /** Units that could not be applied, with the reason. */
  readonly #broken = new Map<string, string>()
  #revision = 0
  #stuck: string | null = null

  constructor(parts: AppliedParts) {
    this.#parts = parts
  }

  get revision(): number {
    return this.#revision
  }

  /** What this process could not apply, or null. */
  get error(): string | null {
    if (this.#stuck !== null) return this.#stuck
    const [first] = this.#broken.values()
    if (first === undefined) return null
    return this.#broken.size === 1 ? first : `${first} (and ${this.#broken.size - 1} more)`
  }

  /** This process cannot follow the store for now, for the reason with this code. */
  stuck(code: string): void {
    this.#stuck = `cannot follow the store: ${code}`
  }

  /**
   * Everything that the store holds, from nothing. `committed`: the last revision that others have committed; a transaction
   * must say it, because it takes its own for the last.
   */
  async load(reader: StoreReader, committed?: number): Promise<void> {
    const { derivation, live, gate } = this.#parts
    const revision = committed ?? (await reader.revision())
    const records = []
    for (const kind of PLANNED_KINDS) {
      for await (const page of everyRecord(reader, kind)) for (const stored of page) records.push(plain(stored))
    }
    const restriction = await readRestriction(reader)
    this.#broken.clear()
    this.#serve(live.fromRecords(derivation.reset(records)))
    gate.set(restriction)
    this.#parts.principals.forgetAll()
    this.#serves(revision)
    // Records may have changed while they were read, one kind after the other.
    await this.follow(reader)
  }

  /** Applies what others have committed since. `committed`: as for `load`. */
  async follow(reader: StoreReader, committed?: number): Promise<void> {
    const feed = await reader.changesAfter(this.#revision)
    if (!feed.complete) return await this.load(reader, committed)
    if (feed.revision === this.#revision) return
    const keys = new Map(feed.changes.map(({ kind, id }) => [`${kind} ${id}`, { kind, id }]))
    const found = new Map<string, Touched['after']>()
    const read = [...keys.values()].filter(({ kind }) => READ_KINDS.has(kind))
    for (const stored of await reader.getMany(read)) {
      found.set(`${stored.kind} ${stored.id}`, plain(stored))
    }
    const touched = [...keys].map(([key, { kind, id }]) => ({ kind, id, after: found.get(key) }))
    const { derivation, live, gate, principals } = this.#parts
    const restriction = gate.concerns(touched) ? { now: await readRestriction(reader) } : undefined
    const derived = derivation.derive(live.units, touched)
    this.#serve(derived)
    derived.commit()
    if (restriction !== undefined) gate.set(restriction.now)
    principals.forget(touched)
    this.#serves(feed.revision)
  }

  /** A write of this process serves: `revision` is its own, `units` what it put and dropped. */
  committed(revision: number, units: Units): void {
    this.#mended(units)
    this.#serves(revision)
  }

  #serves(revision: number): void {
    this.#stuck = null
    this.#revision = revision
    this.#parts.served(revision)
  }

  #serve(units: Units): void {
    const { ready, problems } = readyWhatCompiles(this.#parts.live, units)
    ready.swap()
    this.#mended(units)
    for (const problem of problems) {
      const text = reasonOf(problem)
      this.#broken.set(problem.key, text)
      this.#parts.log.warn({ unit: problem.key }, `a policy of the store cannot be applied: ${text}`)
    }
  }

  #mended({ put, drop }: Units): void {
    for (const [key] of put) this.#broken.delete(key)
    for (const key of drop) this.#broken.delete(key)
  }
}

/** Records without their secrets: the plan holds none. */
function plain({ kind, id, body }: { kind: string; id: string; body: unknown }): NonNullable<Touched['after']> {
  return { kind, id, createdAt: '', body: body as NonNullable<Touched['after']>['body'], secrets: {} }
}

function reasonOf({ source, problems }: UnitProblems): string {
  const error = problems.find(({ severity }) => severity === 'error')
  return error === undefined ? source : `${source}:${error.line}:${error.column} ${error.code} ${error.message}`
}
