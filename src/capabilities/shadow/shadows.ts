import type { Call } from '../../control/calls.js'
import { CANDIDATES_SCHEMA, candidatesOf, findReplaced } from '../../control/candidate-policies.js'
import { notFound } from '../../control/errors.js'
import { countOf, listOf, membersOf, nameOf, refused, textOf, wordOf } from '../../control/request-body.js'
import { formatDuration, parseDuration } from '../../lib/units.js'
import type { SnapshotHolder } from '../../runtime/snapshot.js'
import type { ShadowList, ShadowView } from './answers.js'
import { type Rehearse, type ShadowChange, shadowChange } from './shadow-changes.js'
import type { ShadowCandidate, ShadowRunner, ShadowSettings } from './shadow-runner.js'

const text = (description: string) => ({ type: 'string', description })
const MOST_DURATION = 7 * 24 * 3_600_000
const BUDGET = { least: 1, most: 50 }
const MOST_EXAMPLES = 20
const MOST_CHANGES = 100

/** JSON Schema of the body of `POST /shadows`. */
export const SHADOW_SCHEMA = {
  type: 'object',
  title: 'ShadowRequest',
  description: 'What is tried: policies, or changes of the configuration.',
  properties: {
    name: text('For people.'),
    policies: CANDIDATES_SCHEMA,
    changes: {
      type: 'array',
      maxItems: MOST_CHANGES,
      description: 'Writes whose outcome is tried, in their order. They are checked as a dry run checks them.',
      items: {
        type: 'object',
        properties: {
          method: { enum: ['POST', 'PATCH', 'PUT', 'DELETE'], description: 'Method of the write.' },
          path: text('Its path, such as /edges/https/edghts_…/routes/edghtsrt_….'),
          body: { description: 'Its body, where it has one.' }
        },
        required: ['method', 'path'],
        additionalProperties: false
      }
    },
    share: {
      type: 'number',
      exclusiveMinimum: 0,
      maximum: 1,
      default: 1,
      description: 'Share of the clients, by their addresses, all of whose exchanges are judged.'
    },
    budget: { ...text('Work for one exchange, 1ms to 50ms; beyond, it is not judged.'), default: '2ms' },
    duration: { ...text('How long it runs, 1s to 168h.'), default: '1h' },
    counters: {
      enum: ['running', 'empty'],
      default: 'running',
      description: 'running: limits go on from what is counted now, in a copy. empty: they begin anew.'
    },
    examples: {
      type: 'integer',
      minimum: 0,
      maximum: MOST_EXAMPLES,
      default: 3,
      description: 'Examples that are kept of each kind of difference.'
    }
  },
  additionalProperties: false
} as const

const KEYS = Object.keys(SHADOW_SCHEMA.properties)

interface ShadowsParts {
  readonly runner: ShadowRunner
  /** Computes the configuration after these writes. Fails with a ControlError, as the writes would. */
  readonly rehearse: Rehearse
  /** The configuration that serves. */
  readonly serving: Pick<SnapshotHolder, 'current' | 'names'>
  readonly baseUrl: () => string
}

/** Candidates that run beside traffic of this process. They are kept in memory. */
export class Shadows {
  readonly #parts: ShadowsParts

  constructor(parts: ShadowsParts) {
    this.#parts = parts
  }

  /** Starts a candidate. Fails with `SHADOWS_FULL`, or with the error of the body, of a policy in it, or of a write. */
  async create(body: unknown, call: Call): Promise<ShadowView> {
    const { instead, writes, settings } = readShadowRequest(body)
    const { runner, rehearse, serving } = this.#parts
    runner.mustBeHere()
    const changes = writes.length === 0 ? undefined : await rehearse(writes, call)
    return await runner.start({ instead: await findReplaced(instead, serving), changes }, settings)
  }

  /** Lists the candidates, the newest first, without their matrix. */
  list(): ShadowList {
    const { runner, baseUrl } = this.#parts
    return { shadows: runner.list(), uri: `${baseUrl()}/shadows`, next_page_uri: null }
  }

  /** Fails with `NOT_FOUND`. */
  get(id: string): ShadowView {
    const shadow = this.#parts.runner.get(id)
    if (shadow === undefined) throw notFound('shadow')
    return shadow
  }

  /** Fails with `NOT_FOUND`. */
  remove(id: string): void {
    if (!this.#parts.runner.remove(id)) throw notFound('shadow')
  }
}

function readShadowRequest(body: unknown): {
  readonly instead: ShadowCandidate['instead']
  readonly writes: readonly ShadowChange[]
  readonly settings: ShadowSettings
} {
  const given = membersOf(body, '', KEYS)
  const instead = candidatesOf(given.policies)
  const writes = listOf(given.changes, 'changes').map((one, i) => shadowChange(one, `changes[${i}]`))
  if (writes.length > MOST_CHANGES)
    throw refused('FIELD_INVALID', 'changes', `must have at most ${MOST_CHANGES} entries`)
  if (instead.size === 0 && writes.length === 0)
    throw refused('FIELD_REQUIRED', 'policies', 'is missing, and there are no changes: nothing would be tried')
  const settings = {
    name: given.name === undefined || given.name === null ? null : nameOf(given.name, 'name'),
    share: shareOf(given.share),
    budget: timeOf(given.budget, 'budget', { ...BUDGET, absent: 2 }),
    duration: timeOf(given.duration, 'duration', { least: 1_000, most: MOST_DURATION, absent: 3_600_000 }),
    counters: wordOf(given.counters, 'counters', ['running', 'empty'], 'running'),
    examples: countOf(given.examples, 'examples', { least: 0, most: MOST_EXAMPLES, absent: 3 })
  }
  return { instead, writes, settings }
}

function shareOf(value: unknown): number {
  if (value === undefined || value === null) return 1
  if (typeof value !== 'number' || !(value > 0 && value <= 1))
    throw refused('FIELD_INVALID', 'share', 'must be a number above 0, up to 1')
  return value
}

function timeOf(value: unknown, at: string, bounds: { least: number; most: number; absent: number }): number {
  if (value === undefined || value === null) return bounds.absent
  const time = parseDuration(textOf(value, at))
  if (time === undefined || time < bounds.least || time > bounds.most) {
    const span = `${formatDuration(bounds.least)} to ${formatDuration(bounds.most)}`
    throw refused('FIELD_INVALID', at, `must be a duration from ${span}`)
  }
  return time
}
