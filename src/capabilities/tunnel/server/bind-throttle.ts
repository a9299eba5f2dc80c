import { BYTES_OF_REQUEST, CALLER_LIMITS } from '../../../lib/caller-limits.js'
import { clientKey } from '../../../lib/client-limits.js'
import type { Clock } from '../../../lib/clock.js'
import { GrowingPauses, WorkBudget } from '../../../lib/work-budget.js'
import type { BindDenied } from './authority.js'

/** The agent that binds. */
interface Binder {
  readonly credential: string
  readonly ip: string
}

/**
 * Bounds the work that agents ask for when they bind endpoints: a budget for each credential at each client address, and a pause for its
 * policies that grows with each one that is refused.
 */
export class BindThrottle {
  readonly #work: WorkBudget
  readonly #pauses: GrowingPauses

  constructor(clock: Clock) {
    const { work, pauses } = CALLER_LIMITS.agent
    this.#work = new WorkBudget(clock, work)
    this.#pauses = new GrowingPauses(clock, pauses)
  }

  /** Counts a bind, or returns the reason to reject it. `policy`: '' for none. */
  refusal(binder: Binder, policy: string): BindDenied | undefined {
    const key = keyOf(binder)
    const pause = policy === '' ? 0 : Math.ceil(this.#pauses.wait(key))
    if (pause > 0) return { refused: `too many traffic policies were refused; try again in ${pause} s` }
    const wait = Math.ceil(this.#work.wait(key))
    if (wait > 0)
      return { refused: `too many endpoints, or too long traffic policies, at a time; try again in ${wait} s` }
    this.#work.spend(key, BYTES_OF_REQUEST + Buffer.byteLength(policy))
    return undefined
  }

  /** Records the result for the policy. */
  looked(binder: Binder, policy: string, accepted: boolean): void {
    if (policy === '') return
    if (accepted) this.#pauses.accepted(keyOf(binder))
    else this.#pauses.refused(keyOf(binder))
  }
}

function keyOf({ credential, ip }: Binder): string {
  return `${clientKey(ip)} ${credential}`
}
