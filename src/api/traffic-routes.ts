import { type Account, LIMIT, queryOf, readCount, serving } from './calls.js'
import { EVENT_STREAM_TYPE, EventStream } from './event-stream.js'
import { type Handler, type Router, route } from './routes.js'

/** Traffic in numbers. */
export const TRAFFIC_PATH = '/traffic'
/** The last day in steps of minutes. */
export const TRAFFIC_DAY_PATH = `${TRAFFIC_PATH}/day`
/** Each second as it ends. */
export const TRAFFIC_STREAM_PATH = `${TRAFFIC_PATH}/stream`
/** Path of the map of the running configuration. */
export const MAP_PATH = '/map'

const SECONDS = { ...LIMIT, most: 600, absent: 120 }
const MINUTES = { ...LIMIT, most: 1_440, absent: 1_440 }
const STEP = { ...LIMIT, most: 120, absent: 10 }

/** Shows traffic in numbers and as a map. */
export function addTraffic(router: Router, account: Account): void {
  const { traffic } = account
  route(router, 'GET', TRAFFIC_PATH, {}, async (request, reply) => {
    const seconds = readCount(queryOf(request, ['seconds']), 'seconds', SECONDS)
    return serving(reply, account).send(traffic.history(seconds))
  })
  route(router, 'GET', TRAFFIC_DAY_PATH, {}, async (request, reply) => {
    const query = queryOf(request, ['minutes', 'step'])
    const minutes = readCount(query, 'minutes', MINUTES)
    return serving(reply, account).send(traffic.day(minutes, readCount(query, 'step', STEP)))
  })
  route(router, 'GET', TRAFFIC_STREAM_PATH, { stream: true }, follow(account))
  route(router, 'GET', MAP_PATH, {}, async (request, reply) => {
    queryOf(request, [])
    return serving(reply, account).send(traffic.map())
  })
}

function follow(account: Account): Handler {
  return async (request, reply) => {
    queryOf(request, [])
    serving(reply, account).header('cache-control', 'no-store').type(EVENT_STREAM_TYPE)
    // A response without a body would never end the stream.
    if (request.method === 'HEAD') return reply.send()
    const stream = new EventStream()
    stream.stops(
      account.traffic.follow(
        (second) => stream.give('second', second as object),
        () => stream.over()
      )
    )
    return reply.send(stream)
  }
}
