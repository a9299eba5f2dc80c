import type { ActionOutcome, Explainer, Placed, RuleOutcome } from '../../flow/explainer.js'
import type { Flow } from '../../flow/flow.js'
import type { Verdict } from '../../flow/verdict.js'
import type { Place } from '../../lib/positions.js'
import { shorten } from '../../lib/printable.js'
import { redactUrl } from '../../telemetry/redaction.js'
import type { AttributeValue, TracedEvent } from './traced-exchange.js'

/** Events of one span; further ones are counted. */
const MOST_EVENTS = 128
/** Characters of a value. */
const LONGEST_VALUE = 256

type Attributes = Record<string, AttributeValue>

/** Records the decisions of policies and modules on one exchange, as events of its span. */
export class PolicyEvents implements Explainer<Flow> {
  readonly imagined = false
  readonly events: TracedEvent[] = []
  dropped = 0
  readonly #now: () => number
  readonly #buckets: boolean
  #module = ''
  #owner = ''
  #on = ''
  #phase = ''
  #rule = ''
  #action = ''
  #limited: unknown

  /** `now`: milliseconds since the Unix epoch, with a fraction. `buckets`: are keys of limits shown? */
  constructor(now: () => number, buckets: boolean) {
    this.#now = now
    this.#buckets = buckets
  }

  unjudged(): void {
    // Modules are left out of simulated exchanges only.
  }

  step(module: string, owner: string, on: string): void {
    this.#module = module
    this.#owner = owner
    this.#on = on
    this.#phase = ''
  }

  stepped(verdict: Verdict | undefined): void {
    // Decisions of policies are shown by events of their actions.
    if (verdict === undefined || this.#phase !== '') return
    const status: Attributes = verdict.kind === 'respond' ? { 'http.response.status_code': verdict.status } : {}
    this.#add('sluice.module', {
      'sluice.module': this.#module,
      'sluice.owner': this.#owner,
      'sluice.step': this.#on,
      'sluice.outcome': OUTCOMES[verdict.kind],
      ...status
    })
  }

  phase(phase: string, owner: string): void {
    this.#phase = phase
    this.#owner = owner
  }

  rule(name: string): void {
    this.#rule = name
  }

  ruled(outcome: RuleOutcome, reason?: string): void {
    if (outcome === 'failed') this.#add('sluice.rule', this.#about(outcome, reason))
  }

  expression(): undefined {
    return undefined
  }

  at(_place: Place | undefined): void {
    // Events name the rule; its position is in the document.
  }

  action(type: string, _at: Placed, flow: Flow): void {
    this.#action = type
    this.#limited = flow.results?.get(LIMIT)
  }

  acted(outcome: ActionOutcome, flow: Flow, reason?: string): void {
    this.#add('sluice.action', {
      ...this.#about(outcome, reason),
      'sluice.action': this.#action,
      ...this.#limit(flow.results?.get(LIMIT))
    })
  }

  #about(outcome: string, reason: string | undefined): Attributes {
    return {
      'sluice.phase': this.#phase,
      'sluice.owner': this.#owner,
      'sluice.rule': this.#rule,
      'sluice.outcome': outcome,
      ...(reason === undefined ? {} : { 'sluice.reason': shown(reason) })
    }
  }

  /** Returns the decision of a limit action. */
  #limit(results: Readonly<Record<string, unknown>> | undefined): Attributes {
    if (results === undefined || this.#limited === results) return {}
    const { limited, remaining, capacity, cost, reset_seconds: reset, bucket_key: bucket } = results
    return {
      ...(typeof limited === 'boolean' ? { 'sluice.limit.limited': limited } : {}),
      ...(typeof remaining === 'number' ? { 'sluice.limit.remaining': remaining } : {}),
      ...(typeof capacity === 'number' ? { 'sluice.limit.capacity': capacity } : {}),
      ...(typeof cost === 'number' ? { 'sluice.limit.cost': cost } : {}),
      ...(typeof reset === 'number' ? { 'sluice.limit.reset_seconds': reset } : {}),
      ...(this.#buckets && typeof bucket === 'string' ? { 'sluice.limit.bucket': shown(redactUrl(bucket)) } : {})
    }
  }

  #add(name: string, attributes: Attributes): void {
    if (this.events.length < MOST_EVENTS) this.events.push({ name, at: this.#now(), attributes })
    else this.dropped++
  }
}

/** Name of the results of the action rate-limit. */
const LIMIT = 'rate_limit'
/** Names of outcomes in events. */
const OUTCOMES = { respond: 'responded', close: 'closed', forward: 'led_on' } as const

const shown = (text: string): string => shorten(text, LONGEST_VALUE)

/** Combines two explainers of the same exchange; the first one decides which expressions are recorded. */
export class BothExplainers implements Explainer<Flow> {
  readonly #first: Explainer<Flow>
  readonly #second: Explainer<Flow>

  constructor(first: Explainer<Flow>, second: Explainer<Flow>) {
    this.#first = first
    this.#second = second
  }

  get imagined(): boolean {
    return this.#first.imagined
  }

  unjudged(...of: Parameters<Explainer<Flow>['unjudged']>): void {
    this.#first.unjudged(...of)
    this.#second.unjudged(...of)
  }

  step(...of: Parameters<Explainer<Flow>['step']>): void {
    this.#first.step(...of)
    this.#second.step(...of)
  }

  stepped(verdict: Verdict | undefined): void {
    this.#first.stepped(verdict)
    this.#second.stepped(verdict)
  }

  phase(...of: Parameters<Explainer<Flow>['phase']>): void {
    this.#first.phase(...of)
    this.#second.phase(...of)
  }

  rule(...of: Parameters<Explainer<Flow>['rule']>): void {
    this.#first.rule(...of)
    this.#second.rule(...of)
  }

  ruled(...of: Parameters<Explainer<Flow>['ruled']>): void {
    this.#first.ruled(...of)
    this.#second.ruled(...of)
  }

  expression(source: string): ReturnType<Explainer<Flow>['expression']> {
    return this.#first.expression(source)
  }

  at(place: Place | undefined): void {
    this.#first.at(place)
  }

  action(...of: Parameters<Explainer<Flow>['action']>): void {
    this.#first.action(...of)
    this.#second.action(...of)
  }

  acted(...of: Parameters<Explainer<Flow>['acted']>): void {
    this.#first.acted(...of)
    this.#second.acted(...of)
  }

  unknown(what: string): void {
    this.#first.unknown?.(what)
  }
}
