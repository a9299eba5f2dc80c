import { defineRoute, defineStream, type RouteGroup } from '../../api/define-route.js'
import { EventStream } from '../../api/event-stream.js'
import { flag, PAGE, type Parameter, someText, wholeNumber } from '../../api/parameters.js'
import { ARCHIVE, COMPARISON, EXCHANGE, EXCHANGE_LIST, EXPLAIN_KEY } from './answers.js'
import {
  COMPARISON_SCHEMA,
  EXCHANGE_CRITERIA,
  EXPLAIN_KEY_SCHEMA,
  type ExchangeCriteria,
  type Exchanges,
  REPLAY_SCHEMA
} from './exchanges.js'

const HAR_TYPE = 'application/har+json; charset=utf-8'
/** Bytes of a body with an archive in it. */
const LARGEST_ARCHIVE = 8 * 1024 * 1024
/** Interval at which a reader learns how many exchanges were left out. Milliseconds. */
const SAMPLED = 1_000

const CRITERIA: { readonly [K in (typeof EXCHANGE_CRITERIA)[number]]: Parameter<string | undefined> } = {
  host: someText('A name, or *. and a name.'),
  status: someText('429, 4xx or 400-499; 0: no answer.'),
  method: someText('The method of the request.'),
  rule: someText('Name of the rule that ended it.'),
  action: someText('Type of the action that ended it.'),
  client: someText('An IP address or a network.'),
  site: someText('Name of the site, such as shop.example.com.'),
  edge: someText('Id of the site.'),
  route: someText('Name of the route, such as shop.example.com/api/, or its id.'),
  since: someText('It began then or later (RFC 3339).'),
  until: someText('It began before (RFC 3339).'),
  text: someText('Text to find in what is shown, in any case.'),
  where: someText('CEL with the variables of policies and exchange.*, such as res.status_code == 429.')
}

const listExchanges = defineRoute({
  method: 'GET',
  path: '/exchanges',
  id: 'listExchanges',
  summary: 'What is recorded of exchanges of this process, the newest first.',
  right: 'exchanges',
  query: { ...CRITERIA, ...PAGE },
  answers: 'One page.',
  answer: EXCHANGE_LIST,
  run: ({ query }, exchanges: Exchanges) =>
    exchanges.list(criteriaIn(query), { limit: query.limit, before: query.before_id })
})

const clearExchanges = defineRoute({
  method: 'DELETE',
  path: '/exchanges',
  id: 'clearExchanges',
  summary: 'Forgets the exchanges that are recorded in memory.',
  right: 'exchanges',
  status: 204,
  answers: 'They are forgotten.',
  run: (_asked, exchanges: Exchanges) => exchanges.clear()
})

const followExchanges = defineStream({
  path: '/exchanges/stream',
  id: 'followExchanges',
  summary:
    'Exchanges as they end, as server-sent events: exchange (an Exchange), sampled (count: beyond the rate), dropped (count: not read in time), over. With explain=true requests are explained meanwhile: all that may be meant, or as many as the rate.',
  right: 'exchanges',
  query: {
    ...CRITERIA,
    explain: flag('Explains requests meanwhile.'),
    rate: wholeNumber({
      most: 10_000,
      absent: 0,
      description: 'Exchanges a second at most; absent: each one that is meant.'
    })
  },
  answers: 'The events.',
  open({ query }, exchanges: Exchanges) {
    const stream = new ExchangeStream()
    try {
      const stop = exchanges.follow(criteriaIn(query), {
        explain: query.explain,
        rate: query.rate === 0 ? undefined : query.rate,
        leftOut: () => stream.leaveOut(),
        take: (exchange) => stream.give('exchange', exchange, exchange.id),
        over: () => stream.over()
      })
      stream.stops(stop)
      return stream
    } catch (error) {
      stream.destroy()
      throw error
    }
  }
})

const archiveExchanges = defineRoute({
  method: 'GET',
  path: '/exchanges/har',
  id: 'archiveExchanges',
  summary: 'As an HTTP Archive (HAR 1.2), the oldest first.',
  right: 'exchanges',
  query: {
    ...CRITERIA,
    limit: wholeNumber({
      most: 10_000,
      absent: 1_000,
      description: 'Most entries of the archive.',
      component: 'archive_limit'
    })
  },
  answers: 'The archive.',
  answer: ARCHIVE,
  media: HAR_TYPE,
  run: ({ query }, exchanges: Exchanges) => exchanges.archive(criteriaIn(query), query.limit)
})

const readExchange = defineRoute({
  method: 'GET',
  path: '/exchanges/{id}',
  id: 'getExchange',
  summary: 'All that is recorded of one exchange.',
  right: 'exchanges',
  answers: 'The exchange.',
  answer: EXCHANGE,
  run: ({ params: { id } }, exchanges: Exchanges) => exchanges.get(id)
})

const replayExchange = defineRoute({
  method: 'POST',
  path: '/exchanges/{id}/replay',
  id: 'replayExchange',
  summary:
    'Sends the request of an exchange again, as if its client had: limits count it, and the upstream answers it.',
  right: 'exchanges',
  body: { schema: REPLAY_SCHEMA, optional: true },
  answers: 'What came of it.',
  answer: EXCHANGE,
  run: ({ params: { id }, body }, exchanges: Exchanges) => exchanges.replay(id, body)
})

const compareExchanges = defineRoute({
  method: 'POST',
  path: '/replay',
  id: 'compareExchanges',
  summary:
    'Decides recorded exchanges once more, by what serves and by other policies, side by side in the time in which they came. Sends nothing.',
  right: 'exchanges',
  body: { schema: COMPARISON_SCHEMA, limit: LARGEST_ARCHIVE },
  answers: 'The differences.',
  answer: COMPARISON,
  example: {
    exchanges: 120,
    clients: 8,
    from: '2026-01-31T12:00:00.000Z',
    to: '2026-01-31T12:05:00.000Z',
    same: 117,
    changed: 3,
    not_judged: 0,
    matrix: [
      {
        old: 'forwarded',
        new: '429 rate-limit',
        count: 3,
        clients: 1,
        examples: [
          {
            id: 'exch_2aB',
            at: '2026-01-31T12:01:00.000Z',
            method: 'GET',
            url: 'https://shop.example.com/cart',
            client_ip: '203.0.113.9',
            old_rule: null,
            new_rule: 'per client',
            reason: null
          }
        ]
      }
    ],
    refused: { old: { exchanges: 0, clients: 0 }, new: { exchanges: 3, clients: 1 } },
    recorded: { same: 120, other: 0 }
  },
  run: ({ body }, exchanges: Exchanges) => exchanges.compare(body)
})

const makeExplainKey = defineRoute({
  method: 'POST',
  path: '/explain/keys',
  id: 'makeExplainKey',
  summary:
    'Makes a key for the field sluice-explain: a request of a client that shows it is explained and recorded, and its answer names the exchange.',
  right: 'exchanges',
  body: { schema: EXPLAIN_KEY_SCHEMA, optional: true },
  status: 201,
  answers: 'The key.',
  answer: EXPLAIN_KEY,
  run: ({ body }, exchanges: Exchanges) => exchanges.makeKey(body)
})

/** Routes of recorded exchanges. */
export const exchangeRoutes: RouteGroup<Exchanges> = {
  tag: 'Exchanges',
  description: 'What is recorded of traffic of this process.',
  routes: [
    listExchanges,
    clearExchanges,
    followExchanges,
    archiveExchanges,
    readExchange,
    replayExchange,
    compareExchanges,
    makeExplainKey
  ]
}

function criteriaIn(query: ExchangeCriteria): ExchangeCriteria {
  return Object.fromEntries(EXCHANGE_CRITERIA.map((name) => [name, query[name]])) as ExchangeCriteria
}

/** Event stream of exchanges for one reader; those beyond its rate are counted. */
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
