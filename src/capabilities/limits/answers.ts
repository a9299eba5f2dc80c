import {
  flag,
  integer,
  listOf,
  object,
  orNull,
  text,
  textOrNull,
  time,
  titledObject,
  type ValueOf,
  words
} from '../../schema/answer.js'

const count = { ...integer, minimum: 0 } as const
const countOrNull = orNull(count)
const KEY = orNull(
  listOf({}, 'The values of bucket_key; null for one that failed, [redacted] for what sounds like a secret.')
)

const LIMIT = {
  id: { ...text, description: 'The same as long as owner, name, rate and bucket_key are: its buckets go on.' },
  uri: text,
  owner: object({
    kind: words(['options', 'route', 'edge', 'endpoint'], 'What the policy belongs to.'),
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
  scope: words(
    ['server', 'cluster'],
    'server: each process counts by itself; cluster: all processes on one PostgreSQL store count together.'
  ),
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
  enforce: { ...flag, description: 'false: what is over is counted and let through.' },
  buckets: { ...count, description: 'Buckets that hold an admission now.' },
  admitted: { ...count, description: 'Since the limit began in this process.' },
  refused: count,
  would_refuse: { ...count, description: 'Over the capacity while it was not enforced.' },
  recent: {
    ...object({ admitted: count, refused: count }),
    description: 'Of the last five minutes; refused: over the capacity, enforced or not.'
  },
  last_minute: {
    ...object({ admitted: count, refused: count }),
    description: 'Of the last minute, to within five seconds; refused: over the capacity, enforced or not.'
  }
} as const

const STEP = object({
  at: { ...time, description: 'When the step began.' },
  admitted: count,
  refused: { ...count, description: 'Over the capacity, enforced or not.' },
  used: { ...count, description: 'Admissions that the fullest of the asked buckets held.' }
})

const REFERENCE = object({ id: text, uri: text, name: text })

/** One bucket of a limit. */
export const LIMIT_BUCKET = titledObject('LimitBucket', {
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
  failed: { ...flag, description: 'An expression of the key failed; such requests share a bucket.' },
  refused: { ...count, description: 'Refusals at most.' },
  refused_at_least: count,
  last_refused_at: time
})

/** A limit in a list. */
const LIMIT_SUMMARY = titledObject('LimitSummary', LIMIT)
/** A limit with the series of its last minutes. */
export const LIMIT_VIEW = titledObject('Limit', {
  ...LIMIT,
  series: object({ step_seconds: count, steps: listOf(STEP, 'Oldest first.') })
})
/** One page of limits. */
export const LIMIT_LIST = titledObject('LimitList', {
  limits: listOf(LIMIT_SUMMARY),
  total: { ...count, description: 'Of all pages.' },
  uri: text,
  next_page_uri: textOrNull
})
/** The keys that a limit refused most. */
export const REFUSED_KEYS = titledObject('RefusedKeys', {
  limit: REFERENCE,
  keys: listOf(REFUSED_KEY, 'Most refused first.')
})

export type LimitSummary = ValueOf<typeof LIMIT_SUMMARY>
export type LimitView = ValueOf<typeof LIMIT_VIEW>
export type LimitList = ValueOf<typeof LIMIT_LIST>
export type LimitBucketView = ValueOf<typeof LIMIT_BUCKET>
export type RefusedKeys = ValueOf<typeof REFUSED_KEYS>
