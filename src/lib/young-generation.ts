import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Bytes that may be new before they are collected: a pause of a few milliseconds even when all of them stay in use. */
const NEW_BYTES = 2 * 1024 * 1024

/** Collects objects that were made last; those that are in use stay. Holds the loop for as long as it takes. */
type Collect = () => void

/**
 * Called after each slice of long work: collects the young generation as soon as a few megabytes are new. What long work
 * makes mostly stays in use, and moving that takes the time of a pause: V8 by itself waits for 16 MB, which is up to 15 ms at a
 * stretch, in the middle of a request. Does nothing where V8 has no such function.
 */
export class YoungGeneration {
  readonly #collect: () => Collect | undefined
  readonly #used: () => number
  #left = 0

  /** `used`: bytes of the young generation. */
  constructor(collect?: Collect, used = newSpaceUsed) {
    this.#collect = collect === undefined ? collectMinor : () => collect
    this.#used = used
  }

  /** True when it has collected. */
  tidy(): boolean {
    const used = this.#used()
    // V8 may have collected by itself.
    this.#left = Math.min(this.#left, used)
    if (used - this.#left < NEW_BYTES) return false
    const collect = this.#collect()
    if (collect === undefined) return false
    collect()
    this.#left = this.#used()
    return true
  }
}

/** Looked for when it is first needed: it takes a context of its own, and a small configuration needs none. */
let minor: { readonly collect: Collect | undefined } | undefined

/** V8's own function for it, which it gives to a context that is made while its flag is set; the global object here never has it. */
function collectMinor(): Collect | undefined {
  minor ??= { collect: findMinor() }
  return minor.collect
}

function findMinor(): Collect | undefined {
  try {
    setFlagsFromString('--expose-gc')
    const gc: unknown = runInNewContext('typeof gc === "function" ? gc : undefined')
    return typeof gc === 'function' ? () => void gc({ type: 'minor' }) : undefined
  } catch {
    return undefined
  } finally {
    setFlagsFromString('--no-expose-gc')
  }
}

function newSpaceUsed(): number {
  return getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')?.space_used_size ?? 0
}
