import type { Expressions } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import { refuse } from '../../flow/verdict.js'
import { messageOf } from '../../lib/errors.js'
import { parseDuration } from '../../lib/units.js'
import { defineAction, ERROR_RESULTS } from '../../policy/action.js'
import { config, enforce } from '../../policy/fields.js'
import { policyErrors } from '../../policy/problems.js'
import { type CounterDefinition, serviceKey } from '../../policy/services.js'
import { policyWarnings } from '../../policy/warnings/codes.js'
import { choice, duration, either, expression, integer, list, optional, text } from '../../schema/values.js'
import { allowOrBlock, defineFeature, defineGauge, lastResults } from '../contract.js'
import { amountOf, mustFit } from './amount.js'
import { limitRelay } from './elsewhere.js'
import { rateLimitErrors } from './errors.js'
import { type ClusterLimiter, clusterLimits, limitRules } from './leases/cluster-limits.js'
import { type Decision, undecided } from './limiter/decision.js'
import type { Limiter } from './limiter/sliding-window.js'
import type { LimiterStatistics } from './limiter/statistics.js'
import { LimitState, RunningLimit } from './limits.js'
import { refusedKeys } from './refused-keys.js'
import { BucketOfRequest } from './request-bucket.js'

/** Counts of requests by bucket. In a process without a table, windows exist but admit everything uncounted. */
export const limiter = serviceKey<Limiter>('limiter', () => ({
  window: () => ({ take: notCounted, peek: notCounted, forget: notCounted }),
  statistics: notCounted
}))

function notCounted(): never {
  throw new TypeError('a document that is only checked counts no request')
}

/** `draft` adds `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10) to responses. */
export const rateLimitHeaders = serviceKey<'none' | 'draft'>('rate_limit_headers', () => 'none')

/**
 * Returns `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10): quota, remaining requests, and seconds until the
 * full quota is free. Several limits are members of one list.
 */
function rateLimitFields(
  name: string,
  seconds: number
): (flow: Flow, capacity: number, remaining: number, resetSeconds: number) => void {
  const member = structuredString(name)
  let last = 0
  let policy = ''
  return (flow, capacity, remaining, resetSeconds) => {
    // Most limits have a constant capacity.
    if (capacity !== last) policy = `${member};q=${capacity};w=${seconds}`
    last = capacity
    flow.responseFields ??= []
    flow.responseFields.push('RateLimit-Policy', policy, 'RateLimit', `${member};r=${remaining};t=${resetSeconds}`)
  }
}

/** Encodes a String (RFC 9651 3.3.3); characters other than printable ASCII are percent-encoded. */
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
const MINUTE = 60_000
const LONGEST = 86_400_000
/** Key with one value per client address. */
const ADDRESS = /^\s*conn\s*\.\s*client_ip\s*$/
/** Maximum capacity and cost. */
const MOST = 2_000_000_000

const decisions: CounterDefinition = {
  kind: 'counter',
  name: 'sluice_rate_limit_total',
  help: 'Decisions of a limit: admitted, refused, would_refuse (not enforced).',
  labels: ['owner', 'name', 'result']
}

const gauge = (name: string, help: string, member: keyof LimiterStatistics) =>
  defineGauge(limiter, `sluice_limiter_${name}`, help, (table) => table.statistics()[member])

const ledgerGauge = (name: string, help: string, member: keyof ReturnType<ClusterLimiter['statistics']>) =>
  defineGauge(clusterLimits, `sluice_limit_ledger_${name}`, help, (cluster) => cluster?.statistics()[member] ?? 0)

/**
 * Admits at most `capacity` requests of a bucket in any period of `rate`; others get 429 with `retry-after`.
 *
 * A request counts as its `cost`. Refused requests do not count. The bucket is the tuple of the `bucket_key` values; requests whose key
 * expression fails share a bucket, which is limited like any other.
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
    rate: duration({
      description:
        'Length of the window: a multiple of 10s from 60s on; below only with limiter.short_windows in the options',
      min: SECOND,
      max: LONGEST,
      multiple: SECOND
    }),
    bucket_key: list(expression({ description: 'A part of the key of the bucket.' }), {
      description: 'CEL expressions; each distinct tuple of their values is a bucket of its own.',
      min: 1,
      max: 10
    }),
    scope: optional(
      choice(['server', 'cluster'], {
        description:
          'Who counts together. server: each process by itself. cluster: all processes on one PostgreSQL store (an extension of ' +
          'Sluice; a process with a store of its own counts by itself). Default: limiter.scope of the options.'
      })
    ),
    on_store_loss: optional(
      choice(['closed', 'local', 'open'], {
        description:
          'What a limit with scope cluster does while its store does not answer, once its permits are spent. closed: it refuses. local: it ' +
          'refuses for `rate`, then each process admits an equal share of capacity. open: it admits. Default: local.'
      })
    )
  }),
  configOptional: false,
  confined: {
    agent: (config, scope) => {
      if (config.scope === 'cluster')
        scope.unavailable(['scope'], 'an agent counts by itself; leave scope out, or say server')
      if (typeof config.rate === 'string' && (parseDuration(config.rate) ?? MINUTE) < MINUTE)
        scope.unavailable(['rate'], 'an agent has no option limiter.short_windows; write 60s or more')
    }
  },
  terminates: 'sometimes',
  denies: ({ enforce = true }) => enforce,
  counterName: ({ name }) => name,
  keys: ({ bucket_key }) => bucket_key.map((source, i) => ({ source, at: ['bucket_key', i] })),
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
  compile(config, scope) {
    const { name, algorithm, enforce = true, capacity: most, cost: weight = 1, rate, bucket_key } = config
    const { on_store_loss: loss = 'local' } = config
    const { services, owner } = scope
    const keys = bucket_key.map((source, i) => scope.expression(source, ['bucket_key', i]))
    for (const [i, source] of bucket_key.entries())
      if (ADDRESS.test(source)) scope.names({ kind: 'one-address', key: source.trim() }, ['bucket_key', i])
    const capacity = amountOf(most, 'capacity', { min: 1, max: MOST }, scope)
    const cost = amountOf(weight, 'cost', { min: 0, max: MOST }, scope)
    mustFit(cost, capacity, scope)
    const rules = scope.service(limitRules)
    const { scope: counts = rules.scope } = config
    const milliseconds = parseDuration(rate) ?? LONGEST
    const wrong = windowProblem(rate, rules.short_windows, counts)
    // A policy with a problem counts nothing.
    const seconds = (wrong === undefined ? milliseconds : LONGEST) / SECOND
    if (wrong !== undefined) scope.problem(['rate'], policyErrors.CONFIG_INVALID, wrong)
    else if (milliseconds < MINUTE && rules.short_windows === undefined)
      scope.warn(['rate'], policyWarnings.LIMIT_WINDOW_SHORT, messageOf(policyWarnings.LIMIT_WINDOW_SHORT))
    const [table, memory, relay] = [scope.service(limiter), scope.service(refusedKeys), scope.service(limitRelay)]
    if (counts === 'server' && config.on_store_loss !== undefined)
      scope.warn(['on_store_loss'], policyErrors.CONFIG_UNUSED, 'on_store_loss is for limits with scope: cluster')
    const cluster = counts === 'cluster' ? scope.service(clusterLimits) : undefined
    const together = cluster === undefined ? [] : ['scope: cluster']
    const kept = scope.keep(['rate-limit', name, seconds, ...bucket_key, ...together], (identity) => {
      const own = table.window(identity, seconds)
      const window = cluster?.window(identity, seconds, own) ?? own
      return { identity, state: new LimitState({ window, seconds, memory, identity, relay }) }
    })
    const { state } = kept
    const { window } = state
    const bucketKey = keys.map(({ source, type }) => ({ source, type }))
    const about = { name, algorithm, scope: counts, enforced: enforce, capacity, cost, seconds, bucketKey }
    scope.limit(new RunningLimit({ ...about, ...kept, clock: services.clock }))
    const counted = (result: string) => services.meter.counter(decisions, { owner, name, result })
    const [admitted, refused, wouldRefuse] = [counted('admitted'), counted('refused'), counted('would_refuse')]
    const fields = enforce && scope.service(rateLimitHeaders) === 'draft' ? rateLimitFields(name, seconds) : undefined
    const decided = (
      flow: Flow,
      bucket: BucketOfRequest,
      most: number,
      weight: number,
      decision: Readonly<Decision>
    ) => {
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
      const { remaining, retryAfterSeconds } = decision
      const limit = { name, used: Math.max(0, most - remaining), capacity: most, seconds }
      flow.refusal = { limit, retryAfter: retryAfterSeconds }
      return refuse(rateLimitErrors.RATE_LIMITED, ['retry-after', String(decision.retryAfterSeconds)])
    }
    return (flow) => {
      const bucket = new BucketOfRequest(keys, flow, services.expressions)
      const most = capacity.of(flow)
      const weight = cost.of(flow)
      if (typeof most === 'string' || typeof weight === 'string') return withoutAmount(flow, bucket, most, weight)
      const decision = window.take(bucket.key, most, weight, loss)
      return decision instanceof Promise
        ? decision.then((late) => decided(flow, bucket, most, weight, late))
        : decided(flow, bucket, most, weight, decision)
    }
    /** Refuses a request without a valid capacity or cost; nothing is counted. */
    function withoutAmount(flow: Flow, bucket: BucketOfRequest, most: number | string, weight: number | string) {
      const error = typeof most === 'string' ? rateLimitErrors.LIMIT_CAPACITY_FAILED : rateLimitErrors.LIMIT_COST_FAILED
      bucket.fails(error, typeof most === 'string' ? `capacity: ${most}` : `cost: ${weight}`)
      const decision = { ...undecided(), at: services.clock.monotonic() }
      const [shownMost, shownWeight] = [most, weight].map((amount) => (typeof amount === 'number' ? amount : 0))
      flow.publish('rate_limit', new Results(bucket, decision, shownMost ?? 0, shownWeight ?? 0, services.expressions))
      state.refuses(decision, 0, enforce, bucket)
      const counter = enforce ? refused : wouldRefuse
      counter.inc()
      if (!enforce) return undefined
      flow.refusal = { limit: { name, used: 0, capacity: 0, seconds } }
      return refuse(error)
    }
  }
})

/** Shortest window over a cluster (ms), several leases of permits; see docs/decisions.md. */
const SHORTEST_OVER_CLUSTER = 10_000

/** Returns the problem of a window of the length `rate`, if any; `short`: windows below a minute are accepted. */
function windowProblem(rate: string, short: boolean | undefined, counts: 'server' | 'cluster'): string | undefined {
  const length = parseDuration(rate) ?? LONGEST
  if (length >= MINUTE)
    return length % (10 * SECOND) === 0 ? undefined : `\`rate\` must be a multiple of 10s, not ${rate}`
  if (short === false)
    return `\`rate\` must be from 1m to 24h, not ${rate}; shorter windows need the option \`limiter.short_windows: on\``
  if (counts === 'server' || length >= SHORTEST_OVER_CLUSTER) return undefined
  return `\`rate\` must be 10s or more over a cluster, not ${rate}, because its processes lease permits for two seconds; write \`scope: server\`, or a longer window`
}

/** Published results. A class, because an object with its own accessor costs more than the limit itself. */
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

/** Returns when the last limit of a flow decided: monotonic milliseconds; undefined if none has. */
export function limitedAt(flow: Flow): number | undefined {
  return Results.timeOf(lastResults(flow, 'rate_limit'))
}

/** Returns the tuple as JSON for people. */
function tupleText(values: readonly unknown[], expressions: Expressions): string {
  return JSON.stringify(values.map((value) => (value === undefined ? '<error>' : expressions.dataOf(value))))
}

function decisionOf(limited: unknown): string | null {
  return typeof limited === 'boolean' ? allowOrBlock(!limited) : null
}

/** Feature: rate limits. */
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
    ledgerGauge(
      'calls',
      'Calls to the ledger of limits with scope cluster that were answered, since the start.',
      'calls'
    ),
    ledgerGauge('failures', 'Calls to it that were not answered.', 'failures'),
    ledgerGauge('granted', 'Permits that it has granted to this process since the start.', 'granted'),
    ledgerGauge('held', 'Permits that this process may spend without asking it.', 'held'),
    ledgerGauge('refused_alone', 'Requests refused because it did not answer.', 'refusedAlone'),
    ledgerGauge('admitted_alone', 'Requests admitted without it, as on_store_loss says.', 'admittedAlone'),
    gauge('buckets', 'Buckets in the table.', 'buckets'),
    gauge('bytes', 'Bytes of the table in use.', 'bytesInUse'),
    gauge('reserved_bytes', 'Bytes that the table may use.', 'bytesReserved'),
    gauge('folded', 'Live buckets folded into the sketch since the start.', 'folded'),
    gauge('sketch_refusals', 'Refusals that the sketch took part in.', 'sketchRefusals'),
    gauge('sketch_decisions', 'Decisions by the sketch since the start.', 'sketchDecisions')
  ],
  errors: [rateLimitErrors]
})
