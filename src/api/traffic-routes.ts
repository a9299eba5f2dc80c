import { TRAFFIC, TRAFFIC_DAY, TRAFFIC_MAP } from '../control/traffic-answers.js'
import type { Account } from './calls.js'
import { defineRoute, defineStream, type RouteGroup } from './define-route.js'
import { EventStream } from './event-stream.js'
import { wholeNumber } from './parameters.js'

interface TrafficService {
  readonly account: Pick<Account, 'traffic'>
}

const readTraffic = defineRoute({
  method: 'GET',
  path: '/traffic',
  id: 'traffic_get',
  summary: 'Traffic of the process that answers, second by second.',
  query: { seconds: wholeNumber({ most: 600, absent: 120, description: 'How many of the last seconds.' }) },
  answers: 'The numbers.',
  answer: TRAFFIC,
  run: ({ query }, { account }: TrafficService) => account.traffic.history(query.seconds)
})

const readDay = defineRoute({
  method: 'GET',
  path: '/traffic/day',
  id: 'traffic_day',
  summary: 'Traffic of the last day of the process that answers, in steps of minutes.',
  query: {
    minutes: wholeNumber({ most: 1_440, absent: 1_440, description: 'How many of the last minutes.' }),
    step: wholeNumber({ most: 120, absent: 10, description: 'Minutes that are taken together.' })
  },
  answers: 'The numbers.',
  answer: TRAFFIC_DAY,
  run: ({ query }, { account }: TrafficService) => account.traffic.day(query.minutes, query.step)
})

const followTraffic = defineStream({
  path: '/traffic/stream',
  id: 'traffic_follow',
  summary:
    'Each second as it ends, as server-sent events: second (a TrafficSecond), dropped (count: not read in time), over.',
  answers: 'The events.',
  open(_asked, { account }: TrafficService) {
    const stream = new EventStream()
    stream.stops(
      account.traffic.follow(
        (second) => stream.give('second', second),
        () => stream.over()
      )
    )
    return stream
  }
})

const readMap = defineRoute({
  method: 'GET',
  path: '/map',
  id: 'map_get',
  summary:
    'What serves, from listeners over edges and routes to backends, with the rates of the last minute and the health that this process knows.',
  answers: 'The map.',
  answer: TRAFFIC_MAP,
  run: (_asked, { account }: TrafficService) => account.traffic.map()
})

/** Routes of traffic statistics and of the map. Every valid key may read them. */
export const trafficRoutes: RouteGroup<TrafficService> = {
  tag: 'Traffic',
  description: 'Traffic in numbers, and what it takes its way through.',
  routes: [readTraffic, readDay, followTraffic, readMap]
}
