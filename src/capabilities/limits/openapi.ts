import {
  answer,
  integer,
  listOf,
  object,
  operation,
  orNull,
  type Paths,
  parametersOf,
  ref,
  text,
  textOrNull,
  time,
  titledObject
} from '../../api/openapi-parts.js'
import { ACCOUNT_RIGHTS } from '../../control/rights.js'
import { BUCKETS_PATH, LIMITS_PATH, ONE_LIMIT_PATH, TOP_PATH } from './routes.js'

const TAG = 'Limits'
const MEMBER = ACCOUNT_RIGHTS.limits.member ? 'any' : 'none'

const count = { ...integer, minimum: 0 } as const
const countOrNull = orNull(count)
const KEY = orNull(
  listOf({}, 'The values of bucket_key; null for one that failed, [redacted] for what sounds like a secret.')
)

const LIMIT = {
  id: { ...text, description: 'The same as long as owner, name, rate and bucket_key are: its buckets go on.' },
  uri: text,
  owner: object({
    kind: { ...text, enum: ['options', 'route', 'edge', 'endpoint'], description: 'What the policy belongs to.' },
    id: text,
    name: { ...text, description: 'Hosts and path.' },
    uri: { ...textOrNull, description: 'Null for the policy of the options, and for what agents serve.' }
  }),
  policy: object({
    source: { ...text, description: 'Where its text came from: a file, or a path of this API.' },
    line: { ...integer, minimum: 1 },
    column: { ...integer, minimum: 1 }
  }),
  phase: text,
  rule: { ...text, description: 'Name of the rule, or #index when it has none.' },
  rule_index: { ...count, description: 'Of the rule in its phase.' },
  name: text,
  algorithm: text,
  scope: {
    ...text,
    enum: ['server', 'cluster'],
    description: 'server: each process counts by itself; cluster: all processes on one PostgreSQL store count together.'
  },
  capacity: {
    ...countOrNull,
    description:
      'Requests of one bucket that may pass in any span of rate; null: an expression says it for each request.'
  },
  capacity_expression: { ...textOrNull, description: 'The expression; null where the capacity is a number.' },
  cost: { ...countOrNull, description: 'For how many a request counts; null: an expression says it.' },
  cost_expression: { ...textOrNull, description: 'The expression; null where the cost is a number.' },
  rate: { ...text, description: 'Length of the window.' },
  rate_seconds: count,
  bucket_key: listOf(text, 'Expressions; each tuple of their values is a bucket.'),
  enforce: { type: 'boolean', description: 'false: what is over is counted and let through.' },
  buckets: { ...count, description: 'Buckets that hold an admission now.' },
  admitted: { ...count, description: 'Since the limit began in this process.' },
  refused: count,
  would_refuse: { ...count, description: 'Over the capacity while it was not enforced.' },
  recent: {
    ...object({ admitted: count, refused: count }),
    description: 'Of the last five minutes; refused: over the capacity, enforced or not.'
  }
} as const

const STEP = object({
  at: { ...time, description: 'When the step began.' },
  admitted: count,
  refused: { ...count, description: 'Over the capacity, enforced or not.' },
  used: { ...count, description: 'Admissions that the fullest of the asked buckets held.' }
})

const REFERENCE = object({ id: text, uri: text, name: text })

const BUCKET = titledObject('LimitBucket', {
  limit: REFERENCE,
  bucket: { ...text, description: 'What the process calls it; it does not tell its key.' },
  key: KEY,
  capacity: { ...countOrNull, description: 'Null where each request brings its own.' },
  used: { ...count, description: 'Admissions in the window.' },
  shared: {
    ...count,
    description: 'Of these, what is known of several keys together because the memory of the limiter is full.'
  },
  remaining: { ...countOrNull, description: 'Null where each request brings its own capacity.' },
  reset_seconds: { ...count, description: 'Until the whole capacity is free when nothing more is admitted.' },
  resets_at: time,
  retry_after_seconds: {
    ...countOrNull,
    description: 'Until the next request that counts once is admitted; 0: now; null where each brings its own capacity.'
  },
  next_admitted_at: orNull(time)
})

const REFUSED_KEY = object({
  bucket: { ...textOrNull, description: 'Names the bucket in other calls; null where the key is too long to be kept.' },
  key: KEY,
  failed: { type: 'boolean', description: 'An expression of the key failed; such requests share a bucket.' },
  refused: { ...count, description: 'Refusals at most.' },
  refused_at_least: count,
  last_refused_at: time
})

/** Adds limits and their buckets; answers their tag. */
export function describeLimits(paths: Paths, schemas: Record<string, object>): object {
  Object.assign(schemas, {
    LimitSummary: { ...object(LIMIT), title: 'LimitSummary' },
    Limit: {
      ...object({ ...LIMIT, series: object({ step_seconds: count, steps: listOf(STEP, 'Oldest first.') }) }),
      title: 'Limit'
    },
    LimitList: titledObject('LimitList', {
      limits: listOf(ref('LimitSummary')),
      total: { ...count, description: 'Of all pages.' },
      uri: text,
      next_page_uri: textOrNull
    }),
    LimitBucket: BUCKET,
    RefusedKeys: titledObject('RefusedKeys', { limit: REFERENCE, keys: listOf(REFUSED_KEY, 'Most refused first.') })
  })
  paths[LIMITS_PATH] = {
    get: operation('listLimits', TAG, 'The limits of the policies that run in this process.', {
      member: MEMBER,
      parameters: ['text', 'order', 'limit', 'before_id'],
      responses: { 200: answer('One page.', ref('LimitList')) }
    })
  }
  paths[ONE_LIMIT_PATH] = {
    ...parametersOf(ONE_LIMIT_PATH),
    get: operation('getLimit', TAG, 'One limit, and how it was used in the last five minutes.', {
      member: MEMBER,
      responses: { 200: answer('The limit.', ref('Limit')) }
    })
  }
  paths[BUCKETS_PATH] = {
    ...parametersOf(BUCKETS_PATH),
    get: operation('getLimitBucket', TAG, 'The bucket of a key. Exactly one of key, values and bucket names it.', {
      member: MEMBER,
      parameters: ['key', 'values', 'bucket'],
      responses: { 200: answer('The bucket.', ref('LimitBucket')) }
    }),
    delete: operation(
      'resetLimitBucket',
      TAG,
      'Empties the bucket of a key: its requests are admitted again. Makes the event limit_bucket_reset.v0.',
      {
        member: MEMBER,
        parameters: ['key', 'values', 'bucket'],
        responses: { 200: answer('The bucket as it is then.', ref('LimitBucket')) }
      }
    )
  }
  paths[TOP_PATH] = {
    ...parametersOf(TOP_PATH),
    get: operation('listRefusedKeys', TAG, 'Keys that the limit refused most in the last five minutes.', {
      member: MEMBER,
      parameters: ['top_limit'],
      responses: { 200: answer('The keys.', ref('RefusedKeys')) }
    })
  }
  return { name: TAG, description: 'Limits of traffic of this process, and their buckets.' }
}
