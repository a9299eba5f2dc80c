import { serviceKey } from '../../policy/services.js'

/** Maximum number of deliveries stored per owner; the oldest are dropped. */
const MAX_REMEMBERED = 65_536

/** Deliveries received from one sender by one owner. */
export interface ReplayMemory {
  /** Returns true and stores the delivery if it is new. `now`: wall clock; `lasting`: duration; both milliseconds. */
  admit(once: string, now: number, lasting: number): boolean | Promise<boolean>
  /** Allows the delivery again, because the upstream failed. */
  release(once: string): void
}

/** Memories of deliveries by owner identity. There must be one for the process, because a delivery counts once. */
export const replays = serviceKey<{ of(identity: string): ReplayMemory }>('replays', () => ({
  of: () => new Replays()
}))

/** Memory for other threads by name. It outlives the policy that uses it. */
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

  /** Drops empty memories. `now`: wall clock, milliseconds. */
  sweep(now: number): void {
    for (const [identity, memory] of this.#memories) if (memory.isEmpty(now)) this.#memories.delete(identity)
  }
}

/** Received deliveries by the sender's unique mark of an attempt, stored while their timestamps would be accepted. */
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

  /** Returns true if no delivery is stored. */
  isEmpty(now: number): boolean {
    this.#forget(now)
    return this.#until.size === 0
  }

  release(once: string): void {
    this.#until.delete(once)
  }

  /** Drops expired entries, which are in order of arrival and therefore of expiry. */
  #forget(now: number): void {
    for (const [once, until] of this.#until) {
      if (now < until && this.#until.size <= MAX_REMEMBERED) return
      this.#until.delete(once)
    }
  }
}
