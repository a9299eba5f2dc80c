import { UNREACHED } from '../flow/error-codes.js'
import type { FlowRequest } from '../flow/flow.js'
import type { Clock } from '../lib/clock.js'
import { ownRecords, SharedRecord } from '../lib/shared-records.js'
import type { Retries, RetryCondition } from '../runtime/plan.js'
import type { Answer } from '../transport/contract.js'
import { isIn, type Server } from './server.js'

/** Defaults of a backend without retry settings. */
const USUAL: Retries = {
  attempts: 3,
  on: ['connect', 'refused_stream', 'closed'],
  statuses: [],
  methods: 'idempotent'
}

/** Methods by RFC 9110 9.2.1 and 9.2.2. */
const METHODS: Readonly<Record<Retries['methods'], ReadonlySet<string>>> = {
  safe: new Set(['GET', 'HEAD', 'OPTIONS']),
  idempotent: new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])
}

/** Retries allowed in addition to the share of requests. */
const RESERVE = 10

/** Returns the server with an established connection for the request, if it outran the dialled one. */
export function successorOf(answer: Answer, server: Server): Server | undefined {
  return answer.kind === 'failed' && answer.failure === 'dial-outrun' ? server.successor : undefined
}

export function retriesOf({ settings: { retries } }: Server): Retries {
  return retries ?? USUAL
}

/** Returns true if the response may be retried where that is safe. */
export function isRefusal(answer: Answer, server: Server, retries: Retries): boolean {
  if (answer.kind !== 'response') return false
  return server.failsWith(answer.head.status) || isIn(retries.statuses, answer.head.status)
}

/** Returns true if no connection to the server was established. */
export function isUnreached(answer: Answer): boolean {
  return answer.kind === 'failed' && UNREACHED.has(answer.failure)
}

/**
 * Returns true if the request may be retried after this failure or response. Its body must be missing, empty, bytes, or complete in its
 * engine; methods other than the allowed ones are retried only if the request was not processed.
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

/** Returns true if the request has content of zero bytes. */
export function isEmpty(body: FlowRequest['body']): boolean {
  return !(body instanceof Uint8Array) && body.framing.kind === 'length' && body.framing.bytes === 0
}

function conditionOf(answer: Extract<Answer, { kind: 'failed' }>): RetryCondition | undefined {
  const { failure, retry } = answer
  if (retry === 'never') return failure === 'upstream-timeout' ? 'timeout' : undefined
  if (isUnreached(answer)) return 'connect'
  return retry === 'safe' ? 'refused_stream' : 'closed'
}

/** Index of the used part of the reserve. */
const GONE = 0
/** Index of the start of the current second (+ 1; 0: none). */
const SECOND = 1
/** Index of the number of retries in that second. */
const IN_SECOND = 2
/** Numbers in the record of a budget. */
export const BUDGET_NUMBERS = 3

/** Returns the name of the record with a unit's budget. */
export function budgetName(key: string): string {
  return `retries ${key}`
}

/**
 * Limits the retries of one backend over all requests of the process, so that they do not worsen an outage. In any period they are at most
 * the share of its requests plus ten, and at most `perSecond` each second.
 */
export class RetryBudget {
  readonly #clock: Clock
  #record: SharedRecord | undefined

  /** `record`: has `BUDGET_NUMBERS`; until it is available, limited retries are denied. */
  constructor(clock: Clock, record: SharedRecord | Promise<SharedRecord> = ownRecords.of('', BUDGET_NUMBERS)) {
    this.#clock = clock
    if (record instanceof SharedRecord) this.#record = record
    // Without a record the backend has no limited retries.
    else
      record.then(
        (come) => {
          this.#record = come
        },
        () => undefined
      )
  }

  /** Counts a request that is not a retry. */
  earn({ share }: Retries): void {
    const record = this.#record
    if (share === undefined || record === undefined) return
    // Read without the lock: usually no reserve is used, so nothing can be earned.
    if (record.numbers[GONE] === 0 || !record.lock()) return
    record.numbers[GONE] = Math.max(0, (record.numbers[GONE] as number) - share)
    record.unlock()
  }

  /** Takes a retry out of the budget; returns false if it is exhausted. */
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
