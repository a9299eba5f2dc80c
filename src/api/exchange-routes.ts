import { Readable } from 'node:stream'
import { EXCHANGE_CRITERIA, type ExchangeCriteria } from '../control/exchanges.js'
import type { Json } from '../lib/json.js'
import {
  type Account,
  callOf,
  type Handler,
  invalidParameter,
  LIMIT,
  parameter,
  pathOf,
  queryOf,
  type Router,
  readCount,
  readSwitch,
  route,
  serving
} from './calls.js'

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
const STREAM_TYPE = 'text/event-stream; charset=utf-8'

const ARCHIVE_LIMIT = { ...LIMIT, most: 10_000, absent: 1_000 }
/** Bytes of a body with an archive in it. */
const LARGEST_ARCHIVE = 8 * 1024 * 1024
/** Bytes that may wait for a reader of a stream; further exchanges are dropped and counted. */
const WAITING = 1024 * 1024
/** How often something is sent when nothing happens, so that both sides see that the other lives. Milliseconds. */
const HEARTBEAT = 15_000
/** Heartbeats that a reader may let wait. */
const MOST_STUCK = 4

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
  route(router, 'GET', STREAM_PATH, {}, follow(account))
  route(router, 'GET', ARCHIVE_PATH, {}, async (request, reply) => {
    const query = queryOf(request, [...EXCHANGE_CRITERIA, 'limit'])
    const limit = readCount(query, 'limit', ARCHIVE_LIMIT)
    const archive = await exchanges.archive(criteriaIn(query), limit, callOf(request))
    return serving(reply, account).type(HAR_TYPE).send(JSON.stringify(archive))
  })
  route(router, 'GET', EXCHANGE_PATH, {}, async (request, reply) => {
    queryOf(request, [])
    return serving(reply, account).send(exchanges.get(parameter(pathOf(request), 'id'), callOf(request)))
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
    const query = queryOf(request, [...EXCHANGE_CRITERIA, 'explain'])
    serving(reply, account).header('cache-control', 'no-store').type(STREAM_TYPE)
    // The stream of an answer without a body would never end.
    if (request.method === 'HEAD') return reply.send()
    const stream = new ExchangeStream()
    const options = {
      explain: readSwitch(query, 'explain'),
      take: (exchange: Json) => stream.give(exchange),
      over: () => stream.over()
    }
    stream.stops(exchanges.follow(criteriaIn(query), options, callOf(request)))
    return reply.send(stream)
  }
}

/** Events for one reader. What it does not take in time costs exchanges, which are counted, and no memory beyond a bound. */
class ExchangeStream extends Readable {
  readonly #timer: NodeJS.Timeout
  #stop: (() => void) | undefined
  #dropped = 0
  /** Heartbeats at which something still waited. */
  #stuck = 0

  constructor() {
    super({ highWaterMark: WAITING })
    this.push(': following\n\n')
    this.#timer = setInterval(() => this.#beat(), HEARTBEAT)
    this.#timer.unref()
  }

  stops(stop: () => void): void {
    this.#stop = stop
  }

  give(exchange: Json): void {
    if (this.readableLength > WAITING) {
      this.#dropped++
      return
    }
    if (this.#dropped > 0) {
      this.push(`event: dropped\ndata: {"count":${this.#dropped}}\n\n`)
      this.#dropped = 0
    }
    const { id } = exchange as { readonly id?: string }
    this.push(`event: exchange\nid: ${id ?? ''}\ndata: ${JSON.stringify(exchange)}\n\n`)
  }

  /** The process stops. */
  over(): void {
    clearInterval(this.#timer)
    this.push('event: over\ndata: {}\n\n')
    this.push(null)
  }

  /** A reader that takes nothing for a while is given up. */
  #beat(): void {
    this.#stuck = this.readableLength > 0 ? this.#stuck + 1 : 0
    if (this.#stuck < MOST_STUCK) this.push(':\n\n')
    else this.destroy()
  }

  override _read(): void {
    // What happens is pushed as it happens.
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearInterval(this.#timer)
    this.#stop?.()
    done(error)
  }
}
