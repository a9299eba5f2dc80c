import { PHASES } from '../../flow/flow.js'
import { readDocument } from '../../policy/document.js'
import { dataOf } from '../../policy/tree.js'
import type { PolicyParts } from './coverage.js'

/** A policy with one mistake in it. */
export interface Mutant {
  readonly text: string
  /** Position of the mistake. */
  readonly line: number
  readonly column: number
  readonly what: string
}

/** Returns the rules, conditions and actions of a valid policy with their positions. */
export function partsOf(text: string): PolicyParts {
  const { document } = readDocument(text)
  const { source, phases } = document
  const rules = PHASES.flatMap((phase) => phases[phase])
  return {
    rules: rules.map(({ name, span, expressions }) => ({
      ...source.place(span.start),
      name,
      conditions: expressions.map(({ node, source: condition }) => ({
        ...source.place(node.span.start),
        name: condition
      }))
    })),
    actions: rules.flatMap(({ actions }) =>
      actions.map(({ type, typeNode }) => ({ ...source.place(typeNode.span.start), name: type }))
    )
  }
}

/**
 * Returns every policy that differs from a valid one by one mistake: a negated condition, a missing rule, two actions of a
 * rule in the wrong order, the capacity of a limit plus or minus 1. Each is JSON, with the position in the given text.
 */
export function mutantsOf(text: string): Mutant[] {
  const { document } = readDocument(text)
  const { source, strict, phases } = document
  const mutants: Mutant[] = []
  const whole = PHASES.map((phase) => [phase, phases[phase].map(plainRule)] as const)
  const changed = (phase: string, change: (rules: PlainRule[]) => void): string => {
    const copy = Object.fromEntries(
      whole
        .filter(([name, rules]) => rules.length > 0 || name === phase)
        .map(([name, rules]) => [name, structuredClone(rules)])
    )
    change(copy[phase] as PlainRule[])
    return JSON.stringify({ ...(strict ? { strict_expressions: true } : {}), ...copy })
  }
  for (const phase of PHASES) {
    for (const [r, rule] of phases[phase].entries()) {
      const at = (start: number) => source.place(start)
      mutants.push({
        ...at(rule.span.start),
        what: `rule "${rule.name}" is left out`,
        text: changed(phase, (rules) => void rules.splice(r, 1))
      })
      for (const [e, { node, source: condition }] of rule.expressions.entries()) {
        mutants.push({
          ...at(node.span.start),
          what: `${condition} is negated`,
          text: changed(phase, (rules) => {
            const target = rules[r] as PlainRule
            target.expressions[e] = `!(${condition})`
          })
        })
      }
      for (const [a, { type, typeNode }] of rule.actions.entries()) {
        const next = rule.actions[a + 1]
        if (next !== undefined && next.type !== type) {
          mutants.push({
            ...at(typeNode.span.start),
            what: `${type} runs after ${next.type}`,
            text: changed(phase, (rules) => {
              const { actions } = rules[r] as PlainRule
              actions.splice(a, 2, ...actions.slice(a, a + 2).reverse())
            })
          })
        }
        const capacity = whole.find(([name]) => name === phase)?.[1][r]?.actions[a]?.config.capacity
        if (typeof capacity !== 'number') continue
        for (const difference of [1, -1]) {
          if (capacity + difference < 1) continue
          mutants.push({
            ...at(typeNode.span.start),
            what: `capacity is ${capacity + difference} instead of ${capacity}`,
            text: changed(phase, (rules) => {
              const { actions } = rules[r] as PlainRule
              const target = actions[a] as PlainRule['actions'][number]
              target.config.capacity = capacity + difference
            })
          })
        }
      }
    }
  }
  return mutants
}

/**
 * Replaces the capacities of limits in a valid policy. Returns JSON and the number of changed limits. `rule`: name of the
 * rule whose limits are changed, undefined for all.
 */
export function withCapacity(
  text: string,
  rule: string | undefined,
  capacity: number
): { readonly text: string; readonly limits: number } {
  let limits = 0
  const changed = changeActions(text, ({ config }, name) => {
    // An expression is tried as a number, too.
    if ((rule !== undefined && name !== rule) || config.capacity === undefined) return
    config.capacity = capacity
    limits++
  })
  return { text: changed, limits }
}

/** An action as data. */
interface PlainAction {
  readonly type: string
  readonly config: Record<string, unknown>
}

/** Returns a valid policy as JSON, after `change` has changed the configs of its actions. */
export function changeActions(text: string, change: (action: PlainAction, rule: string) => void): string {
  const { document } = readDocument(text)
  const { strict, phases } = document
  const changed = PHASES.filter((phase) => phases[phase].length > 0).map((phase) => {
    const rules = phases[phase].map(plainRule)
    for (const { name, actions } of rules) for (const action of actions) change(action, name)
    return [phase, rules] as const
  })
  return JSON.stringify({ ...(strict ? { strict_expressions: true } : {}), ...Object.fromEntries(changed) })
}

interface PlainRule {
  readonly name: string
  readonly expressions: string[]
  readonly actions: PlainAction[]
}

type DocumentRule = ReturnType<typeof readDocument>['document']['phases'][(typeof PHASES)[number]][number]

function plainRule({ name, expressions, actions }: DocumentRule): PlainRule {
  return {
    name,
    expressions: expressions.map(({ source }) => source),
    actions: actions.map(({ type, config }) => ({
      type,
      config: config === undefined ? {} : (dataOf(config) as Record<string, unknown>)
    }))
  }
}
