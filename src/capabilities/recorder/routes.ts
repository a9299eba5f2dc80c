import {
  type Account,
  callOf,
  invalidParameter,
  LIMIT,
  queryOf,
  readCount,
  readSwitch,
  serving
} from '../../api/calls.js'
import { EVENT_STREAM_TYPE, EventStream } from '../../api/event-stream.js'
import { type Handler, parameter, pathOf, type Router, route } from '../../api/routes.js'
import type { Json } from '../../lib/json.js'
import { EXCHANGE_CRITERIA, type ExchangeCriteria } from './exchanges.js'

/** What is recorded of traffic. */
export const EXCHANGES_PATH = '/exchanges'
/** As they end. */
export const STREAM_PATH = `${EXCHANGES_PATH}/stream`
export const ARCHIVE_PATH = `${EXCHANGES_PATH}/har`
export const EXCHANGE_PATH = `${EXCHANGES_PATH}/{id}`
export const REPLAY_PATH = `${EXCHANGE_PATH}/replay`
/** Many of them against other policies. */
export const COMPARISON_PATH = '/replay'
export const EXPLAIN_KEYS_PATH = '/explain/keys'
const HAR_TYPE = 'application/har+json; charset=utf-8'

/** Exchanges a second that a reader asks for; 0 stands for each one. */
const RATE = { ...LIMIT, most: 10_000, absent: 0 }
const ARCHIVE_LIMIT = { ...LIMIT, most: 10_000, absent: 1_000 }
/** Bytes of a body with an archive in it. */
const LARGEST_ARCHIVE = 8 * 1024 * 1024
/** How often a reader learns how many exchanges were left out. Milliseconds. */
const SAMPLED = 1_000

/** What is recorded of traffic, and what can be done with it. */
export function addExchanges(router: Router, account: Account): void {
  const { exchanges } = account
  route(router, 'GET', EXCHANGES_PATH, {}, async (request, reply) => {
    const query = queryOf(request, [...EXCHANGE_CRITERIA, 'limit', 'before_id'])
    const page = { limit: readCount(query, 'limit', LIMIT), before: query.get('before_id') }
    return serving(reply, account).send(await exchanges.list(criteriaIn(query), page, callOf(request)))
  })
  route(router, 'DELETE', EXCHANGES_PATH, {}, async (request, reply) => {
    queryOf(request, [])
    exchanges.clear(callOf(request))
    return serving(reply, account).code(204).send()
  })
  route(router, 'GET', STREAM_PATH, { stream: true }, follow(account))
  route(router, 'GET', ARCHIVE_PATH, {}, async (request, reply) => {
    const query = queryOf(request, [...EXCHANGE_CRITERIA, 'limit'])
    const limit = readCount(query, 'limit', ARCHIVE_LIMIT)
    const archive = await exchanges.archive(criteriaIn(query), limit, callOf(request))
    return serving(reply, account).type(HAR_TYPE).send(JSON.stringify(archive))
  })
  route(router, 'GET', EXCHANGE_PATH, {}, async (request, reply) => {
    queryOf(request, [])
    return serving(reply, account).send(await exchanges.get(parameter(pathOf(request), 'id'), callOf(request)))
  })
  route(router, 'POST', REPLAY_PATH, { body: 'optional' }, async (request, reply) => {
    queryOf(request, [])
    const { id = '' } = pathOf(request)
    return serving(reply, account).send(await exchanges.replay(id, request.body, callOf(request)))
  })
  route(router, 'POST', COMPARISON_PATH, { body: 'json', limit: LARGEST_ARCHIVE }, async (request, reply) => {
    queryOf(request, [])
    return serving(reply, account).send(await exchanges.compare(request.body, callOf(request)))
  })
  route(router, 'POST', EXPLAIN_KEYS_PATH, { body: 'optional' }, async (request, reply) => {
    queryOf(request, [])
    return serving(reply, account)
      .code(201)
      .header('cache-control', 'no-store')
      .send(exchanges.makeKey(request.body, callOf(request)))
  })
}

function criteriaIn(query: ReadonlyMap<string, string>): ExchangeCriteria {
  const given = EXCHANGE_CRITERIA.map((name) => {
    const value = query.get(name)
    if (value === '') throw invalidParameter(name, 'must not be empty')
    return [name, value]
  })
  return Object.fromEntries(given) as ExchangeCriteria
}

/** Exchanges as they end, as server-sent events (HTML 9.2). */
function follow(account: Account): Handler {
  const { exchanges } = account
  return async (request, reply) => {
    const query = queryOf(request, [...EXCHANGE_CRITERIA, 'explain', 'rate'])
    const rate = readCount(query, 'rate', RATE)
    serving(reply, account).header('cache-control', 'no-store').type(EVENT_STREAM_TYPE)
    // The stream of an answer without a body would never end.
    if (request.method === 'HEAD') return reply.send()
    const stream = new ExchangeStream()
    const options = {
      explain: readSwitch(query, 'explain'),
      rate: rate === 0 ? undefined : rate,
      leftOut: () => stream.leaveOut(),
      take: (exchange: Json) => stream.give('exchange', exchange, (exchange as { readonly id?: string }).id ?? ''),
      over: () => stream.over()
    }
    stream.stops(exchanges.follow(criteriaIn(query), options, callOf(request)))
    return reply.send(stream)
  }
}

/** Exchanges for one reader; those beyond the rate that it asked for are counted. */
class ExchangeStream extends EventStream {
  readonly #sampling: NodeJS.Timeout
  #leftOut = 0

  constructor() {
    super()
    this.#sampling = setInterval(() => this.#sampled(), SAMPLED)
    this.#sampling.unref()
  }

  /** An exchange is beyond the rate. */
  leaveOut(): void {
    this.#leftOut++
  }

  #sampled(): void {
    if (this.#leftOut === 0) return
    this.give('sampled', { count: this.#leftOut })
    this.#leftOut = 0
  }

  override over(): void {
    clearInterval(this.#sampling)
    this.#sampled()
    super.over()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearInterval(this.#sampling)
    super._destroy(error, done)
  }
}
