import { type Account, callOf, invalidParameter, LIMIT, queryOf, readCount, serving } from '../../api/calls.js'
import { parameter, pathOf, type Router, route } from '../../api/routes.js'
import type { BucketQuery } from './limits.js'

export const LIMITS_PATH = '/limits'
export const ONE_LIMIT_PATH = `${LIMITS_PATH}/{id}`
/** One bucket of a limit, by its key. */
export const BUCKETS_PATH = `${ONE_LIMIT_PATH}/buckets`
/** Who is refused most. */
export const TOP_PATH = `${ONE_LIMIT_PATH}/top`

/** The ways to name a bucket. */
const BUCKET_NAMES = ['key', 'values', 'bucket'] as const
/** Orders of the list. */
export const LIMIT_ORDERS = ['owner', 'refused'] as const
/** Keys that are shown of a limit. */
const TOP_LIMIT = { ...LIMIT, absent: 20 }

/** Limits that live, and their buckets. */
export function addLimits(router: Router, account: Account): void {
  const { limits } = account
  route(router, 'GET', LIMITS_PATH, {}, async (request, reply) => {
    const query = queryOf(request, ['limit', 'before_id', 'text', 'order'])
    const order = LIMIT_ORDERS.find((one) => one === (query.get('order') ?? 'owner'))
    if (order === undefined) throw invalidParameter('order', `must be ${LIMIT_ORDERS.join(' or ')}`)
    const page = { limit: readCount(query, 'limit', LIMIT), before: query.get('before_id'), text: query.get('text') }
    return serving(reply, account).send(await limits.list({ ...page, order }, callOf(request)))
  })
  route(router, 'GET', ONE_LIMIT_PATH, {}, async (request, reply) => {
    queryOf(request, [])
    return serving(reply, account).send(await limits.get(parameter(pathOf(request), 'id'), callOf(request)))
  })
  route(router, 'GET', BUCKETS_PATH, {}, async (request, reply) => {
    const bucket = bucketIn(queryOf(request, BUCKET_NAMES))
    const id = parameter(pathOf(request), 'id')
    return serving(reply, account).send(await limits.bucket(id, bucket, callOf(request)))
  })
  route(router, 'DELETE', BUCKETS_PATH, {}, async (request, reply) => {
    const bucket = bucketIn(queryOf(request, BUCKET_NAMES))
    const id = parameter(pathOf(request), 'id')
    return serving(reply, account).send(await limits.reset(id, bucket, callOf(request)))
  })
  route(router, 'GET', TOP_PATH, {}, async (request, reply) => {
    const most = readCount(queryOf(request, ['limit']), 'limit', TOP_LIMIT)
    const id = parameter(pathOf(request), 'id')
    return serving(reply, account).send(await limits.top(id, most, callOf(request)))
  })
}

function bucketIn(query: ReadonlyMap<string, string>): BucketQuery {
  const given = BUCKET_NAMES.filter((name) => query.has(name))
  if (given.length !== 1)
    throw invalidParameter(given[1] ?? 'key', `cannot be read: give one of ${BUCKET_NAMES.join(', ')}`)
  return { key: query.get('key'), values: query.get('values'), bucket: query.get('bucket') }
}
