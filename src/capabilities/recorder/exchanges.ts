import type { StopFollowing } from '../../control/calls.js'
import {
  CANDIDATES_SCHEMA,
  type CandidatePolicies,
  candidatesOf,
  findReplaced
} from '../../control/candidate-policies.js'
import { ControlError, controlErrors, notFound } from '../../control/errors.js'
import {
  countOf,
  fieldValuesOf,
  listOf,
  membersOf,
  methodOf,
  nameOf,
  refused,
  textOf,
  urlOf,
  wordOf
} from '../../control/request-body.js'
import { isObject, timestampText } from '../../lib/json.js'
import { parseDuration } from '../../lib/units.js'
import type { SnapshotHolder } from '../../runtime/snapshot.js'
import type {
  Archive,
  Comparison,
  ExchangeList,
  ExchangeSummary,
  ExchangeView,
  ExplainKey,
  RecorderState
} from './answers.js'

/** Criteria for exchanges, as written. */
export type ExchangeCriteria = Readonly<Record<(typeof EXCHANGE_CRITERIA)[number], string | undefined>>

/** Names of the criteria. */
export const EXCHANGE_CRITERIA = [
  'host',
  'status',
  'method',
  'rule',
  'action',
  'client',
  'site',
  'edge',
  'route',
  'since',
  'until',
  'text',
  'where'
] as const

/** Options of a follower. */
export interface FollowOptions {
  /** Are requests explained while it follows? */
  readonly explain: boolean
  /** Maximum number of matching exchanges per second; undefined for all. */
  readonly rate: number | undefined
  /** Called for each matching exchange skipped by the rate limit. Does not throw. */
  readonly leftOut: () => void
  /** Called with each matching exchange, in full. Does not throw. */
  readonly take: (exchange: ExchangeView) => void
  /** Called when the process stops. */
  readonly over: () => void
}

/** Changes of a repeated request; undefined members are unchanged. */
export interface ReplayEdits {
  readonly method: string | undefined
  readonly url: URL | undefined
  /** Fields in the place of those with the same names; null takes them away. */
  readonly headers: ReadonlyMap<string, readonly string[] | null>
  readonly body: Uint8Array | undefined
}

/** Recorded exchanges against other policies. */
export interface ComparisonRequest {
  readonly criteria: ExchangeCriteria
  /** Exchanges at most, the newest ones. */
  readonly limit: number
  /** An HTTP Archive instead of recorded exchanges. */
  readonly archive: unknown
  readonly instead: CandidatePolicies
  /** Other capacities of rate limits, each tried separately; `rule`: name of the rule, undefined for all. */
  readonly capacities: { readonly rule: string | undefined; readonly values: readonly number[] } | undefined
  readonly counters: 'running' | 'empty'
  /** Examples for each kind of difference. */
  readonly examples: number
}

/** The recorder of this process, for the API. Methods fail with a ControlError. */
export interface ExchangeSource {
  /** Returns the settings and the fill level of the recorder. */
  state(): RecorderState
  /** Returns one page, newest first. `next`: id for the next page, undefined on the last page. */
  list(
    criteria: ExchangeCriteria,
    page: ExchangePage
  ): Promise<{ exchanges: ExchangeSummary[]; next: string | undefined }>
  get(id: string): Promise<ExchangeView | undefined>
  archive(criteria: ExchangeCriteria, limit: number): Promise<Archive>
  clear(): void
  follow(criteria: ExchangeCriteria, options: FollowOptions): StopFollowing
  /** Creates a key for explanations; undefined if there are too many. */
  makeKey(lasting: number): { readonly header: string; readonly key: string; readonly endsAt: number } | undefined
  replay(id: string, edits: ReplayEdits): Promise<ExchangeView>
  compare(request: ComparisonRequest): Promise<Comparison>
}

interface ExchangePage {
  readonly limit: number
  readonly before: string | undefined
}

/** Most and fewest milliseconds that a key for explanations lasts. */
const KEY_LASTS = { least: 1_000, most: 86_400_000, absent: 600_000 }
/** Maximum number of compared exchanges. */
const MOST_COMPARED = 100_000
/** Maximum number of capacities of one comparison. */
const MOST_CAPACITIES = 20
const text = (description: string) => ({ type: 'string', description })

/** JSON Schema of the body of `POST /explain/keys`. */
export const EXPLAIN_KEY_SCHEMA = {
  type: 'object',
  title: 'ExplainKeyRequest',
  properties: { lasts: { ...text('How long it is good, from 1s to 24h.'), default: '10m' } },
  additionalProperties: false
} as const

/** JSON Schema of the body of `POST /exchanges/{id}/replay`. */
export const REPLAY_SCHEMA = {
  type: 'object',
  title: 'ReplayRequest',
  description: 'What is different from the exchange that is sent again; nothing: it is sent as it came.',
  properties: {
    method: text('Another method.'),
    url: text('Another URL, absolute.'),
    headers: {
      type: 'object',
      description: 'Fields in the place of those with the same names; null takes them away.',
      additionalProperties: {
        anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }, { type: 'null' }]
      }
    },
    body: text('Another body.')
  },
  additionalProperties: false
} as const

/** JSON Schema of the criteria of exchanges in a body. */
export const CRITERIA_PROPERTY = {
  type: 'object',
  description: 'Which of the recorded exchanges; the criteria of GET /exchanges.',
  properties: Object.fromEntries(EXCHANGE_CRITERIA.map((name) => [name, { type: 'string' }])),
  additionalProperties: false
} as const

/** JSON Schema of the body of `POST /replay`. */
export const COMPARISON_SCHEMA = {
  type: 'object',
  title: 'ComparisonRequest',
  properties: {
    exchanges: CRITERIA_PROPERTY,
    limit: {
      type: 'integer',
      minimum: 1,
      maximum: MOST_COMPARED,
      default: 10_000,
      description: 'Exchanges at most, the newest ones.'
    },
    archive: {
      type: ['object', 'string'],
      description:
        'An HTTP Archive (HAR) whose requests take the place of what is recorded here, or its entries as text, one in each line.'
    },
    policies: CANDIDATES_SCHEMA,
    capacities: {
      type: 'object',
      description: 'Other capacities of rate limits; each is tried by itself.',
      properties: {
        rule: text('Name of the rule with the limit; absent: every limit gets the capacity.'),
        values: {
          type: 'array',
          items: { type: 'integer', minimum: 1, maximum: 2_000_000_000 },
          minItems: 1,
          maxItems: MOST_CAPACITIES
        }
      },
      required: ['values'],
      additionalProperties: false
    },
    counters: {
      enum: ['running', 'empty'],
      default: 'empty',
      description: 'What limits begin with: nothing, or a copy of what is counted now.'
    },
    examples: {
      type: 'integer',
      minimum: 0,
      maximum: 100,
      default: 3,
      description: 'Examples for each pair of decisions that differ.'
    }
  },
  additionalProperties: false
} as const

/** The recorded exchanges of this process, for callers of the API. */
export class Exchanges {
  readonly #source: ExchangeSource
  readonly #baseUrl: () => string
  readonly #serving: Pick<SnapshotHolder, 'current' | 'names'>

  constructor(source: ExchangeSource, baseUrl: () => string, serving: Pick<SnapshotHolder, 'current' | 'names'>) {
    this.#source = source
    this.#baseUrl = baseUrl
    this.#serving = serving
  }

  /** Returns one page of exchanges, the newest first, with the state of the recorder. */
  async list(criteria: ExchangeCriteria, page: ExchangePage): Promise<ExchangeList> {
    const { exchanges, next } = await this.#source.list(criteria, page)
    const uri = `${this.#baseUrl()}/exchanges`
    const query = new URLSearchParams({ before_id: next ?? '', limit: String(page.limit) })
    for (const [name, value] of Object.entries(criteria)) if (value !== undefined) query.append(name, value)
    const next_page_uri = next === undefined ? null : `${uri}?${query}`
    return { exchanges, uri, next_page_uri, recorder: this.#source.state() }
  }

  /** Fails with `NOT_FOUND` where the exchange is not recorded, or not any more. */
  async get(id: string): Promise<ExchangeView> {
    const found = await this.#source.get(id)
    if (found === undefined) throw notFound(`exchange ${id}`)
    return found
  }

  /** Returns exchanges as an HTTP Archive. */
  async archive(criteria: ExchangeCriteria, limit: number): Promise<Archive> {
    return await this.#source.archive(criteria, limit)
  }

  /** Deletes the recorded exchanges. */
  clear(): void {
    this.#source.clear()
  }

  follow(criteria: ExchangeCriteria, options: FollowOptions): StopFollowing {
    return this.#source.follow(criteria, options)
  }

  /** Makes a key for the header that asks for an explanation of a request of a client. */
  makeKey(body: unknown): ExplainKey {
    const { lasts } = membersOf(body ?? {}, '', Object.keys(EXPLAIN_KEY_SCHEMA.properties))
    const made = this.#source.makeKey(lastingOf(lasts))
    if (made === undefined)
      throw new ControlError(controlErrors.TOO_MANY_KEYS, 'there are as many keys as there may be')
    const { header, key, endsAt } = made
    return { header, value: key, ends_at: timestampText(endsAt) }
  }

  /** Sends a request again, and returns the exchange that came of it. */
  async replay(id: string, body: unknown): Promise<ExchangeView> {
    const { method, url, headers, body: content } = membersOf(body ?? {}, '', Object.keys(REPLAY_SCHEMA.properties))
    return await this.#source.replay(id, {
      method: method === undefined ? undefined : methodOf(method),
      url: url === undefined ? undefined : urlOf(url),
      headers: editsOf(headers),
      body: content === undefined ? undefined : Buffer.from(textOf(content, 'body'))
    })
  }

  /** Compares the decisions of other policies on recorded exchanges with those of the running configuration. */
  async compare(body: unknown): Promise<Comparison> {
    const given = membersOf(body, '', Object.keys(COMPARISON_SCHEMA.properties))
    return await this.#source.compare({
      criteria: readCriteria(given.exchanges),
      limit: countOf(given.limit, 'limit', { least: 1, most: MOST_COMPARED, absent: 10_000 }),
      archive: given.archive,
      instead: await findReplaced(candidatesOf(given.policies), this.#serving),
      capacities: capacitiesOf(given.capacities),
      counters: wordOf(given.counters, 'counters', ['running', 'empty'], 'empty'),
      examples: countOf(given.examples, 'examples', { least: 0, most: 100, absent: 3 })
    })
  }
}

/** No criteria: every exchange. */
function noCriteria(): ExchangeCriteria {
  return Object.fromEntries(EXCHANGE_CRITERIA.map((name) => [name, undefined])) as ExchangeCriteria
}

/** Reads the criteria of a body. Throws a ControlError. */
export function readCriteria(value: unknown): ExchangeCriteria {
  if (value === undefined || value === null) return noCriteria()
  const given = membersOf(value, 'exchanges', EXCHANGE_CRITERIA)
  const read = EXCHANGE_CRITERIA.map((name) => [
    name,
    given[name] === undefined ? undefined : textOf(given[name], `exchanges.${name}`)
  ])
  return Object.fromEntries(read) as ExchangeCriteria
}

function lastingOf(value: unknown): number {
  if (value === undefined || value === null) return KEY_LASTS.absent
  const lasting = parseDuration(textOf(value, 'lasts'))
  if (lasting === undefined || lasting < KEY_LASTS.least || lasting > KEY_LASTS.most)
    throw refused('FIELD_INVALID', 'lasts', 'must be a duration from 1s to 24h, such as 10m')
  return lasting
}

function editsOf(value: unknown): ReplayEdits['headers'] {
  const edits = new Map<string, readonly string[] | null>()
  if (value === undefined || value === null) return edits
  if (!isObject(value)) throw refused('FIELD_INVALID', 'headers', 'must be an object')
  for (const [name, given] of Object.entries(value)) {
    const at = `headers.${name.slice(0, 64)}`
    edits.set(name, given === null ? null : fieldValuesOf(name, given, at))
  }
  return edits
}

function capacitiesOf(value: unknown): ComparisonRequest['capacities'] {
  if (value === undefined || value === null) return undefined
  const { rule, values } = membersOf(value, 'capacities', ['rule', 'values'])
  const numbers = listOf(values, 'capacities.values').map((one, i) =>
    countOf(one, `capacities.values[${i}]`, { least: 1, most: 2_000_000_000, absent: 0 })
  )
  if (numbers.length === 0 || numbers.length > MOST_CAPACITIES || numbers.includes(0))
    throw refused('FIELD_INVALID', 'capacities.values', `must have 1 to ${MOST_CAPACITIES} numbers`)
  return { rule: rule === undefined ? undefined : nameOf(rule, 'capacities.rule'), values: numbers }
}
