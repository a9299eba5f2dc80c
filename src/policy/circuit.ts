import type { Flow } from '../flow/flow.js'
import { refuse, type Verdict } from '../flow/verdict.js'
import { type Admission, Breaker, type BreakerDecision, type BreakerSettings } from './breaker.js'
import { decisionCounters, type KeptStateDraft, type PolicyServices } from './services.js'
import { upstreamOutcome } from './upstream-outcome.js'

const DECISIONS = ['allow', 'block', 'allow_while_open', 'opened', 'closed'] as const

/** What is published as `actions.service.circuit_breaker.*`. */
export const CIRCUIT_RESULTS = { name: 'circuit_breaker', fields: { decision: 'string' } } as const
const PUBLISHED: Readonly<Record<BreakerDecision, { readonly decision: BreakerDecision }>> = {
  allow: { decision: 'allow' },
  block: { decision: 'block' },
  allow_while_open: { decision: 'allow_while_open' }
}

export interface CircuitOptions extends BreakerSettings {
  /** Milliseconds. */
  readonly window: number
  readonly buckets: number
  /** false: find out, publish and count, but refuse nothing. */
  readonly enforce: boolean
  /** What sets the breaker apart from others of its owner. */
  readonly identity: readonly unknown[]
}

export interface CircuitScope extends KeptStateDraft {
  readonly owner: string
  readonly services: PolicyServices
}

/**
 * A breaker in front of an upstream, as a module or an action uses it. Its state is kept as long as the window keeps its
 * length and its buckets; other settings may change and apply at once.
 */
export class Circuit {
  readonly #breaker: Breaker
  readonly #options: CircuitOptions
  readonly #scope: CircuitScope
  readonly #counters: ReturnType<typeof decisionCounters<(typeof DECISIONS)[number]>>

  constructor(options: CircuitOptions, scope: CircuitScope) {
    const { window, buckets, identity } = options
    const { owner, services } = scope
    this.#breaker = scope.keep(
      ['circuit-breaker', ...identity, window, buckets],
      () => new Breaker({ clock: services.clock, window, buckets })
    )
    this.#options = options
    this.#scope = scope
    this.#counters = decisionCounters(services.meter, owner, 'circuit_breaker', DECISIONS)
  }

  /**
   * A verdict while the circuit is open. What passes is watched until it is known how the upstream did, or until its exchange
   * is over.
   */
  admit(flow: Flow): Verdict | undefined {
    const { enforce } = this.#options
    const admission = this.#breaker.admit(this.#options)
    const blocked = admission.decision === 'block'
    const decision = blocked && !enforce ? 'allow_while_open' : admission.decision
    this.#counters[decision].inc()
    flow.publish(CIRCUIT_RESULTS.name, PUBLISHED[decision])
    if (blocked && enforce) return refuse(503, 'CIRCUIT_OPEN', ['retry-after', String(admission.retryAfter)])
    if (!blocked) {
      const settle = () => this.#settle(admission, flow)
      flow.onForwarded(settle)
      flow.onEnd(settle)
    }
    return undefined
  }

  /** Tells how the upstream did, as far as the flow knows. */
  #settle(admission: Admission, flow: Flow): void {
    const transition = this.#breaker.settle(admission, upstreamOutcome(flow), this.#options)
    if (transition === undefined) return
    this.#counters[transition].inc()
    const { owner, services } = this.#scope
    services.log.warn({ owner, circuit: transition }, 'a circuit breaker changed')
  }
}
