import {
  ClusterLimits,
  type ClusterStatistics,
  clusterLimits,
  limitRules
} from '../../features/rate-limit/leases/cluster-limits.js'
import type { Clock } from '../../lib/clock.js'
import type { LedgerAnswer, LedgerCall, LimitLedger } from '../../lib/limit-ledger.js'
import type { Options } from '../../options/options.js'
import { type Provided, provide } from '../../policy/services.js'

/** Requests of a worker to the ledger of limits; the first is by far the most frequent. */
export type LedgerRequest =
  | { readonly about: 'call'; readonly call: LedgerCall }
  | { readonly about: 'clear'; readonly bucket: string }
  | { readonly about: 'leave'; readonly member: string }

/** Messages from a worker and to it. `answer`: undefined if the request has none. `failed`: the ledger did not respond. */
export type FromThreadLedger = { readonly kind: 'ledger'; readonly serial: number; readonly request: LedgerRequest }
export type ToThreadLedger =
  | {
      readonly kind: 'ledger-answer'
      readonly serial: number
      readonly answer: LedgerAnswer | undefined
      readonly failed: boolean
    }
  | { readonly kind: 'ledger-recall'; readonly bucket: string; readonly cleared: boolean }

/** Identity of a worker at the ledger. */
export interface ThreadMember {
  readonly secret: Uint8Array
  /** See `LedgerCall.member`. */
  readonly member: string
}

/** The ledger of limits in a thread that carries traffic: the thread of the control plane makes its calls. */
class ThreadLedger implements LimitLedger {
  readonly #post: (message: FromThreadLedger) => void
  readonly #asked = new Map<number, (answer: Extract<ToThreadLedger, { kind: 'ledger-answer' }>) => void>()
  #recalled: (id: string, cleared: boolean) => void = () => undefined
  #serial = 0

  constructor(post: (message: FromThreadLedger) => void) {
    this.#post = post
  }

  async exchange(call: LedgerCall): Promise<LedgerAnswer> {
    const answer = await this.#ask({ about: 'call', call })
    if (answer === undefined) throw new Error('the ledger of limits gave no answer')
    return answer
  }

  async clear(bucket: string): Promise<void> {
    await this.#ask({ about: 'clear', bucket })
  }

  /** The thread of the control plane does it. */
  async sweep(): Promise<void> {}

  async leave(member: string): Promise<void> {
    await this.#ask({ about: 'leave', member })
  }

  listen(recalled: (id: string, cleared: boolean) => void): () => void {
    this.#recalled = recalled
    return () => {
      this.#recalled = () => undefined
    }
  }

  async close(): Promise<void> {}

  receive(message: ToThreadLedger): void {
    if (message.kind === 'ledger-recall') {
      this.#recalled(message.bucket, message.cleared)
      return
    }
    this.#asked.get(message.serial)?.(message)
    this.#asked.delete(message.serial)
  }

  async #ask(request: LedgerRequest): Promise<LedgerAnswer | undefined> {
    const serial = ++this.#serial
    const answered = new Promise<Extract<ToThreadLedger, { kind: 'ledger-answer' }>>((resolve) =>
      this.#asked.set(serial, resolve)
    )
    this.#post({ kind: 'ledger', serial, request })
    const { answer, failed } = await answered
    if (failed) throw new Error('the ledger of limits does not answer')
    return answer
  }
}

/** The limits over the cluster of a thread that carries traffic. */
export interface ThreadLimits {
  readonly services: readonly Provided[]
  receive(message: ToThreadLedger): void
  statistics(): ClusterStatistics | undefined
  /** Gives its permits back. */
  close(): Promise<void>
}

/** Those of this thread; `as` is undefined where the process is alone on its store. */
export function threadLimits(
  { limiter }: Pick<Options, 'limiter'>,
  clock: Clock,
  as: ThreadMember | undefined,
  post: (message: FromThreadLedger) => void
): ThreadLimits {
  const rules = provide(limitRules, limiter)
  if (as === undefined)
    return {
      services: [rules],
      receive: () => undefined,
      statistics: () => undefined,
      close: () => Promise.resolve()
    }
  const ledger = new ThreadLedger(post)
  const limits = new ClusterLimits({ ledger, clock, ...as })
  return {
    services: [rules, provide(clusterLimits, limits)],
    receive: (message) => ledger.receive(message),
    statistics: () => limits.statistics(),
    close: () => limits.close()
  }
}

/** Makes the calls of threads. */
export class LedgerForThreads {
  readonly #ledger: LimitLedger
  readonly #send: (message: ToThreadLedger) => void
  #listens = false

  /** `send`: to all threads. */
  constructor(ledger: LimitLedger, send: (message: ToThreadLedger) => void) {
    this.#ledger = ledger
    this.#send = send
  }

  /** Answers a thread by `send`. */
  async answer({ serial, request }: FromThreadLedger, send: (message: ToThreadLedger) => void): Promise<void> {
    if (!this.#listens) {
      this.#listens = true
      this.#ledger.listen((bucket, cleared) => this.#send({ kind: 'ledger-recall', bucket, cleared }))
    }
    try {
      send({ kind: 'ledger-answer', serial, answer: await this.#asked(request), failed: false })
    } catch {
      send({ kind: 'ledger-answer', serial, answer: undefined, failed: true })
    }
  }

  /** Releases the share of an ended worker; its permits expire. */
  ended(member: string): void {
    if (this.#listens) this.#ledger.leave(member).catch(() => undefined)
  }

  async #asked(request: LedgerRequest): Promise<LedgerAnswer | undefined> {
    switch (request.about) {
      case 'call':
        return await this.#ledger.exchange(request.call)
      case 'clear':
        await this.#ledger.clear(request.bucket)
        return undefined
      default:
        await this.#ledger.leave(request.member)
        return undefined
    }
  }
}
