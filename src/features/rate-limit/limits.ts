import type { Clock } from '../../lib/clock.js'
import type { Json } from '../../lib/json.js'
import type { KeyPart, LimitBucket, LimitedKey, LiveLimit } from '../../policy/live-limit.js'
import { type LimitNumbers, type LimitRelay, sumOfLimits } from './elsewhere.js'
import { type Decision, MAX_CAPACITY } from './limiter/decision.js'
import { encodeKey } from './limiter/layout.js'
import type { LimitWindow } from './limiter/sliding-window.js'
import { mostRefused, RefusedKeys, type RefusedKeysMemory } from './refused-keys.js'
import { bucketsOf, recentOf, seriesOf, Usage } from './usage.js'

/** Marks of key parts: bytes are text in JSON, and must not equal a string with the same text. */
export const KEY_MARKS = { text: 's', data: 'j', failed: 'e' } as const

interface LimitStateParts {
  readonly window: LimitWindow
  /** Window length. */
  readonly seconds: number
  /** Memory for refused keys; undefined: not recorded. */
  readonly memory: RefusedKeysMemory | undefined
  readonly identity: string
  /** Relay to other threads; undefined if there are none. */
  readonly relay: LimitRelay | undefined
}

/** State of a limit with the lifetime of its buckets: the buckets and its counts. */
export class LimitState {
  readonly window: LimitStateParts['window']
  admitted = 0
  refused = 0
  wouldRefuse = 0
  readonly #parts: LimitStateParts
  #usage: Usage | undefined
  #keys: RefusedKeys | undefined

  constructor(parts: LimitStateParts) {
    this.window = parts.window
    this.#parts = parts
    parts.relay?.begins(parts.identity, this)
  }

  /** Number of decisions in this thread. */
  get decided(): number {
    return this.admitted + this.refused + this.wouldRefuse
  }

  /** Returns this thread's counts as plain data; undefined for none. */
  numbers(at: number): LimitNumbers | undefined {
    if (this.#usage === undefined) return undefined
    const { admitted, refused, wouldRefuse } = this
    return { admitted, refused, wouldRefuse, usage: this.#usage.numbers(at), keys: this.#keys?.numbers(at) }
  }

  /** Returns the counts of all threads. */
  total(at: number): LimitNumbers | undefined {
    const { relay, identity } = this.#parts
    const [own, elsewhere] = [this.numbers(at), relay?.elsewhere(identity)]
    return own === undefined || elsewhere === undefined ? (own ?? elsewhere) : sumOfLimits(own, elsewhere)
  }

  /** Created with the limit's first decision. */
  get usage(): Usage {
    this.#usage ??= new Usage(this.#parts.seconds * 1_000)
    return this.#usage
  }

  /** True if refused keys are recorded. */
  get keeps(): boolean {
    return this.#parts.memory !== undefined
  }

  /** Counts an admission. */
  admits({ at, remaining, before }: Decision, capacity: number, cost: number): void {
    this.admitted += 1
    this.usage.admitted(at, capacity - remaining, cost === 0 ? at : before)
  }

  /** Counts a request beyond the capacity. `textOf`: returns its key as a JSON list of values; `failed`: a part of the key failed. */
  refuses({ at, remaining }: Decision, capacity: number, enforced: boolean, about: RefusedBucket): void {
    if (enforced) this.refused += 1
    else this.wouldRefuse += 1
    this.usage.refused(at, capacity - remaining)
    const { memory } = this.#parts
    if (memory === undefined) return
    this.#keys ??= new RefusedKeys(memory)
    this.#keys.note(at, about.key, () => about.text(), about.errorCode !== '')
  }
}

/** Bucket of a request beyond the capacity. */
interface RefusedBucket {
  readonly key: string
  readonly errorCode: string
  text(): string
}

interface RunningLimitParts
  extends Pick<
    LiveLimit,
    'identity' | 'name' | 'algorithm' | 'scope' | 'enforced' | 'seconds' | 'capacity' | 'cost' | 'bucketKey'
  > {
  readonly clock: Clock
  readonly state: LimitState
}

/** Limit of a compiled policy. */
export class RunningLimit implements LiveLimit {
  readonly identity: string
  readonly name: string
  readonly algorithm: string
  readonly scope: LiveLimit['scope']
  readonly enforced: boolean
  readonly capacity: LiveLimit['capacity']
  readonly cost: LiveLimit['cost']
  readonly seconds: number
  readonly bucketKey: readonly KeyPart[]
  readonly #clock: Clock
  readonly #state: LimitState

  constructor(parts: RunningLimitParts) {
    const { identity, name, algorithm, scope, enforced, capacity, cost, seconds, bucketKey, clock, state } = parts
    this.identity = identity
    this.name = name
    this.algorithm = algorithm
    this.scope = scope
    this.enforced = enforced
    this.capacity = { source: capacity.source, constant: capacity.constant }
    this.cost = { source: cost.source, constant: cost.constant }
    this.seconds = seconds
    this.bucketKey = bucketKey
    this.#clock = clock
    this.#state = state
  }

  counts(): ReturnType<LiveLimit['counts']> {
    const total = this.#total()
    if (total === undefined) return { admitted: 0, refused: 0, wouldRefuse: 0, buckets: 0 }
    const { admitted, refused, wouldRefuse, usage } = total
    return { admitted, refused, wouldRefuse, buckets: bucketsOf(usage) }
  }

  recent(): ReturnType<LiveLimit['recent']> {
    const total = this.#total()
    return total === undefined ? { admitted: 0, refused: 0 } : recentOf(total.usage)
  }

  series(): ReturnType<LiveLimit['series']> {
    const now = this.#clock.monotonic()
    const usage = this.#total()?.usage ?? new Usage(this.seconds * 1_000).numbers(now)
    const steps = seriesOf(usage).map(({ at, ...step }) => ({ age: now - at, ...step }))
    return { stepSeconds: Usage.stepSeconds, steps }
  }

  limitedKeys(most: number): readonly LimitedKey[] | undefined {
    if (!this.#state.keeps) return undefined
    const now = this.#clock.monotonic()
    return mostRefused(this.#total()?.keys?.keys ?? [], most).map(({ at, id: _, ...key }) => ({
      ...key,
      age: now - at
    }))
  }

  keyOf(values: readonly Json[]): string {
    return encodeKey(values.map((value, i) => partOf(value, this.bucketKey[i]?.type)))
  }

  async bucket(key: string): Promise<LimitBucket> {
    const { constant } = this.capacity
    const found = await this.#state.window.peek(key, constant ?? MAX_CAPACITY)
    const { used, folded: shared, remaining, resetSeconds, retryAfterSeconds } = found
    if (constant === undefined)
      return { used, shared, remaining: undefined, resetSeconds, retryAfterSeconds: undefined }
    return { used, shared, remaining, resetSeconds, retryAfterSeconds }
  }

  async empty(key: string): Promise<void> {
    const { window, usage } = this.#state
    const { at, before } = await window.peek(key, MAX_CAPACITY)
    await window.forget(key)
    usage.emptied(at, before)
  }

  #total(): LimitNumbers | undefined {
    return this.#state.total(this.#clock.monotonic())
  }
}

/** CEL types whose strings in JSON are strings; other types, such as times and bytes, also become strings. */
const TEXTS = ['string', 'dyn']

function partOf(value: Json, type = 'dyn'): string {
  return typeof value === 'string' && TEXTS.includes(type)
    ? `${KEY_MARKS.text}${value}`
    : `${KEY_MARKS.data}${JSON.stringify(value)}`
}
