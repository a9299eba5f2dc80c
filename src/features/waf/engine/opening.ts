import type { Rule } from '../seclang/rule.js'
import type { CompiledRule } from './compile.js'
import { hasMacros } from './macros.js'
import { Transaction } from './transaction.js'

/** Maximum number of sets of fixed variables whose results are kept. */
const MAX_KNOWN = 64

/** Rules of a phase in order, and where evaluation continues after a rule with `skipAfter`. */
interface OrderedRules {
  readonly rules: readonly CompiledRule[]
  readonly jumps: ReadonlyMap<number, number>
}

/** End of the opening and the variables of TX there. */
interface Opened {
  readonly next: number
  readonly variables: ReadonlyMap<string, string>
}

/**
 * Rules at the beginning of the first phase that set variables of TX and examine nothing else: their results are the same for all messages,
 * and evaluated once.
 */
export class Opening {
  readonly #phase: OrderedRules
  /** Number of rules up to the first that depends on a message. */
  readonly #length: number
  readonly #known = new Map<string, Opened>()
  readonly #byVariables = new WeakMap<ReadonlyMap<string, string>, Opened>()

  constructor(phase: OrderedRules) {
    this.#phase = phase
    const first = phase.rules.findIndex(({ rule }) => !dependsOnTxAlone(rule))
    this.#length = first < 0 ? phase.rules.length : first
  }

  /** Sets the variables of a transaction of which no rule was evaluated. Returns the index of the rule that follows. */
  apply(transaction: Transaction): number {
    const { fixed, txVariables, hasRemoved } = transaction
    if (this.#length === 0 || hasRemoved || txVariables.size !== fixed.size) return 0
    let opened = this.#byVariables.get(fixed)
    if (opened === undefined) {
      opened = this.#open(fixed)
      this.#byVariables.set(fixed, opened)
    }
    transaction.startFrom(opened.variables)
    return opened.next
  }

  #open(fixed: ReadonlyMap<string, string>): Opened {
    const key = JSON.stringify([...fixed])
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const { rules, jumps } = this.#phase
    const transaction = new Transaction({ budget: Number.POSITIVE_INFINITY, fixed })
    let next = 0
    while (next < this.#length) {
      const compiled = rules[next] as CompiledRule
      const { number, rule } = compiled
      // A rule that reports or denies does so for each message.
      const reports = rule.report.logs || rule.effects.disruption === 'deny'
      if (!compiled.evaluate(transaction)) next++
      else if (reports) return this.#keep(key, { next: 0, variables: new Map(fixed) })
      else next = jumps.get(number) ?? next + 1
    }
    return this.#keep(key, { next, variables: transaction.txVariables })
  }

  #keep(key: string, opened: Opened): Opened {
    if (this.#known.size >= MAX_KNOWN) this.#known.clear()
    this.#known.set(key, opened)
    return opened
  }
}

/** Returns whether a rule reads and sets variables of TX by fixed names alone. */
function dependsOnTxAlone({ test, effects, links }: Rule): boolean {
  if (links.length > 0 || effects.controls.length > 0 || test.capture) return false
  const texts = effects.assignments.flatMap(({ name, value }) => [name, value])
  if (test.operator !== undefined) {
    if (!COMPARISONS.has(test.operator.name.toLowerCase())) return false
    texts.push(test.operator.argument)
  }
  return (
    test.variables.every(({ collection, key }) => collection === 'TX' && key !== undefined && !CAPTURED.test(key)) &&
    texts.every((text) => !hasMacros(text.replace(TX_MACRO, '')))
  )
}

/** Operators that compare numbers. */
const COMPARISONS: ReadonlySet<string> = new Set(['eq', 'ge', 'gt', 'le', 'lt', 'unconditionalmatch'])
/** Name of a captured group. */
const CAPTURED = /^\d$/
/** Macros of variables of TX that are no captured groups. */
const TX_MACRO = /%\{tx\.(?!\d\})[\w-]+\}/gi
