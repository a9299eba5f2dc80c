import { UNREACHED } from '../flow/error-codes.js'
import type { FlowRequest } from '../flow/flow.js'
import type { Clock } from '../lib/clock.js'
import { ownRecords, SharedRecord } from '../lib/shared-records.js'
import type { Retries, RetryCondition } from '../runtime/plan.js'
import type { Answer } from '../transport/contract.js'
import { isIn, type Server } from './server.js'

/** What holds for a backend that says nothing of retries. */
const USUAL: Retries = {
  attempts: 3,
  on: ['connect', 'refused_stream', 'closed'],
  statuses: [],
  methods: 'idempotent'
}

/** RFC 9110 9.2.1 and 9.2.2. */
const METHODS: Readonly<Record<Retries['methods'], ReadonlySet<string>>> = {
  safe: new Set(['GET', 'HEAD', 'OPTIONS']),
  idempotent: new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])
}

/** Retries that a share of requests may come to before any request has been counted. */
const RESERVE = 10

/** The server whose connection waits for the request, because it was first while another one was dialled. */
export function successorOf(answer: Answer, server: Server): Server | undefined {
  return answer.kind === 'failed' && answer.failure === 'dial-outrun' ? server.successor : undefined
}

export function retriesOf({ settings: { retries } }: Server): Retries {
  return retries ?? USUAL
}

/** Is this an answer after which another try is made, where that is safe? */
export function isRefusal(answer: Answer, server: Server, retries: Retries): boolean {
  if (answer.kind !== 'response') return false
  return server.failsWith(answer.head.status) || isIn(retries.statuses, answer.head.status)
}

/** Did no connection to the server come about? */
export function isUnreached(answer: Answer): boolean {
  return answer.kind === 'failed' && UNREACHED.has(answer.failure)
}

/**
 * May the request be sent again after this failure or refusal? Only a body that is absent, empty, bytes, or still whole in its engine can
 * be, and only what was not processed goes again whatever its method is.
 */
export function mayRetry(answer: Answer, request: FlowRequest, { on, methods }: Retries): boolean {
  if (!isRepeatable(request.body)) return false
  if (answer.kind !== 'failed') return METHODS[methods].has(request.method)
  const condition = conditionOf(answer)
  if (condition === undefined || !on.includes(condition)) return false
  return answer.retry === 'safe' || METHODS[methods].has(request.method)
}

function isRepeatable(body: FlowRequest['body']): boolean {
  if (body instanceof Uint8Array) return true
  return body.framing.kind === 'none' || isEmpty(body) || !body.taken
}

/** Did the client say that there is content, of no bytes? */
export function isEmpty(body: FlowRequest['body']): boolean {
  return !(body instanceof Uint8Array) && body.framing.kind === 'length' && body.framing.bytes === 0
}

function conditionOf(answer: Extract<Answer, { kind: 'failed' }>): RetryCondition | undefined {
  const { failure, retry } = answer
  if (retry === 'never') return failure === 'upstream-timeout' ? 'timeout' : undefined
  if (isUnreached(answer)) return 'connect'
  return retry === 'safe' ? 'refused_stream' : 'closed'
}

/** What is gone of the reserve, when the present second began (+ 1; 0: none has), and retries in it. */
const GONE = 0
const SECOND = 1
const IN_SECOND = 2
/** How many numbers the record of a budget has. */
export const BUDGET_NUMBERS = 3

/** Name of the record with the budget of a unit. */
export function budgetName(key: string): string {
  return `retries ${key}`
}

/**
 * Bounds the retries of one backend, all requests of the process together, so that an outage is not made worse by them. In any stretch
 * of time there are no more of them than the share of its requests and ten, and no more in a second than `perSecond`.
 */
export class RetryBudget {
  readonly #clock: Clock
  #record: SharedRecord | undefined

  /** `record`: has `BUDGET_NUMBERS`; where it is still on its way there is no retry that a bound counts. */
  constructor(clock: Clock, record: SharedRecord | Promise<SharedRecord> = ownRecords.of('', BUDGET_NUMBERS)) {
    this.#clock = clock
    if (record instanceof SharedRecord) this.#record = record
    // What never comes leaves the backend without such retries.
    else
      record.then(
        (come) => {
          this.#record = come
        },
        () => undefined
      )
  }

  /** A request came, which is no retry. */
  earn({ share }: Retries): void {
    const record = this.#record
    if (share === undefined || record === undefined) return
    // Read beside the lock: where nothing is gone nothing can be earned, and that is nearly always so.
    if (record.numbers[GONE] === 0 || !record.lock()) return
    record.numbers[GONE] = Math.max(0, (record.numbers[GONE] as number) - share)
    record.unlock()
  }

  /** Takes a retry out of the budget; false when there is none left. */
  take({ share, perSecond }: Retries): boolean {
    if (share === undefined && perSecond === undefined) return true
    const record = this.#record
    if (record === undefined || !record.lock()) return false
    try {
      const gone = record.numbers[GONE] as number
      if (share !== undefined && RESERVE - gone < 1) return false
      if (perSecond !== undefined && !this.#takeInSecond(record.numbers, perSecond)) return false
      if (share !== undefined) record.numbers[GONE] = gone + 1
      return true
    } finally {
      record.unlock()
    }
  }

  #takeInSecond(numbers: Float64Array, most: number): boolean {
    const now = this.#clock.monotonic() + 1
    if (numbers[SECOND] === 0 || now - (numbers[SECOND] as number) >= 1_000) {
      numbers[IN_SECOND] = 0
      numbers[SECOND] = now
    }
    if ((numbers[IN_SECOND] as number) >= most) return false
    numbers[IN_SECOND] = (numbers[IN_SECOND] as number) + 1
    return true
  }
}
