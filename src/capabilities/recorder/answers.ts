import {
  flag,
  integer,
  listOf,
  mapOf,
  number,
  object,
  orNull,
  text,
  textOrNull,
  time,
  titledObject,
  type ValueOf
} from '../../schema/answer.js'
import { DECISION, EXPLANATION, WAF_RESULTS } from '../explain/answers.js'
import { SHADOW_DECISION } from '../shadow/answers.js'

const FIELDS = listOf(text, 'Names and values by turns; what sounds like a secret is [redacted].')

const SUMMARY = {
  id: text,
  uri: text,
  request_id: { ...textOrNull, description: 'x-request-id; null: the request was not admitted.' },
  trace_id: { ...textOrNull, description: 'Id of the trace (W3C Trace Context); null: no traces are made.' },
  at: { ...time, description: 'When it began.' },
  revision: { ...integer, description: 'Of the configuration that decided it.' },
  client_ip: text,
  method: text,
  url: text,
  http_version: text,
  listener: text,
  site: { ...textOrNull, description: 'Name of the site whose host the request has; null: there is none.' },
  edge: { ...textOrNull, description: 'Id of the site.' },
  route: textOrNull,
  route_name: { ...textOrNull, description: 'Name of the route, such as shop.example.com/api/.' },
  decided: { ...text, description: 'The decision in a few words: forwarded, 429 rate-limit, closed.' },
  decision: DECISION,
  upstream: orNull(object({ backend: text, name: text, server: textOrNull })),
  duration_ms: number,
  upstream_ms: orNull(number),
  bytes_in: integer,
  bytes_out: integer,
  explained: flag,
  replay_of: { ...textOrNull, description: 'Id of the exchange whose request was sent again.' }
}

const BODY = orNull({
  ...object({ bytes: integer, whole: flag, text, base64: text }, ['text', 'base64']),
  description: 'What is kept of it: text, or base64 where it is none.'
})

const END = object({ ip: text, port: integer })

/** One line about an exchange. */
const EXCHANGE_SUMMARY = titledObject('ExchangeSummary', SUMMARY)

/** All that is recorded of an exchange and may be shown. */
export const EXCHANGE = {
  ...titledObject('Exchange', {
    ...SUMMARY,
    connection: object({
      id: integer,
      started_at: time,
      client: END,
      server: END,
      tls: orNull(object({ version: text, cipher: text, server_name: textOrNull, alpn: textOrNull }))
    }),
    client: { ...END, description: 'Behind trusted proxies the one that they vouch for.' },
    request: object({ headers: FIELDS, body: BODY }),
    upstream: orNull(
      object({ backend: text, name: text, form: text, method: text, uri: text, headers: FIELDS, server: textOrNull })
    ),
    tries: listOf({ type: 'object' }, 'The tries to reach an upstream.'),
    response: orNull(object({ status: integer, headers: FIELDS, body: BODY })),
    logs: listOf({}, 'What log actions recorded.'),
    waf: WAF_RESULTS,
    signed_in: { ...flag, description: 'A certificate or the policy has verified who the client is.' },
    waf_rules: {
      ...orNull(object({ rules: text, digest: text })),
      description:
        'Name, version and SHA-256 of the rules of the web application firewall that examined it; null: none.'
    },
    explanation: orNull(EXPLANATION),
    shadow: orNull(
      object({
        id: text,
        uri: text,
        decision: { ...SHADOW_DECISION, description: 'How the shadow decides.' },
        differs: listOf(text, 'decision, request, response.'),
        explanation: orNull(EXPLANATION)
      })
    )
  }),
  description: 'What is recorded of one exchange.'
}

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

/** One page of exchanges. */
export const EXCHANGE_LIST = titledObject('ExchangeList', {
  exchanges: listOf(EXCHANGE_SUMMARY),
  uri: text,
  next_page_uri: textOrNull,
  recorder: RECORDER
})

/** An HTTP Archive (HAR 1.2). */
export const ARCHIVE = mapOf()

/** A key that has requests of clients explained. */
export const EXPLAIN_KEY = titledObject('ExplainKey', {
  header: { ...text, description: 'Name of the field of a request that takes it.' },
  value: { ...text, description: 'The key. It is shown once.' },
  ends_at: time
})

const COUNTED = object({ exchanges: integer, clients: integer })

const EXAMPLE = object({
  id: textOrNull,
  at: text,
  method: text,
  url: text,
  client_ip: text,
  old_rule: textOrNull,
  new_rule: textOrNull,
  reason: { ...textOrNull, description: 'Why it is not judged.' }
})

/** Recorded exchanges, decided by the running configuration and by other policies. */
export const COMPARISON = titledObject(
  'Comparison',
  {
    exchanges: integer,
    clients: integer,
    from: textOrNull,
    to: textOrNull,
    same: integer,
    changed: integer,
    not_judged: { ...integer, description: 'Nothing is known of what they depend on.' },
    matrix: listOf(
      object({ old: text, new: text, count: integer, clients: integer, examples: listOf(EXAMPLE) }),
      'How often what serves now decides so, and the other policies so.'
    ),
    refused: object({ old: COUNTED, new: COUNTED }),
    recorded: {
      ...object({ same: integer, other: integer }),
      description: 'How what serves now decides compared with what was recorded.'
    },
    capacities: listOf(
      object({ capacity: integer, refused: COUNTED }),
      'What other capacities would have refused. Left out unless the request names some.'
    )
  },
  ['capacities']
)

export type ExchangeSummary = ValueOf<typeof EXCHANGE_SUMMARY>
export type ExchangeView = ValueOf<typeof EXCHANGE>
export type ShownBody = ExchangeView['request']['body']
export type ExchangeList = ValueOf<typeof EXCHANGE_LIST>
export type RecorderState = ExchangeList['recorder']
export type Archive = ValueOf<typeof ARCHIVE>
export type ExplainKey = ValueOf<typeof EXPLAIN_KEY>
export type Comparison = ValueOf<typeof COMPARISON>
export type ComparisonExample = ValueOf<typeof EXAMPLE>
export type RefusalCounts = ValueOf<typeof COUNTED>
