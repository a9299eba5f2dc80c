import type { Exchange } from '../flow/exchange.js'
import type { Explainer } from '../flow/explainer.js'
import type { Flow } from '../flow/flow.js'
import type { FlowTrace } from '../flow/trace.js'
import type { ExchangeRecord } from '../telemetry/access-log.js'
import type { AdmittedFlow } from './admission.js'

/** Looks at exchanges of clients. Its methods do not throw. */
export interface ExchangeObserver {
  /**
   * An exchange is admitted and no step has run. Answers what takes down how it is decided, if anything does, or that it is passed
   * over: then it is asked again only when the exchange has ended.
   */
  begins(exchange: Exchange, flow: AdmittedFlow): Explainer<Flow> | 'passed-over' | undefined
  /** The request is about to be forwarded as the flow has it. `upstream`: key of the unit; undefined: the route has none. */
  forwards?(flow: Flow, upstream: string | undefined): void
  /** The head of the answer is final, as `flow.response` has it. `code`: of the error that it is, if it is one. */
  answers?(flow: Flow, status: number, code: string | undefined): void
  /** Called for each exchange, also for one that was not admitted. */
  ended(record: ExchangeRecord): void
}

/** Makes traces of requests. `begun`: monotonic time of the start in milliseconds. Its methods do not throw. */
export interface RequestTracer {
  /** Called for each admitted request of a client. */
  begins(flow: AdmittedFlow, begun: number): FlowTrace
  /** Called for each request of a client, also for one that was not admitted. */
  ended(record: ExchangeRecord, begun: number): void
}

/** What looks at exchanges of clients. An exchange costs one comparison while nothing does. */
export class Observers {
  #list: readonly ExchangeObserver[] = []

  /** In the order in which they were added. */
  get list(): readonly ExchangeObserver[] {
    return this.#list
  }

  /** Looks at exchanges that begin from now on. Answers the way to stop. */
  add(observer: ExchangeObserver): () => void {
    this.#list = [...this.#list, observer]
    return () => {
      this.#list = this.#list.filter((one) => one !== observer)
    }
  }

  /**
   * An exchange begins. The first explainer that an observer answers takes it down; the later ones are not used. Is it looked at
   * before it ends?
   */
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
