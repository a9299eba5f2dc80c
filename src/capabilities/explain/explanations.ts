import {
  CANDIDATES_SCHEMA,
  type CandidatePolicies,
  candidatesOf,
  findReplaced
} from '../../control/candidate-policies.js'
import { notFound } from '../../control/errors.js'
import {
  countOf,
  fieldValuesOf,
  membersOf,
  methodOf,
  refused,
  textOf,
  urlOf,
  wordOf
} from '../../control/request-body.js'
import { parseAddress } from '../../lib/ip.js'
import { isObject } from '../../lib/json.js'
import { hashOf } from '../../lib/seal.js'
import { parseDuration } from '../../lib/units.js'
import { policyKey } from '../../runtime/plan.js'
import type { SnapshotHolder } from '../../runtime/snapshot.js'
import type { ExplainedPolicy, Explanation } from './answers.js'

/** Simulated requests, and changes of the running configuration for them. */
interface ExplainRequest {
  readonly method: string
  readonly url: URL
  /** Names and values by turns. */
  readonly headers: readonly string[]
  readonly body: Uint8Array | undefined
  readonly version: '1.0' | '1.1' | '2'
  readonly clientAddress: string
  /** Wall time of the first request (ms). @default now */
  readonly at: number | undefined
  readonly repeat: number
  /** Milliseconds from one to the next. */
  readonly every: number
  /** Simulated status of the upstream response. */
  readonly upstreamStatus: number
  /** `running` copies the current counters of limits. */
  readonly counters: 'running' | 'empty'
  readonly instead: CandidatePolicies
}

/** Explains requests by the running configuration, without side effects. Fails with a ControlError for a policy with errors. */
export type Explain = (request: ExplainRequest) => Promise<readonly Explanation[]>

const MOST_REPEATS = 1_000
const MOST_HEADERS = 1_000
const text = (description: string) => ({ type: 'string', description })

/** JSON Schema of the body of `POST /explain`. */
export const EXPLAIN_SCHEMA = {
  type: 'object',
  title: 'ExplainRequest',
  properties: {
    url: text('What is asked for: absolute, http or https. Its host and port choose the edge.'),
    method: { ...text('Method of the request.'), default: 'GET' },
    headers: {
      type: 'object',
      description: 'Fields of the request: a text, or a list of texts for several fields of one name.',
      additionalProperties: { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] }
    },
    body: text('Body of the request.'),
    http_version: { enum: ['1.0', '1.1', '2'], default: '1.1', description: 'What it comes in.' },
    client_ip: { ...text('IP address that it comes from.'), default: '127.0.0.1' },
    at: { ...text('When it comes (RFC 3339); absent: now.'), format: 'date-time' },
    repeat: { type: 'integer', minimum: 1, maximum: MOST_REPEATS, default: 1, description: 'How often it comes.' },
    every: { ...text('Time from one to the next, such as 500ms or 10s.'), default: '0s' },
    upstream_status: {
      type: 'integer',
      minimum: 200,
      maximum: 599,
      default: 200,
      description: 'What the upstream is taken to answer.'
    },
    counters: {
      enum: ['running', 'empty'],
      default: 'running',
      description: 'running: limits go on from what is counted now, in a copy. empty: they begin anew.'
    },
    policies: CANDIDATES_SCHEMA
  },
  required: ['url'],
  additionalProperties: false
} as const

const KEYS = Object.keys(EXPLAIN_SCHEMA.properties)

/** Says how imagined requests would be decided. */
export class Explanations {
  readonly #explain: Explain
  readonly #serving: Pick<SnapshotHolder, 'current' | 'names'>

  constructor(explain: Explain, serving: Pick<SnapshotHolder, 'current' | 'names'>) {
    this.#explain = explain
    this.#serving = serving
  }

  /** Returns the policy that serves for an owner: the places in explanations are places in its text. Fails with `NOT_FOUND`. */
  policy(owner: string): ExplainedPolicy {
    const found = this.#serving.current().policySource(policyKey(owner))
    if (found === undefined) throw notFound(`policy of ${owner}`)
    return { owner, source: found.source, digest: hashOf(found.text), text: found.text }
  }

  /** Returns one explanation for each request. Fails with a ControlError for a wrong body, or a policy with errors in it. */
  async explain(body: unknown): Promise<readonly Explanation[]> {
    const request = readExplainRequest(body)
    return await this.#explain({ ...request, instead: await findReplaced(request.instead, this.#serving) })
  }
}

function readExplainRequest(body: unknown): ExplainRequest {
  const given = membersOf(body, '', KEYS)
  const { method, at, body: content } = given
  return {
    url: urlOf(given.url),
    method: method === undefined ? 'GET' : methodOf(method),
    headers: headersOf(given.headers),
    body: content === undefined ? undefined : Buffer.from(textOf(content, 'body')),
    version: wordOf(given.http_version, 'http_version', ['1.0', '1.1', '2'], '1.1'),
    clientAddress: addressOf(given.client_ip),
    at: at === undefined || at === null ? undefined : timeOf(at),
    repeat: countOf(given.repeat, 'repeat', { least: 1, most: MOST_REPEATS, absent: 1 }),
    every: everyOf(given.every),
    upstreamStatus: countOf(given.upstream_status, 'upstream_status', { least: 200, most: 599, absent: 200 }),
    counters: wordOf(given.counters, 'counters', ['running', 'empty'], 'running'),
    instead: candidatesOf(given.policies)
  }
}

function headersOf(value: unknown): string[] {
  if (value === undefined || value === null) return []
  if (!isObject(value)) throw refused('FIELD_INVALID', 'headers', 'must be an object')
  const fields: string[] = []
  for (const [name, given] of Object.entries(value)) {
    const at = `headers.${name.slice(0, 64)}`
    for (const one of fieldValuesOf(name, given, at)) fields.push(name, one)
  }
  if (fields.length > 2 * MOST_HEADERS)
    throw refused('FIELD_INVALID', 'headers', `must have at most ${MOST_HEADERS} fields`)
  return fields
}

function addressOf(value: unknown): string {
  if (value === undefined || value === null) return '127.0.0.1'
  const address = textOf(value, 'client_ip')
  if (parseAddress(address) === undefined) throw refused('FIELD_INVALID', 'client_ip', 'must be an IP address')
  return address
}

function timeOf(value: unknown): number {
  const wall = Date.parse(textOf(value, 'at'))
  if (Number.isNaN(wall)) throw refused('FIELD_INVALID', 'at', 'must be a time such as 2026-01-31T12:00:00Z')
  return wall
}

function everyOf(value: unknown): number {
  if (value === undefined || value === null) return 0
  const every = parseDuration(textOf(value, 'every'))
  if (every === undefined) throw refused('FIELD_INVALID', 'every', 'must be a duration such as 500ms or 10s')
  return every
}
