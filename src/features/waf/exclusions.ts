import type { Expression } from '../../expression/expression.js'
import { evaluatesScore } from '../../flow/firewall.js'
import type { Flow } from '../../flow/flow.js'
import type { Scope } from '../../policy/action.js'
import { policyErrors } from '../../policy/problems.js'
import type { RuleSelector } from './engine/compile.js'
import type { RuleSet } from './engine/rule-set.js'
import type { Transaction } from './engine/transaction.js'
import { wafProblems } from './errors.js'
import { PlaceError, type VariableUse } from './seclang/rule.js'
import { readVariable } from './seclang/variables.js'

/** An exclusion as written in a config. */
interface WrittenExclusion {
  readonly when?: string
  readonly rules: readonly (number | string)[]
  readonly targets?: readonly string[]
}

/** Rules that are not evaluated, or values that they do not examine. */
export interface Exclusion {
  readonly when: Expression | undefined
  readonly rules: readonly RuleSelector[]
  /** Empty: the rules are not evaluated at all. */
  readonly targets: readonly VariableUse[]
}

/** Compiles the exclusions of a config. */
export function compileExclusions(written: readonly WrittenExclusion[], scope: Scope): readonly Exclusion[] {
  return written.map(({ when, rules, targets = [] }, i) => ({
    when: when === undefined ? undefined : scope.expression(when, ['exclusions', i, 'when']),
    rules: rules.map((rule, n) => {
      if (typeof rule === 'string') return { ids: [], tag: rule.slice('tag:'.length) }
      checkRule(rule, ['exclusions', i, 'rules', n], scope)
      return { ids: [[rule, rule] as const], tag: undefined }
    }),
    targets: targets.flatMap((target, n) => readTarget(target, ['exclusions', i, 'targets', n], scope))
  }))
}

/** Compiles the list `exclude_rule_ids`. */
export function compileExcludedIds(ids: readonly number[], scope: Scope): Exclusion {
  for (const [i, id] of ids.entries()) checkRule(id, ['exclude_rule_ids', i], scope)
  return { when: undefined, rules: [{ ids: ids.map((id) => [id, id] as const), tag: undefined }], targets: [] }
}

function checkRule(id: number, at: readonly (string | number)[], scope: Scope): void {
  if (!evaluatesScore(id)) return
  scope.problem(
    at,
    wafProblems.WAF_RULE_REQUIRED,
    `rule ${id} evaluates the score; without it nothing is denied. Exclude the rules that match instead`
  )
}

function readTarget(text: string, at: readonly (string | number)[], scope: Scope): VariableUse[] {
  try {
    const use = readVariable(text, { file: text, line: 1 })
    if (use.kind === 'values') return [{ ...use, kind: 'excluded' }]
  } catch (error) {
    if (!(error instanceof PlaceError)) throw error
  }
  scope.problem(
    at,
    policyErrors.CONFIG_INVALID,
    `"${text}" is no variable of the rules; write one such as ARGS:q or REQUEST_COOKIES:session`
  )
  return []
}

/** Exclusions whose rules are looked up in one rule set. */
interface ResolvedExclusion {
  readonly when: Expression | undefined
  readonly rules: readonly number[]
  readonly targets: readonly VariableUse[]
}

/** The exclusions of a config for one rule set. */
export class Exclusions {
  /** 1 at the numbers of rules that are never evaluated; undefined without any. */
  readonly removed: Uint8Array | undefined
  readonly #count: number
  readonly #rest: readonly ResolvedExclusion[]

  constructor(exclusions: readonly Exclusion[], rules: RuleSet) {
    const resolved = exclusions.map(({ when, rules: selectors, targets }) => ({
      when,
      targets,
      rules: selectors
        .flatMap((selector) => rules.select(selector))
        .filter((number) => !evaluatesScore(rules.idOf(number)))
    }))
    const always = resolved.filter(({ when, targets }) => when === undefined && targets.length === 0)
    this.#rest = resolved.filter((one) => !always.includes(one))
    this.#count = rules.size
    const numbers = always.flatMap((one) => one.rules)
    if (numbers.length === 0) return
    this.removed = new Uint8Array(rules.size)
    for (const number of numbers) this.removed[number] = 1
  }

  /** Applies the exclusions with a condition that holds, and those of values. Throws `EvaluationError`. */
  apply(transaction: Transaction, flow: Flow): void {
    for (const { when, rules, targets } of this.#rest) {
      if (when !== undefined && when.evaluate(flow) !== true) continue
      if (targets.length === 0) transaction.removeRules(rules, this.#count)
      else for (const target of targets) transaction.excludeTarget(rules, target)
    }
  }
}
