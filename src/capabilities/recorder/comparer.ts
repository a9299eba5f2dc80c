import type { CandidatePolicies } from '../../control/candidate-policies.js'
import { refused } from '../../control/request-body.js'
import { Slices } from '../../lib/slices.js'
import type { Draft } from '../../schema/answer.js'
import type { Explanation } from '../explain/answers.js'
import type { OpenRunningLab } from '../explain/running-labs.js'
import { withCapacity } from '../policy-tests/mutants.js'
import type { Comparison } from './answers.js'
import { compare, type Judge, type Judgement, judgementOf, type PastExchange, refusals } from './comparison.js'
import type { ComparisonRequest } from './exchanges.js'

/** A past exchange, decided again. */
export interface Decided {
  readonly judgement: Judgement
  readonly explanation: Explanation
}

/** Decides past exchanges in sequence, with its own counters. */
export type Decide = (past: PastExchange) => Promise<Decided>

/** Numbers that are the same for both sides of a comparison (mulberry32). */
function sameNumbers(): () => number {
  let state = 0x5eed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Placeholder response of an upstream that was not contacted; dependent decisions are not judged. */
const UNKNOWN_ANSWER = { status: 200, headers: [], body: undefined }
const NOTHING_INSTEAD: ComparisonRequest['instead'] = new Map()

/** Decides past exchanges by the running configuration and by a candidate. */
export class Comparer {
  readonly #labs: OpenRunningLab
  readonly #textOf: (key: string) => string | undefined
  readonly #keys: () => readonly string[]

  constructor(labs: OpenRunningLab, textOf: (key: string) => string | undefined, keys: () => readonly string[]) {
    this.#labs = labs
    this.#textOf = textOf
    this.#keys = keys
  }

  async compare(past: readonly PastExchange[], request: ComparisonRequest): Promise<Comparison> {
    const { instead, capacities, counters, examples } = request
    const slices = Slices.besideTraffic()
    const at = past[0]?.at ?? 0
    const side = (policies: ComparisonRequest['instead']) => this.#side(policies, at, counters)
    const sides = await Promise.all([side(NOTHING_INSTEAD), side(instead)] as const)
    const compared = await compare(past, sides, { examples, slices })
    const tried: Draft<NonNullable<Comparison['capacities']>> = []
    for (const capacity of capacities?.values ?? []) {
      const changed = this.#withCapacity(instead, capacities?.rule, capacity)
      tried.push({ capacity, refused: await refusals(past, await side(changed), slices) })
    }
    return { ...compared, ...(capacities === undefined ? {} : { capacities: tried }) }
  }

  async #side(instead: ComparisonRequest['instead'], at: number, counters: 'running' | 'empty'): Promise<Judge> {
    const decide = await this.decide(instead, at, counters)
    return async (past) => (await decide(past)).judgement
  }

  /** Returns a function that decides exchanges by the running configuration with other policies, in the order of their times from `at` on. */
  async decide(instead: CandidatePolicies, at: number, counters: 'running' | 'empty'): Promise<Decide> {
    const start = { at, instead, counters, upstreamStatus: 200, reveal: true, random: sameNumbers() }
    const { lab, clock, takeNotAsked } = await this.#labs(start)
    return async (past) => {
      clock.advance(Math.max(0, past.at - clock.wall()))
      const { request, answer = UNKNOWN_ANSWER } = past
      const repeated = 'head' in request ? await lab.repeat(request, answer) : await lab.imagine(request, answer)
      return { judgement: judgementOf(past, repeated, takeNotAsked()), explanation: repeated.explanation }
    }
  }

  /** Replaces this capacity in the limits of the policies. Fails with `FIELD_INVALID` if no limit matches. */
  #withCapacity(
    instead: ComparisonRequest['instead'],
    rule: string | undefined,
    capacity: number
  ): ComparisonRequest['instead'] {
    const changed = new Map(instead)
    let limits = 0
    const keys = instead.size > 0 ? [...instead.keys()] : this.#keys()
    for (const key of keys) {
      const text = instead.get(key)?.text ?? this.#textOf(key)
      if (text === undefined) continue
      const made = withCapacity(text, rule, capacity)
      limits += made.limits
      if (made.limits > 0) changed.set(key, { text: made.text, source: instead.get(key)?.source ?? key })
    }
    if (limits === 0) throw refused('FIELD_INVALID', 'capacities', 'no limit of these policies is meant')
    return changed
  }
}
