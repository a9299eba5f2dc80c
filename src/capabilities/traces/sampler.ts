import type { Flow } from '../../flow/flow.js'
import { FLAGS } from './trace-context.js'

/** Sampling decision for a new trace; with `parentbased_`, the trace of a request decides itself. */
type RootSampler = 'always_on' | 'always_off' | 'traceidratio'

const PARENT = 'parentbased_'
/** Digits of the trace id that are random by every version of its specification: the last 56 bits. */
const RANDOM_DIGITS = 14

/** Sampling settings. */
export interface SamplerSettings {
  /** OpenTelemetry's name of the sampler. */
  readonly sampler: RootSampler | `parentbased_${RootSampler}`
  /** Share of traces, 0 to 1; counts for samplers with `traceidratio`. */
  readonly ratio: number
}

/** Decides at the beginning of an exchange whether spans are made of it. */
export class Sampler {
  readonly #followsParent: boolean
  /** Minimum of the random digits of sampled trace ids; undefined if none is sampled. */
  readonly #threshold: string | undefined
  /** Leading digits of the threshold; above all values if no trace is sampled. */
  readonly #leading: number
  #where: ((flow: Flow) => boolean) | undefined

  constructor({ sampler, ratio }: SamplerSettings) {
    this.#followsParent = sampler.startsWith(PARENT)
    const root = this.#followsParent ? sampler.slice(PARENT.length) : sampler
    this.#threshold = thresholdOf(root === 'always_on' ? 1 : root === 'always_off' ? 0 : ratio)
    this.#leading = Number.parseInt(this.#threshold?.slice(0, 2) ?? '100', 16)
  }

  /** Limits new traces to requests that match `where`. */
  choose(where: (flow: Flow) => boolean): void {
    this.#where = where
  }

  /** Does the trace that came with a request decide by its flags? Else `samples` does, with its id. */
  inherits(flags: number): boolean | undefined {
    return this.#followsParent ? (flags & FLAGS.sampled) !== 0 : undefined
  }

  /**
   * Is a trace with this id, or with this second half of one, sampled? Every process with the same ratio decides the same,
   * and the samples of a lower ratio are a subset of those of a higher one. `flow`: undefined if the request was rejected
   * before it had one. `leading`: the first two random digits as a number, which usually decide and are faster than text.
   */
  samples(traceId: string, flow: Flow | undefined, leading = this.#leading): boolean {
    if (leading < this.#leading || this.#threshold === undefined) return false
    if (isBelow(traceId, this.#threshold)) return false
    return this.#where === undefined || (flow !== undefined && this.#where(flow))
  }
}

/** Are the last digits of `id` less than `threshold`? A part of a text would cost more. */
function isBelow(id: string, threshold: string): boolean {
  const from = id.length - RANDOM_DIGITS
  for (let i = 0; i < RANDOM_DIGITS; i++) {
    const digit = id.charCodeAt(from + i)
    const least = threshold.charCodeAt(i)
    if (digit !== least) return digit < least
  }
  return false
}

const RANDOM_VALUES = 16 ** RANDOM_DIGITS

/** The least random digits that are sampled, so that `ratio` of all are (OpenTelemetry, TraceState: probability sampling). */
function thresholdOf(ratio: number): string | undefined {
  const rejected = BigInt(Math.round((1 - ratio) * RANDOM_VALUES))
  return rejected >= BigInt(RANDOM_VALUES) ? undefined : rejected.toString(16).padStart(RANDOM_DIGITS, '0')
}
