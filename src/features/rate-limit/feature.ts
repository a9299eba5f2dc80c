import { EvaluationError, type Expression, type Expressions } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import { refuse } from '../../flow/verdict.js'
import { type Coded, defineErrors } from '../../lib/errors.js'
import { parseDuration } from '../../lib/units.js'
import { defineAction, ERROR_RESULTS } from '../../policy/action.js'
import { config, enforce } from '../../policy/fields.js'
import { type CounterDefinition, serviceKey } from '../../policy/services.js'
import { choice, duration, either, expression, integer, list, optional, text } from '../../schema/values.js'
import { allowOrBlock, defineFeature, defineGauge, lastResults } from '../contract.js'
import { amountOf, mustFit } from './amount.js'
import { limitRelay } from './elsewhere.js'
import { type Decision, undecided } from './limiter/decision.js'
import { encodeKey } from './limiter/layout.js'
import type { Limiter } from './limiter/sliding-window.js'
import type { LimiterStatistics } from './limiter/statistics.js'
import { KEY_MARKS, LimitState, RunningLimit } from './limits.js'
import { refusedKeys } from './refused-keys.js'

/** Codes of the action rate-limit. */
const rateLimitErrors = defineErrors({
  RATE_LIMITED: {
    status: 429,
    text: 'The bucket of the request is used up.',
    help: 'Wait as many seconds as retry-after says, or raise capacity.'
  },
  BUCKET_KEY_ABSENT: {
    text: 'A value that the key of the bucket is made of is absent; the request counts in a common bucket.',
    help: 'Use an expression that always has a value.'
  },
  BUCKET_KEY_FAILED: {
    text: 'An expression of the key of the bucket failed; the request counts in a common bucket.',
    help: 'Correct the expression.'
  },
  LIMIT_CAPACITY_FAILED: {
    status: 500,
    text: 'The capacity of a limit has no value for the request, which is refused: how many may pass is not known.',
    help: 'Use an expression that is a whole number from 1 to 2000000000 for every request.'
  },
  LIMIT_COST_FAILED: {
    status: 500,
    text: 'The cost of a request has no value, and the request is refused: what it weighs is not known.',
    help: 'Use an expression that is a whole number from 0 to 2000000000 for every request, such as has(vars.weight) ? vars.weight : 1.'
  }
})

/** Counts of requests by bucket. Where the process provides no table, windows can be made and decide nothing. */
export const limiter = serviceKey<Limiter>('limiter', () => ({
  window: () => ({ take: notCounted, peek: notCounted, forget: notCounted }),
  statistics: notCounted
}))

function notCounted(): never {
  throw new TypeError('a document that is only checked counts no request')
}

/** `draft` adds `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10) to answers. */
export const rateLimitHeaders = serviceKey<'none' | 'draft'>('rate_limit_headers', () => 'none')

/**
 * `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10: the quota of the window, what is left
 * of it, and the seconds until all of it is. Several limits give several members of the same list.
 */
function rateLimitFields(
  name: string,
  seconds: number
): (flow: Flow, capacity: number, remaining: number, resetSeconds: number) => void {
  const member = structuredString(name)
  let last = 0
  let policy = ''
  return (flow, capacity, remaining, resetSeconds) => {
    // Most limits have one capacity.
    if (capacity !== last) policy = `${member};q=${capacity};w=${seconds}`
    last = capacity
    flow.responseFields ??= []
    flow.responseFields.push('RateLimit-Policy', policy, 'RateLimit', `${member};r=${remaining};t=${resetSeconds}`)
  }
}

/** A String of RFC 9651 3.3.3; it holds printable ASCII only, so other characters are percent-encoded. */
function structuredString(text: string): string {
  const printable = Array.from(text, (character) =>
    /[\x20-\x7e]/.test(character) ? character : percent(character)
  ).join('')
  return `"${printable.replace(/["\\]/g, '\\$&')}"`
}

function percent(character: string): string {
  return Array.from(
    Buffer.from(character, 'utf8'),
    (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  ).join('')
}

const SECOND = 1_000
const DAY = 86_400_000
/** A key that has a value for each address of a client. */
const ADDRESS = /^\s*conn\s*\.\s*client_ip\s*$/
/** Most that may pass, or that a request weighs. */
const MOST = 2_000_000_000

const decisions: CounterDefinition = {
  kind: 'counter',
  name: 'sluice_rate_limit_total',
  help: 'Decisions of a limit: admitted, refused, would_refuse (not enforced).',
  labels: ['owner', 'name', 'result']
}

const gauge = (name: string, help: string, member: keyof LimiterStatistics) =>
  defineGauge(limiter, `sluice_limiter_${name}`, help, (table) => table.statistics()[member])

/**
 * Lets at most `capacity` requests of one bucket through in any `rate`; what is over gets 429 with `retry-after`.
 *
 * A request counts for as many as its `cost` says. Refused requests do not count. The bucket is the tuple of the `bucket_key` values; a key whose expression fails puts
 * the request into a bucket for such requests, which is limited like any other.
 */
const action = defineAction({
  type: 'rate-limit',
  summary: 'Refuses requests beyond a number within a sliding window.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: rate-limit
        config:
          name: each-client
          algorithm: sliding_window
          capacity: 100
          rate: 60s
          bucket_key: ['conn.client_ip']
`,
    request: 'GET /',
    status: 200
  },
  phases: ['on_http_request'],
  config: config({
    name: text({
      description: 'Name of the limit; part of the identity of its buckets.',
      min: 1,
      max: 1023,
      exact: true
    }),
    enforce: enforce(),
    algorithm: choice(['sliding_window'], { description: 'How requests are counted.' }),
    capacity: either(
      [
        integer({ description: 'For every request.', min: 1, max: MOST }),
        expression({ description: 'CEL: a whole number, for each request.' })
      ],
      {
        description:
          'Requests of one bucket that may pass in any span of `rate`: a number, or CEL that says it for each request.'
      }
    ),
    cost: optional(
      either(
        [
          integer({ description: 'For every request.', min: 0, max: MOST }),
          expression({ description: 'CEL: a whole number, for each request.' })
        ],
        {
          description:
            'For how many requests one counts, 0 to `capacity`: a number, or CEL that says it for each request. Default 1.'
        }
      )
    ),
    rate: duration({ description: 'Length of the window', min: 60 * SECOND, max: DAY, multiple: 10 * SECOND }),
    bucket_key: list(expression({ description: 'A part of the key of the bucket.' }), {
      description: 'CEL expressions; each distinct tuple of their values is a bucket of its own.',
      min: 1,
      max: 10
    })
  }),
  configOptional: false,
  terminates: 'sometimes',
  denies: ({ enforce = true }) => enforce,
  counterName: ({ name }) => name,
  results: {
    name: 'rate_limit',
    fields: {
      bucket_key: ['string', 'The bucket that the request counted in.'],
      limited: ['bool', 'Was it over the limit?'],
      remaining: ['int', 'How many more the bucket would admit now.'],
      reset_seconds: ['int', 'Seconds until the bucket admits as many as it can hold.'],
      capacity: ['int', 'The capacity for the request; 0 when it has none.'],
      cost: ['int', 'For how many requests it counts.'],
      ...ERROR_RESULTS
    }
  },
  compile({ name, algorithm, enforce = true, capacity: most, cost: weight = 1, rate, bucket_key }, scope) {
    const { services, owner } = scope
    const keys = bucket_key.map((source, i) => scope.expression(source, ['bucket_key', i]))
    for (const [i, source] of bucket_key.entries())
      if (ADDRESS.test(source)) scope.names({ kind: 'one-address', key: source.trim() }, ['bucket_key', i])
    const capacity = amountOf(most, 'capacity', { min: 1, max: MOST }, scope)
    const cost = amountOf(weight, 'cost', { min: 0, max: MOST }, scope)
    mustFit(cost, capacity, scope)
    const seconds = (parseDuration(rate) ?? DAY) / SECOND
    const [table, memory, relay] = [scope.service(limiter), scope.service(refusedKeys), scope.service(limitRelay)]
    const kept = scope.keep(['rate-limit', name, seconds, ...bucket_key], (identity) => {
      const window = table.window(identity, seconds)
      return { identity, state: new LimitState({ window, seconds, memory, identity, relay }) }
    })
    const { state } = kept
    const { window } = state
    const bucketKey = keys.map(({ source, type }) => ({ source, type }))
    const about = { name, algorithm, enforced: enforce, capacity, cost, seconds, bucketKey }
    scope.limit(new RunningLimit({ ...about, ...kept, clock: services.clock }))
    const counted = (result: string) => services.meter.counter(decisions, { owner, name, result })
    const [admitted, refused, wouldRefuse] = [counted('admitted'), counted('refused'), counted('would_refuse')]
    const fields = enforce && scope.service(rateLimitHeaders) === 'draft' ? rateLimitFields(name, seconds) : undefined
    return (flow) => {
      const bucket = new BucketOfRequest(keys, flow, services.expressions)
      const most = capacity.of(flow)
      const weight = cost.of(flow)
      if (typeof most === 'string' || typeof weight === 'string') return withoutAmount(flow, bucket, most, weight)
      const decision = window.take(bucket.key, most, weight)
      fields?.(flow, most, decision.remaining, decision.resetSeconds)
      flow.publish('rate_limit', new Results(bucket, decision, most, weight, services.expressions))
      if (decision.admitted) {
        state.admits(decision, most, weight)
        admitted.inc()
        return undefined
      }
      state.refuses(decision, most, enforce, bucket)
      if (!enforce) {
        wouldRefuse.inc()
        return undefined
      }
      refused.inc()
      return refuse(rateLimitErrors.RATE_LIMITED, ['retry-after', String(decision.retryAfterSeconds)])
    }
    /** Nothing is asked and nothing counts: what cannot be held against the limit does not pass it. */
    function withoutAmount(flow: Flow, bucket: BucketOfRequest, most: number | string, weight: number | string) {
      const error = typeof most === 'string' ? rateLimitErrors.LIMIT_CAPACITY_FAILED : rateLimitErrors.LIMIT_COST_FAILED
      bucket.fails(error, typeof most === 'string' ? `capacity: ${most}` : `cost: ${weight}`)
      const decision = { ...undecided(), at: services.clock.monotonic() }
      const [shownMost, shownWeight] = [most, weight].map((amount) => (typeof amount === 'number' ? amount : 0))
      flow.publish('rate_limit', new Results(bucket, decision, shownMost ?? 0, shownWeight ?? 0, services.expressions))
      state.refuses(decision, 0, enforce, bucket)
      const counter = enforce ? refused : wouldRefuse
      counter.inc()
      return enforce ? refuse(error) : undefined
    }
  }
})

/** What the action publishes. A class, because an object with an accessor of its own costs more than the limit itself. */
class Results {
  readonly [field: string]: unknown
  readonly #at: number
  readonly limited: boolean
  readonly remaining: number
  readonly reset_seconds: number
  readonly capacity: number
  readonly cost: number
  readonly 'error.code': string
  readonly 'error.message': string
  readonly #values: readonly unknown[]
  readonly #expressions: Expressions

  constructor(
    { values, errorCode, errorMessage }: BucketOfRequest,
    { at, admitted, remaining, resetSeconds }: Decision,
    capacity: number,
    cost: number,
    expressions: Expressions
  ) {
    this.#at = at
    this.limited = !admitted
    this.remaining = remaining
    this.reset_seconds = resetSeconds
    this.capacity = capacity
    this.cost = cost
    this['error.code'] = errorCode
    this['error.message'] = errorMessage
    this.#values = values
    this.#expressions = expressions
  }

  get bucket_key(): string {
    return tupleText(this.#values, this.#expressions)
  }

  static timeOf(results: unknown): number | undefined {
    return results instanceof Results ? results.#at : undefined
  }
}

/** When the last limit of a flow decided: monotonic milliseconds; undefined: none has. */
export function limitedAt(flow: Flow): number | undefined {
  return Results.timeOf(lastResults(flow, 'rate_limit'))
}

/** The bucket of one request. */
class BucketOfRequest {
  readonly key: string
  /** The values of the tuple; one that failed is undefined. */
  readonly values: readonly unknown[]
  errorCode: string
  errorMessage: string
  readonly #expressions: Expressions

  constructor(keys: readonly Expression[], flow: Flow, expressions: Expressions) {
    const parts: string[] = []
    const values: unknown[] = []
    let errorCode = ''
    let errorMessage = ''
    for (let i = 0; i < keys.length; i++) {
      const value = (keys[i] as Expression).outcome(flow)
      const part = value instanceof EvaluationError ? value : partOf(value, expressions)
      if (typeof part === 'string') {
        parts.push(part)
        values.push(value)
        continue
      }
      parts.push(KEY_MARKS.failed)
      values.push(undefined)
      if (errorCode === '') {
        const error = part.kind === 'absent' ? rateLimitErrors.BUCKET_KEY_ABSENT : rateLimitErrors.BUCKET_KEY_FAILED
        errorCode = error.code
        errorMessage = `bucket_key[${i}]: ${part.message}`
      }
    }
    this.key = encodeKey(parts)
    this.values = values
    this.errorCode = errorCode
    this.errorMessage = errorMessage
    this.#expressions = expressions
  }

  /** Nothing can be decided for the request. */
  fails({ code }: Coded, message: string): void {
    this.errorCode = code
    this.errorMessage = message
  }

  /** The values as a JSON list; null for one that failed. */
  text(): string {
    return JSON.stringify(this.values.map((value) => (value === undefined ? null : this.#expressions.dataOf(value))))
  }
}

function partOf(value: unknown, expressions: Expressions): string | EvaluationError {
  if (typeof value === 'string') return `${KEY_MARKS.text}${value}`
  try {
    return `${KEY_MARKS.data}${JSON.stringify(expressions.dataOf(value))}`
  } catch (error) {
    if (error instanceof EvaluationError) return error
    throw error
  }
}

/** The tuple as JSON, for people. */
function tupleText(values: readonly unknown[], expressions: Expressions): string {
  return JSON.stringify(values.map((value) => (value === undefined ? '<error>' : expressions.dataOf(value))))
}

function decisionOf(limited: unknown): string | null {
  return typeof limited === 'boolean' ? allowOrBlock(!limited) : null
}

/** Limits how often something may happen. */
export const rateLimit = defineFeature({
  name: 'rate-limit',
  summary: 'Limits how many requests of one bucket pass in a sliding window.',
  actions: [action],
  eventFields: {
    http: {
      'rate_limit.decision': {
        type: 'string',
        description: 'allow or block, by the last action rate-limit that ran, enforced or not; null when none did.',
        read: ({ flow }) => decisionOf(lastResults(flow, 'rate_limit')?.limited)
      }
    }
  },
  metrics: [
    decisions,
    gauge('buckets', 'Buckets in the table.', 'buckets'),
    gauge('bytes', 'Bytes of the table in use.', 'bytesInUse'),
    gauge('reserved_bytes', 'Bytes that the table may use.', 'bytesReserved'),
    gauge('folded', 'Live buckets folded into the sketch since the start.', 'folded'),
    gauge('sketch_refusals', 'Refusals that the sketch took part in.', 'sketchRefusals'),
    gauge('sketch_decisions', 'Decisions by the sketch since the start.', 'sketchDecisions')
  ],
  errors: [rateLimitErrors]
})
