import { serviceKey } from '../../policy/services.js'

/** Deliveries remembered by one owner; beyond it the oldest are forgotten. */
const MAX_REMEMBERED = 65_536

/** Which deliveries of one sender to one owner have come. */
export interface ReplayMemory {
  /** True when it is new; from now on it is not. `now`: wall clock; `lasting`: both milliseconds. */
  admit(once: string, now: number, lasting: number): boolean | Promise<boolean>
  /** It may come again: the upstream did not take it. */
  release(once: string): void
}

/** Where deliveries are remembered, by the identity of what asks. It must be one for the process: a delivery counts once. */
export const replays = serviceKey<{ of(identity: string): ReplayMemory }>('replays', () => ({
  of: () => new Replays()
}))

/** Memory for threads that ask by name. What is remembered of a name outlives the policy that has it. */
export class ReplayBook {
  readonly #memories = new Map<string, Replays>()

  of(identity: string): Replays {
    let memory = this.#memories.get(identity)
    if (memory === undefined) {
      memory = new Replays()
      this.#memories.set(identity, memory)
    }
    return memory
  }

  /** Forgets what nothing is remembered of any more. `now`: wall clock, milliseconds. */
  sweep(now: number): void {
    for (const [identity, memory] of this.#memories) if (memory.isEmpty(now)) this.#memories.delete(identity)
  }
}

/**
 * Which deliveries have come, by what their sender gives to one attempt only, for as long as their timestamps would let
 * them pass.
 */
export class Replays implements ReplayMemory {
  readonly #until = new Map<string, number>()

  admit(once: string, now: number, lasting: number): boolean {
    this.#forget(now)
    const until = this.#until.get(once)
    if (until !== undefined && now < until) return false
    this.#until.delete(once)
    this.#until.set(once, now + lasting)
    return true
  }

  /** Is nothing remembered? */
  isEmpty(now: number): boolean {
    this.#forget(now)
    return this.#until.size === 0
  }

  release(once: string): void {
    this.#until.delete(once)
  }

  /** They stand in the order in which they came, which is that of their ends. */
  #forget(now: number): void {
    for (const [once, until] of this.#until) {
      if (now < until && this.#until.size <= MAX_REMEMBERED) return
      this.#until.delete(once)
    }
  }
}
