import type { NeedMarks, NeedPlace } from '../../../lib/need-table.js'
import type { ChangeSigns } from '../changes.js'
import type { Transformation } from '../transformations.js'
import { meetsNeeds, type RuleNeeds } from './needs.js'
import type { Target, TargetList } from './target.js'

/** A step of a chain. */
export interface ChainStep {
  readonly name: string
  readonly transform: Transformation
  /** Signs that the step changes a value. Undefined for a step that changes most values. */
  readonly signs?: ChangeSigns | undefined
}

/** Work that a request may cost, in steps of about a nanosecond; below zero it is exhausted. */
export interface Meter {
  budget: number
}

/** A request costs more work than it may. */
export class WorkExceeded extends Error {
  constructor() {
    super('the request takes more work than it may')
  }
}

/** Steps for each character of a transformation. */
const TRANSFORMATION_COST = 8

interface Chain {
  readonly parent: number
  readonly step: ChainStep
  /** Need of values that the step changes, besides the pattern of its signs. */
  readonly need?: readonly NeedPlace[] | undefined
}

/** Sequences of transformations of a rule set, as a tree: equal beginnings share their results. Chain 0 changes nothing. */
export class TransformationChains {
  readonly #chains: Chain[] = [{ parent: 0, step: { name: 'none', transform: (text) => text } }]
  readonly #numbers = new Map<string, number>()
  readonly #needs: RuleNeeds

  constructor(needs: RuleNeeds) {
    this.#needs = needs
  }

  /** Returns the numbers of the chain and of its beginnings, the shortest first. */
  add(steps: readonly ChainStep[]): readonly number[] {
    const numbers = [0]
    for (const step of steps) {
      const parent = numbers.at(-1) as number
      const key = `${parent} ${step.name.toLowerCase()}`
      let number = this.#numbers.get(key)
      if (number === undefined) {
        const { name, signs } = step
        const need = signs && this.#needs.places(`t ${name.toLowerCase()}`, () => [signs.texts])
        number = this.#chains.push({ parent, step, need }) - 1
        this.#numbers.set(key, number)
      }
      numbers.push(number)
    }
    return numbers
  }

  /** Returns the value of a target after a chain. Throws `WorkExceeded`. */
  form(target: Target, chain: number, meter: Meter): string {
    if (chain === 0) return target.value
    const known = target.forms[chain]
    if (known !== undefined) return known
    const { parent, step } = this.#chains[chain] as Chain
    const before = this.form(target, parent, meter)
    meter.budget -= TRANSFORMATION_COST * (before.length + 1)
    if (meter.budget < 0) throw new WorkExceeded()
    const after = step.transform(before)
    target.forms[chain] = after
    return after
  }

  /**
   * Returns the shortest chain that is known to have the same results for all values: no step changes most of a harmless request. Throws
   * `WorkExceeded`.
   */
  equal(list: TargetList, chain: number, meter: Meter): number {
    if (chain === 0) return 0
    const known = list.equals[chain]
    if (known !== undefined) return known
    const { parent } = this.#chains[chain] as Chain
    const before = this.equal(list, parent, meter)
    const changes =
      list.parts === undefined
        ? this.#changes(list, before, chain, meter)
        : list.parts.some((part) => this.equal(part, chain, meter) !== this.equal(part, parent, meter))
    const equal = changes ? chain : before
    list.equals[chain] = equal
    return equal
  }

  /** Returns whether the last step of a chain changes a value, whose earlier steps have the results of the chain `before`. */
  #changes(list: TargetList, before: number, chain: number, meter: Meter): boolean {
    const { step, need } = this.#chains[chain] as Chain
    const { signs } = step
    if (need !== undefined && signs !== undefined && !meetsNeeds(this.marks(list, before, meter), need)) {
      if (signs.pattern === undefined || !signs.pattern.test(this.joined(list, before, meter))) return false
    }
    return list.distinct.some((target) => this.form(target, chain, meter) !== this.form(target, before, meter))
  }

  /** Returns the needs that the values meet after a chain. Throws `WorkExceeded`. */
  marks(list: TargetList, chain: number, meter: Meter): NeedMarks {
    const known = list.marks[chain]
    if (known !== undefined) return known
    const equal = list.parts === undefined ? this.equal(list, chain, meter) : chain
    const marks = equal === chain ? this.#mark(list, chain, meter) : this.marks(list, equal, meter)
    list.marks[chain] = marks
    return marks
  }

  #mark(list: TargetList, chain: number, meter: Meter): NeedMarks {
    const marks = this.#needs.blank()
    if (list.parts === undefined) {
      for (const target of list.distinct) {
        const form = this.form(target, chain, meter)
        meter.budget -= form.length
        this.#needs.mark(form, marks)
      }
    } else
      for (const part of list.parts) {
        const others = this.marks(part, chain, meter)
        for (let i = 0; i < marks.length; i++) marks[i] = (marks[i] as number) | (others[i] as number)
      }
    return marks
  }

  /** Returns all values after a chain, joined by line breaks. Throws `WorkExceeded`. */
  joined(list: TargetList, chain: number, meter: Meter): string {
    const known = list.joined[chain]
    if (known !== undefined) return known
    const forms =
      list.parts === undefined
        ? list.items.map((target) => this.form(target, chain, meter))
        : list.parts.map((part) => this.joined(part, this.equal(part, chain, meter), meter))
    const joined = forms.length === 1 ? (forms[0] as string) : forms.join('\n')
    meter.budget -= joined.length
    list.joined[chain] = joined
    return joined
  }
}
