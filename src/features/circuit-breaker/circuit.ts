import { FAILURES, flowErrors, UNREACHED } from '../../flow/error-codes.js'
import type { Failure } from '../../flow/exchange.js'
import type { Flow } from '../../flow/flow.js'
import { refuse, type Verdict } from '../../flow/verdict.js'
import { defineErrors } from '../../lib/errors.js'
import { ownRecords, type SharedRecords } from '../../lib/shared-records.js'
import { decisionCounters, type KeptStateDraft, type PolicyServices, serviceKey } from '../../policy/services.js'
import { type Admission, Breaker, type BreakerDecision, type BreakerSettings, type Outcome } from './breaker.js'

/** Error codes of the circuit breaker. */
export const circuitErrors = defineErrors({
  CIRCUIT_OPEN: {
    status: 503,
    text: 'The upstream fails too often and is given a pause.',
    help: 'Wait as many seconds as retry-after says; find out why the upstream fails.'
  }
})

/** Storage of breakers shared by all threads of the process. */
export const breakerRecords = serviceKey<SharedRecords>('breaker_records', () => ownRecords)

/** Failures without contact to a server. */
const UNASKED: ReadonlySet<Failure> = new Set<Failure>(['no-tunnel', 'no-descriptor'])

/** Codes of Sluice's responses that mean a failure of the upstream. */
const UPSTREAM_FAILURES: ReadonlySet<string> = new Set([
  ...[...UNREACHED].filter((failure) => !UNASKED.has(failure)).map((failure) => FAILURES[failure].code),
  flowErrors.UPSTREAM_MALFORMED.code,
  flowErrors.UPSTREAM_TIMEOUT.code,
  flowErrors.UPSTREAM_GONE.code
])

/**
 * Returns the upstream's outcome in this exchange: failed without a response or with a status from 500. Responses of modules and policies
 * do not count, nor does a group without tunnels, where no server was contacted: Sluice generates them, and no upstream, client or policy
 * can forge the field that marks them.
 */
function upstreamOutcome({ response }: Flow): Outcome {
  if (response === undefined) return 'unknown'
  if (!response.local) return response.status >= 500 ? 'failed' : 'succeeded'
  return UPSTREAM_FAILURES.has(response.headers.get('sluice-error-code') ?? '') ? 'failed' : 'unknown'
}

const DECISIONS = ['allow', 'block', 'allow_while_open', 'opened', 'closed'] as const

/** Results under `actions.service.circuit_breaker.*`. */
export const CIRCUIT_RESULTS = {
  name: 'circuit_breaker',
  fields: { decision: ['string', 'allow, block, or allow_while_open where it is not enforced.'] }
} as const
const PUBLISHED: Readonly<Record<BreakerDecision, { readonly decision: BreakerDecision }>> = {
  allow: { decision: 'allow' },
  block: { decision: 'block' },
  allow_while_open: { decision: 'allow_while_open' }
}

interface CircuitOptions extends BreakerSettings {
  /** Milliseconds. */
  readonly window: number
  readonly buckets: number
  /** False: detects, publishes and counts, but refuses nothing. */
  readonly enforce: boolean
  /** Distinguishes the breaker from others of its owner. */
  readonly identity: readonly unknown[]
}

interface CircuitScope extends KeptStateDraft {
  readonly owner: string
  readonly services: PolicyServices
}

/**
 * Circuit breaker of a module or an action. State is kept while the length and buckets of the window are unchanged; other settings apply at
 * once.
 */
export class Circuit {
  readonly #breaker: Breaker
  readonly #options: CircuitOptions
  readonly #scope: CircuitScope
  readonly #counters: ReturnType<typeof decisionCounters<(typeof DECISIONS)[number]>>

  constructor(options: CircuitOptions, scope: CircuitScope) {
    const { window, buckets, identity } = options
    const { owner, services } = scope
    this.#breaker = scope.keep(['circuit-breaker', ...identity, window, buckets], (name) => {
      const record = services.service(breakerRecords).of(name, Breaker.numbersOf(buckets))
      return new Breaker({ clock: services.clock, window, buckets, record })
    })
    this.#options = options
    this.#scope = scope
    this.#counters = decisionCounters(services.meter, owner, 'circuit_breaker', DECISIONS)
  }

  /**
   * Returns a verdict while the circuit is open. An allowed exchange is watched until the upstream's outcome is known or the exchange
   * finishes.
   */
  admit(flow: Flow): Verdict | undefined {
    const { enforce } = this.#options
    const admission = this.#breaker.admit(this.#options)
    const blocked = admission.decision === 'block'
    const decision = blocked && !enforce ? 'allow_while_open' : admission.decision
    this.#counters[decision].inc()
    flow.publish(CIRCUIT_RESULTS.name, PUBLISHED[decision])
    if (blocked && enforce) {
      flow.refusal = { retryAfter: admission.retryAfter }
      return refuse(circuitErrors.CIRCUIT_OPEN, ['retry-after', String(admission.retryAfter)])
    }
    if (!blocked) {
      const settle = () => this.#settle(admission, flow)
      flow.onForwarded(settle)
      flow.onEnd(settle)
    }
    return undefined
  }

  /** Reports the upstream's outcome as seen in the flow. */
  #settle(admission: Admission, flow: Flow): void {
    const transition = this.#breaker.settle(admission, upstreamOutcome(flow), this.#options)
    if (transition === undefined) return
    this.#counters[transition].inc()
    const { owner, services } = this.#scope
    services.log.warn({ owner, circuit: transition }, 'a circuit breaker changed')
  }
}
