import type { NeedPlace } from '../../../lib/need-table.js'
import type { Steps } from '../../../lib/slices.js'
import { changeSigns } from '../changes.js'
import type { Assignment, Control, Rule, RuleSetSource, VariableUse } from '../seclang/rule.js'
import { PlaceError, RuleSetError } from '../seclang/rule.js'
import { CHANGING } from '../seclang/variables.js'
import { transformation } from '../transformations.js'
import { compileMacros, type Macro } from './macros.js'
import { meetsNeeds } from './needs.js'
import { compileOperator, type Matcher, toNumber } from './operators.js'
import type { Selection, Selections } from './selection.js'
import type { RuleTables } from './tables.js'
import { Target, type TargetList } from './target.js'
import type { Transaction } from './transaction.js'
import type { ChainStep, TransformationChains } from './transformation-chains.js'

/** Rules of a rule set, selected by id or by tag. */
export interface RuleSelector {
  readonly ids: readonly (readonly [from: number, to: number])[]
  readonly tag: string | undefined
}

/** A rule with its chain, compiled. */
export interface CompiledRule {
  readonly rule: Rule
  /** Number of the rule in its set. */
  readonly number: number
  /** Evaluates the rule with all effects but `skipAfter`; returns whether it matched. Throws `WorkExceeded`. */
  evaluate(transaction: Transaction): boolean
}

/** Members of a rule set that its rules share. */
export interface CompileScope {
  readonly chains: TransformationChains
  readonly selections: Selections
  /** Returns the numbers of the selected rules. Complete only after all rules are compiled. */
  select(selector: RuleSelector): readonly number[]
  /** Number of all rules. */
  readonly count: () => number
  readonly tables: RuleTables
  data(name: string): string | undefined
}

/** Steps of a value that matches, beside those of its search: what is recorded of it, and its effects. */
const MATCH_COST = 10_000

/** Effect of a match of one link. */
type Effect = (transaction: Transaction) => void

/** A link of a chain, compiled. */
interface Link {
  /** Returns false if the link cannot match; it has no effects. Undefined if that is not known beforehand. */
  readonly mayMatch?: ((transaction: Transaction) => boolean) | undefined
  /** Returns whether the link matches, with its effects. */
  matches(transaction: Transaction): boolean
}

/**
 * Compiles the rules of a set, one in a step. Throws `RuleSetError` with every mistake; with `skipUnknown`, rules with mistakes are left
 * out and described by `skip`.
 */
export function* compileRules(
  items: RuleSetSource['items'],
  scope: CompileScope,
  skip?: (problem: string) => void
): Steps<(CompiledRule | { readonly marker: string })[]> {
  const compiled: (CompiledRule | { readonly marker: string })[] = []
  const problems: string[] = []
  let number = 0
  for (const item of items) {
    if ('marker' in item) {
      compiled.push(item)
      continue
    }
    try {
      compiled.push(compileRule(item, number, scope))
      number++
    } catch (error) {
      if (!(error instanceof PlaceError)) throw error
      if (skip === undefined) problems.push(error.message)
      else skip(error.message)
    }
    yield
  }
  if (problems.length > 0) throw new RuleSetError(problems)
  return compiled
}

function compileRule(rule: Rule, number: number, scope: CompileScope): CompiledRule {
  const [head, ...links] = [rule, ...rule.links].map((link) => compileLink(link, number, rule, scope)) as [
    Link,
    ...Link[]
  ]
  const { report, effects, id } = rule
  const about = { id, severity: report.severity }
  const message = compileMacros(report.message, about)
  const data = compileMacros(report.data, about)
  const denies = [rule, ...rule.links].some((link) => link.effects.disruption === 'deny')
  return {
    rule,
    number,
    evaluate(transaction) {
      if (head.mayMatch?.(transaction) === false) return false
      transaction.beginRule()
      if (!head.matches(transaction)) return false
      for (const link of links) {
        if (link.mayMatch?.(transaction) === false || !link.matches(transaction)) return false
      }
      if (report.logs) {
        const { sources, matched } = transaction
        const target = sources.at(-1)?.target ?? (rule.test.variables.length === 0 ? undefined : matched)
        transaction.report({
          id,
          message: message(transaction),
          severity: report.severity,
          data: data(transaction),
          variable: target?.name ?? '',
          sources,
          score: transaction.added
        })
      }
      if (denies) transaction.denied ??= { id, status: effects.status }
      return true
    }
  }
}

function compileLink(link: Rule, number: number, head: Rule, scope: CompileScope): Link {
  const effect = compileEffects(link, head, scope)
  const { test, place, report } = link
  if (test.operator === undefined) {
    return {
      matches: (transaction) => {
        effect?.(transaction)
        return true
      }
    }
  }
  const { operator } = test
  const targets = withoutExcluded(scope.selections.compile(test.variables, place), number, scope)
  const chains = scope.chains.add(test.transformations.map((name) => findTransformation(name, link)))
  const captures = test.capture
  const rule = { id: head.id, severity: report.severity }
  const matcher = compileOperator(operator, { place, captures, rule, tables: scope.tables, data: scope.data })
  const { transformations } = test
  const reports = head.report.logs
  const parts = {
    targets,
    matcher,
    negated: operator.negated,
    chains,
    effect,
    scope: scope.chains,
    transformations,
    reports
  }
  const eachForm = test.multiMatch && chains.length > 1
  // Values that rules change are read anew for each rule: their needs are found no faster than a match.
  const { needs } = matcher
  const gated = needs !== undefined && !operator.negated && !test.variables.some((use) => CHANGING.has(use.collection))
  return {
    mayMatch: gated ? needsMet(parts, needs, eachForm ? chains : chains.slice(-1)) : undefined,
    matches: eachForm ? eachFormLink(parts) : lastFormLink(parts)
  }
}

interface LinkParts {
  readonly targets: Selection
  readonly matcher: Matcher
  readonly negated: boolean
  /** Numbers of the transformation chain and of its beginnings. */
  readonly chains: readonly number[]
  readonly effect: Effect | undefined
  readonly scope: TransformationChains
  readonly transformations: readonly string[]
  /** The rule reports its matches. */
  readonly reports: boolean
}

/** Returns whether the values of a link meet its needs after one of the chains. */
function needsMet(
  { targets, scope }: LinkParts,
  needs: readonly NeedPlace[],
  chains: readonly number[]
): Link['matches'] {
  const [chain = 0, second] = chains
  if (second === undefined) {
    return (transaction) => {
      const list = targets(transaction)
      return list.size > 0 && meetsNeeds(list.marks[chain] ?? scope.marks(list, chain, transaction.meter), needs)
    }
  }
  return (transaction) => {
    const list = targets(transaction)
    return list.size > 0 && chains.some((one) => meetsNeeds(scope.marks(list, one, transaction.meter), needs))
  }
}

/** A link that tests values after all of its transformations. */
function lastFormLink(parts: LinkParts): Link['matches'] {
  const { targets, matcher, negated, chains, scope } = parts
  const last = chains.at(-1) as number
  const mayMatch = negated ? undefined : matcher.mayMatch
  return (transaction) => {
    const list = targets(transaction)
    if (list.size === 0) return false
    const chain = scope.equal(list, last, transaction.meter)
    if (mayMatch !== undefined && list.size > 1) {
      if (!mayMatch(scope.joined(list, chain, transaction.meter), transaction)) return false
    }
    return matchValues(parts, list, [chain], transaction)
  }
}

/** A link with `multiMatch`: it tests values before and after each of its transformations. */
function eachFormLink(parts: LinkParts): Link['matches'] {
  const { targets, chains, scope } = parts
  return (transaction) => {
    const list = targets(transaction)
    const different = new Set(chains.map((chain) => scope.equal(list, chain, transaction.meter)))
    return matchValues(parts, list, [...different], transaction)
  }
}

/** Tests all values after each chain, with the effects of matches. Values that others equal are tested once if none of them matches. */
function matchValues(parts: LinkParts, list: TargetList, chains: readonly number[], transaction: Transaction): boolean {
  const { distinct } = list
  if (!parts.negated && distinct.length < list.size && !testValues(parts, distinct, chains, transaction)) return false
  return testValues(parts, list.items, chains, transaction, true)
}

function testValues(
  parts: LinkParts,
  items: readonly Target[],
  chains: readonly number[],
  transaction: Transaction,
  hasEffects = false
): boolean {
  const { matcher, negated, scope } = parts
  let matched = false
  for (const target of items) {
    let before: string | undefined
    for (const chain of chains) {
      const form = scope.form(target, chain, transaction.meter)
      if (form === before) continue
      before = form
      if (matcher.matches(form, transaction) === negated) continue
      if (!hasEffects) return true
      matched = true
      matchTarget(target, form, transaction, parts)
    }
  }
  return matched
}

/** Records the matching value and applies the effects of the link, once for each value. */
function matchTarget(target: Target, form: string, transaction: Transaction, link: LinkParts): void {
  const { effect } = link
  transaction.spend(MATCH_COST)
  const matched = form === target.value ? target : new Target(target.collection, target.member, form)
  transaction.matched = matched
  transaction.matchedAll.push(matched)
  if (!link.reports || CHANGING.has(target.collection)) {
    effect?.(transaction)
    return
  }
  const source = transaction.addSource(link, target, matched, link.transformations)
  const before = transaction.added
  effect?.(transaction)
  source.score = transaction.added - before
}

function findTransformation(name: string, { place }: Rule): ChainStep {
  const transform = transformation(name)
  if (transform === undefined) throw new PlaceError(place, `the transformation ${name} is not known`)
  return { name, transform, signs: changeSigns(name) }
}

/** Leaves out values that the transaction excludes from the rule. */
function withoutExcluded(selection: Selection, number: number, { selections }: CompileScope): Selection {
  return (transaction) => {
    const list = selection(transaction)
    const excluded = transaction.excludedFrom(number)
    if (excluded === undefined) return list
    return list.without(excluded, (target) => excluded.some((use) => selections.isExcluded(target, use, transaction)))
  }
}

function compileEffects({ effects, report }: Rule, head: Rule, scope: CompileScope): Effect | undefined {
  const about = { id: head.id, severity: report.severity }
  const all = [
    ...effects.assignments.map((assignment) => compileAssignment(assignment, about)),
    ...effects.controls.map((control) => compileControl(control, scope))
  ]
  const [first, second] = all
  if (second === undefined) return first
  return (transaction) => {
    for (const effect of all) effect(transaction)
  }
}

/** Part of the names of variables of TX with anomaly scores. */
const SCORE = 'anomaly_score'

function compileAssignment(
  { name: written, how, value: right }: Assignment,
  rule: { readonly id: number; readonly severity: string }
): Effect {
  const name: Macro = compileMacros(written, rule)
  if (how === 'unset') return (transaction) => transaction.unsetTx(name(transaction))
  const value = compileMacros(right, rule)
  if (how === 'set') return (transaction) => transaction.setTx(name(transaction), value(transaction))
  const sign = how === 'add' ? 1 : -1
  return (transaction) => {
    const key = name(transaction).toLowerCase()
    const change = sign * toNumber(value(transaction))
    transaction.setTx(key, String(toNumber(transaction.getTx(key) ?? '0') + change))
    if (key.includes(SCORE)) transaction.added += change
  }
}

function compileControl(control: Control, scope: CompileScope): Effect {
  switch (control.kind) {
    case 'remove-rules':
      return (transaction) => transaction.removeRules(scope.select(control), scope.count())
    case 'remove-target': {
      const target: VariableUse = { ...control.target, kind: 'excluded' }
      return (transaction) => transaction.excludeTarget(scope.select(control), target)
    }
    case 'body-variable':
      return (transaction) => {
        transaction.keepsBodyText = control.on
      }
    case 'body-processor':
      return (transaction) => transaction.setOne('REQBODY_PROCESSOR', control.name)
    case 'engine':
      return (transaction) => {
        transaction.off = control.mode === 'off'
      }
  }
}
