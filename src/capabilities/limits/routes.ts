import { invalidParameter } from '../../api/calls.js'
import { defineRoute, type RouteGroup } from '../../api/define-route.js'
import { anyText, choice, PAGE, wholeNumber } from '../../api/parameters.js'
import { LIMIT_BUCKET, LIMIT_LIST, LIMIT_VIEW, REFUSED_KEYS } from './answers.js'
import type { BucketQuery, Limits } from './limits.js'

const BUCKET = {
  key: anyText('The value of the key, where bucket_key has one expression.'),
  values: anyText(
    'The values of all expressions of bucket_key, in their order, as a JSON list: ["203.0.113.9","GET"].'
  ),
  bucket: anyText('Name of the bucket in the list of refused keys.')
} as const

const listLimits = defineRoute({
  method: 'GET',
  path: '/limits',
  id: 'listLimits',
  summary: 'The limits of the policies that run in this process.',
  right: 'limits',
  query: {
    text: anyText('Text to find in what is shown, in any case.'),
    order: choice(['owner', 'refused'], 'owner', 'refused: limits with most refusals in the last minutes first.'),
    ...PAGE
  },
  answers: 'One page.',
  answer: LIMIT_LIST,
  run: ({ query: { before_id: before, ...query } }, limits: Limits) => limits.list({ ...query, before })
})

const readLimit = defineRoute({
  method: 'GET',
  path: '/limits/{id}',
  id: 'getLimit',
  summary: 'One limit, and how it was used in the last five minutes.',
  right: 'limits',
  answers: 'The limit.',
  answer: LIMIT_VIEW,
  run: ({ params: { id } }, limits: Limits) => limits.get(id)
})

const readBucket = defineRoute({
  method: 'GET',
  path: '/limits/{id}/buckets',
  id: 'getLimitBucket',
  summary: 'The bucket of a key. Exactly one of key, values and bucket names it.',
  right: 'limits',
  query: BUCKET,
  answers: 'The bucket.',
  answer: LIMIT_BUCKET,
  run: ({ params: { id }, query }, limits: Limits) => limits.bucket(id, oneOf(query))
})

const resetBucket = defineRoute({
  method: 'DELETE',
  path: '/limits/{id}/buckets',
  id: 'resetLimitBucket',
  summary: 'Empties the bucket of a key: its requests are admitted again. Makes the event limit_bucket_reset.v0.',
  right: 'limits',
  query: BUCKET,
  answers: 'The bucket after the reset.',
  answer: LIMIT_BUCKET,
  run: ({ params: { id }, query, call }, limits: Limits) => limits.reset(id, oneOf(query), call)
})

const listRefusedKeys = defineRoute({
  method: 'GET',
  path: '/limits/{id}/top',
  id: 'listRefusedKeys',
  summary: 'Keys that the limit refused most in the last five minutes.',
  right: 'limits',
  query: { limit: wholeNumber({ most: 100, absent: 20, description: 'Most keys.', component: 'top_limit' }) },
  answers: 'The keys.',
  answer: REFUSED_KEYS,
  run: ({ params: { id }, query }, limits: Limits) => limits.top(id, query.limit)
})

/** Routes of rate limits and their buckets. */
export const limitRoutes: RouteGroup<Limits> = {
  tag: 'Limits',
  description: 'Rate limits of this process, and their buckets.',
  routes: [listLimits, readLimit, readBucket, resetBucket, listRefusedKeys]
}

function oneOf(query: BucketQuery): BucketQuery {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  if (given.length === 1) return query
  throw invalidParameter(given[1]?.[0] ?? 'key', `cannot be read: give one of ${Object.keys(BUCKET).join(', ')}`)
}
