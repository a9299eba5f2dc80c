import type { Exchange } from '../flow/exchange.js'
import type { Explainer } from '../flow/explainer.js'
import type { Flow } from '../flow/flow.js'
import type { FlowTrace } from '../flow/trace.js'
import type { ExchangeRecord } from '../telemetry/access-log.js'
import type { AdmittedFlow } from './admission.js'

/** Observes exchanges of clients. Its methods do not throw. */
export interface ExchangeObserver {
  /**
   * Called for an admitted exchange before its first step. Returns a recorder of the decisions, if any, or `passed-over`: then only `ended`
   * is called.
   */
  begins(exchange: Exchange, flow: AdmittedFlow): Explainer<Flow> | 'passed-over' | undefined
  /** Called before the request is forwarded with the flow's final state. `upstream`: key of the unit; undefined if the route has none. */
  forwards?(flow: Flow, upstream: string | undefined): void
  /** Called with the final response header in `flow.response`. `code`: code of the error, if it is one. */
  answers?(flow: Flow, status: number, code: string | undefined): void
  /** Called for each exchange, also for one that was not admitted. */
  ended(record: ExchangeRecord): void
}

/** Creates traces of requests. `begun`: monotonic start time in milliseconds. Its methods do not throw. */
export interface RequestTracer {
  /** Called for each admitted request of a client. */
  begins(flow: AdmittedFlow, begun: number): FlowTrace
  /** Called for each request of a client, also for one that was not admitted. */
  ended(record: ExchangeRecord, begun: number): void
}

/** Observers of client exchanges. Without observers an exchange costs one comparison. */
export class Observers {
  #list: readonly ExchangeObserver[] = []

  /** Observers in the order added. */
  get list(): readonly ExchangeObserver[] {
    return this.#list
  }

  /** Adds an observer for new exchanges. Returns the function that removes it. */
  add(observer: ExchangeObserver): () => void {
    this.#list = [...this.#list, observer]
    return () => {
      this.#list = this.#list.filter((one) => one !== observer)
    }
  }

  /** Notifies observers of a new exchange and uses the first explainer returned. Returns true if an observer wants calls before the end. */
  begins(exchange: Exchange, flow: AdmittedFlow): boolean {
    let observed = false
    for (const observer of this.#list) {
      const own = observer.begins(exchange, flow)
      if (own === 'passed-over') continue
      observed = true
      flow.explainer ??= own
    }
    return observed
  }

  forwards(flow: Flow, upstream: string | undefined): void {
    for (const observer of this.#list) observer.forwards?.(flow, upstream)
  }

  answers(flow: Flow, status: number, code: string | undefined): void {
    for (const observer of this.#list) observer.answers?.(flow, status, code)
  }

  ended(record: ExchangeRecord): void {
    for (const observer of this.#list) observer.ended(record)
  }
}
