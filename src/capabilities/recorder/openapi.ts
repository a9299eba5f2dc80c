import { answer, operation, type Paths, parametersOf, plain } from '../../api/openapi-parts.js'
import { ACCOUNT_RIGHTS } from '../../control/rights.js'
import { integer, listOf, object, orNull, ref, text, textOrNull } from '../../schema/answer.js'
import { COMPARISON_SCHEMA, EXCHANGE_CRITERIA, EXPLAIN_KEY_SCHEMA, REPLAY_SCHEMA } from './exchanges.js'
import {
  ARCHIVE_PATH,
  COMPARISON_PATH,
  EXCHANGE_PATH,
  EXCHANGES_PATH,
  EXPLAIN_KEYS_PATH,
  REPLAY_PATH,
  STREAM_PATH
} from './routes.js'

const TAG = 'Exchanges'

const number = { type: 'number' } as const
const FIELDS = listOf(text, 'Names and values by turns; what sounds like a secret is [redacted].')

const SUMMARY = {
  id: text,
  uri: text,
  request_id: { ...textOrNull, description: 'x-request-id; null: the request was not admitted.' },
  trace_id: { ...textOrNull, description: 'Id of the trace (W3C Trace Context); null: no traces are made.' },
  at: { ...text, format: 'date-time', description: 'When it began.' },
  revision: { ...integer, description: 'Of the configuration that decided it.' },
  client_ip: text,
  method: text,
  url: text,
  http_version: text,
  listener: text,
  edge: textOrNull,
  route: textOrNull,
  decided: { ...text, description: 'The decision in a few words: forwarded, 429 rate-limit, closed.' },
  decision: object({
    outcome: { ...text, enum: ['forwarded', 'answered', 'closed'] },
    status: { ...integer, description: '0: no answer.' },
    code: textOrNull,
    by: orNull(object({ phase: text, rule: text, action: text }))
  }),
  upstream: orNull(object({ backend: text, server: textOrNull })),
  duration_ms: number,
  upstream_ms: orNull(number),
  bytes_in: integer,
  bytes_out: integer,
  explained: { type: 'boolean' },
  replay_of: { ...textOrNull, description: 'Id of the exchange whose request was sent again.' }
}

const BODY = orNull({
  type: 'object',
  description: 'What is kept of it: text, or base64 where it is none.',
  properties: { bytes: integer, whole: { type: 'boolean' }, text, base64: text },
  required: ['bytes', 'whole']
})

const END = object({ ip: text, port: integer })

const EXCHANGE = object({
  ...SUMMARY,
  connection: object({
    id: integer,
    started_at: { ...text, format: 'date-time' },
    client: END,
    server: END,
    tls: orNull(object({ version: text, cipher: text, server_name: textOrNull, alpn: textOrNull }))
  }),
  client: { ...END, description: 'Behind trusted proxies the one that they vouch for.' },
  request: object({ headers: FIELDS, body: BODY }),
  upstream: orNull(object({ backend: text, form: text, method: text, uri: text, headers: FIELDS, server: textOrNull })),
  tries: listOf({ type: 'object' }, 'The tries to reach an upstream.'),
  response: orNull(object({ status: integer, headers: FIELDS, body: BODY })),
  logs: listOf({}, 'What log actions recorded.'),
  explanation: orNull(ref('Explanation')),
  shadow: orNull(
    object({
      id: text,
      uri: text,
      decision: { type: 'object', description: 'How the shadow decides.' },
      differs: listOf(text, 'decision, request, response.'),
      explanation: orNull(ref('Explanation'))
    })
  )
})

const RECORDER = object({
  exchanges: { ...integer, description: 'How many are held.' },
  bytes: integer,
  memory: { ...integer, description: 'Bytes that they may take.' },
  dropped: { ...integer, description: 'How many had to make room.' },
  followers: { ...integer, description: 'Streams that are open.' },
  where: textOrNull,
  explain: textOrNull,
  bodies: integer,
  file: textOrNull
})

const COUNTED = object({ exchanges: integer, clients: integer })

const COMPARISON = {
  ...object({
    exchanges: integer,
    clients: integer,
    from: textOrNull,
    to: textOrNull,
    same: integer,
    changed: integer,
    not_judged: { ...integer, description: 'Nothing is known of what they depend on.' },
    matrix: listOf(
      object({
        old: text,
        new: text,
        count: integer,
        clients: integer,
        examples: listOf(
          object({
            id: textOrNull,
            at: text,
            method: text,
            url: text,
            client_ip: text,
            old_rule: textOrNull,
            new_rule: textOrNull,
            reason: { ...textOrNull, description: 'Why it is not judged.' }
          })
        )
      }),
      'How often what serves now decides so, and the other policies so.'
    ),
    refused: object({ old: COUNTED, new: COUNTED }),
    recorded: {
      ...object({ same: integer, other: integer }),
      description: 'How what serves now decides compared with what was recorded.'
    },
    capacities: listOf(object({ capacity: integer, refused: COUNTED }), 'What other capacities would have refused.')
  }),
  title: 'Comparison'
}

const MEMBER = ACCOUNT_RIGHTS.exchanges.member ? 'any' : 'none'

/** Adds what is recorded of traffic; answers its tag. */
export function describeExchanges(paths: Paths, schemas: Record<string, object>): object {
  Object.assign(schemas, {
    ExchangeSummary: { ...object(SUMMARY), title: 'ExchangeSummary' },
    Exchange: { ...EXCHANGE, title: 'Exchange', description: 'What is recorded of one exchange.' },
    ExchangeList: {
      ...object({
        exchanges: listOf(ref('ExchangeSummary')),
        uri: text,
        next_page_uri: textOrNull,
        recorder: RECORDER
      }),
      title: 'ExchangeList'
    },
    ExplainKeyRequest: EXPLAIN_KEY_SCHEMA,
    ExplainKey: {
      ...object({
        header: { ...text, description: 'Name of the field of a request that takes it.' },
        value: { ...text, description: 'The key. It is shown once.' },
        ends_at: { ...text, format: 'date-time' }
      }),
      title: 'ExplainKey'
    },
    ReplayRequest: REPLAY_SCHEMA,
    ComparisonRequest: COMPARISON_SCHEMA,
    Comparison: COMPARISON
  })
  paths[EXCHANGES_PATH] = {
    get: operation('listExchanges', TAG, 'What is recorded of exchanges of this process, the newest first.', {
      member: MEMBER,
      parameters: [...EXCHANGE_CRITERIA, 'limit', 'before_id'],
      responses: { 200: answer('One page.', ref('ExchangeList')) }
    }),
    delete: operation('clearExchanges', TAG, 'Forgets the exchanges that are recorded in memory.', {
      member: MEMBER,
      responses: { 204: answer('They are forgotten.') }
    })
  }
  paths[STREAM_PATH] = {
    get: operation(
      'followExchanges',
      TAG,
      'Exchanges as they end, as server-sent events: exchange (an Exchange), sampled (count: beyond the rate), dropped (count: not read in time), over. With explain=true requests are explained meanwhile: all that may be meant, or as many as the rate.',
      {
        member: MEMBER,
        parameters: [...EXCHANGE_CRITERIA, 'explain', 'rate'],
        responses: { 200: plain('The events.', text, 'text/event-stream') }
      }
    )
  }
  paths[ARCHIVE_PATH] = {
    get: operation('archiveExchanges', TAG, 'As an HTTP Archive (HAR 1.2), the oldest first.', {
      member: MEMBER,
      parameters: [...EXCHANGE_CRITERIA, 'archive_limit'],
      responses: { 200: plain('The archive.', { type: 'object' }, 'application/har+json') }
    })
  }
  paths[EXCHANGE_PATH] = {
    ...parametersOf(EXCHANGE_PATH),
    get: operation('getExchange', TAG, 'All that is recorded of one exchange.', {
      member: MEMBER,
      responses: { 200: answer('The exchange.', ref('Exchange')) }
    })
  }
  paths[REPLAY_PATH] = {
    ...parametersOf(REPLAY_PATH),
    post: operation(
      'replayExchange',
      TAG,
      'Sends the request of an exchange again, as if its client had: limits count it, and the upstream answers it.',
      { member: MEMBER, body: ref('ReplayRequest'), responses: { 200: answer('What came of it.', ref('Exchange')) } }
    )
  }
  paths[COMPARISON_PATH] = {
    post: operation(
      'compareExchanges',
      TAG,
      'Decides recorded exchanges once more, by what serves and by other policies, side by side in the time in which they came. Sends nothing.',
      {
        member: MEMBER,
        body: ref('ComparisonRequest'),
        responses: { 200: answer('The differences.', ref('Comparison')) }
      }
    )
  }
  paths[EXPLAIN_KEYS_PATH] = {
    post: operation(
      'makeExplainKey',
      TAG,
      'Makes a key for the field sluice-explain: a request of a client that shows it is explained and recorded, and its answer names the exchange.',
      { member: MEMBER, body: ref('ExplainKeyRequest'), responses: { 201: answer('The key.', ref('ExplainKey')) } }
    )
  }
  return { name: TAG, description: 'What is recorded of traffic of this process.' }
}
