import { addCharacters, BIT_WORDS } from '../../../lib/regex-needs.js'
import type { ChangeTest } from '../changes.js'
import type { Transformation } from '../transformations.js'
import type { Target, TargetList } from './target.js'

/** A step of a chain. */
export interface ChainStep {
  readonly name: string
  readonly transform: Transformation
  /** Returns false if the step changes no value of a text. Undefined for a step that changes most values. */
  readonly mayChange?: ChangeTest | undefined
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
}

/** Sequences of transformations of a rule set, as a tree: equal beginnings share their results. Chain 0 changes nothing. */
export class TransformationChains {
  readonly #chains: Chain[] = [{ parent: 0, step: { name: 'none', transform: (text) => text } }]
  readonly #numbers = new Map<string, number>()

  /** Returns the numbers of the chain and of its beginnings, the shortest first. */
  add(steps: readonly ChainStep[]): readonly number[] {
    const numbers = [0]
    for (const step of steps) {
      const parent = numbers.at(-1) as number
      const key = `${parent} ${step.name.toLowerCase()}`
      let number = this.#numbers.get(key)
      if (number === undefined) {
        number = this.#chains.push({ parent, step }) - 1
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
    const after = step.mayChange?.(before, 0) === false ? before : step.transform(before)
    target.forms[chain] = after
    return after
  }

  /**
   * Returns the shortest chain that is known to have the same results for all values: a search in the joined text finds what no step
   * changes, which is most of a harmless request. Throws `WorkExceeded`.
   */
  equal(list: TargetList, chain: number, meter: Meter): number {
    if (chain === 0) return 0
    const known = list.equals[chain]
    if (known !== undefined) return known
    const { parent, step } = this.#chains[chain] as Chain
    const before = this.equal(list, parent, meter)
    let changes = true
    if (step.mayChange !== undefined && list.parts !== undefined)
      changes = list.parts.some((part) => this.equal(part, chain, meter) !== this.equal(part, parent, meter))
    else if (step.mayChange !== undefined) {
      const joined = this.joined(list, before, meter)
      meter.budget -= joined.length
      changes = step.mayChange(joined, list.items.length - 1)
    }
    const equal = changes ? chain : before
    list.equals[chain] = equal
    return equal
  }

  /** Returns the characters of all values after a chain, as bits. Throws `WorkExceeded`. */
  characters(list: TargetList, chain: number, meter: Meter): Int32Array {
    const known = list.characters[chain]
    if (known !== undefined) return known
    const bits = new Int32Array(BIT_WORDS)
    if (list.parts === undefined) {
      for (const target of list.items) {
        const form = this.form(target, chain, meter)
        meter.budget -= form.length
        addCharacters(bits, form)
      }
    } else
      for (const part of list.parts) {
        const others = this.characters(part, this.equal(part, chain, meter), meter)
        for (let i = 0; i < BIT_WORDS; i++) bits[i] = (bits[i] as number) | (others[i] as number)
      }
    list.characters[chain] = bits
    return bits
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
