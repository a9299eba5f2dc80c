import type { ExplainedExpression, Explanation } from '../explain/answers.js'

/** Something of a policy that its tests have not shown. */
interface Uncovered {
  readonly line: number
  readonly column: number
  readonly what: string
}

/** Coverage of a policy by its tests. */
export interface Coverage {
  readonly rules: Counted
  readonly actions: Counted
  /** Each condition, and each part of one that is true or false, in both ways. */
  readonly branches: Counted
  /** In the order of the document. */
  readonly uncovered: readonly Uncovered[]
}

interface Counted {
  readonly covered: number
  readonly total: number
}

interface RuleSeen {
  readonly name: string
  readonly line: number
  readonly column: number
  matched: boolean
  readonly branches: Map<string, BranchSeen>
}

interface BranchSeen {
  readonly line: number
  readonly column: number
  readonly text: string
  readonly ways: Set<boolean>
}

/** A rule or an action with its position in the policy. */
interface Standing {
  readonly line: number
  readonly column: number
  readonly name: string
}

/** All rules and actions of the document, whether they ran or not. */
export interface PolicyParts {
  readonly rules: readonly (Standing & { readonly conditions: readonly Standing[] })[]
  readonly actions: readonly Standing[]
}

/** Collects coverage from explanations of one policy. */
export class CoverageRecorder {
  readonly #rules = new Map<string, RuleSeen>()
  readonly #actions = new Set<string>()

  add({ steps }: Explanation): void {
    for (const { phases } of steps) {
      for (const { rules } of phases) {
        for (const { name, place, outcome, expressions, actions } of rules) {
          const key = keyOf(place)
          const seen = this.#rules.get(key) ?? {
            name,
            ...place,
            matched: false,
            branches: new Map<string, BranchSeen>()
          }
          this.#rules.set(key, seen)
          if (outcome === 'matched') seen.matched = true
          for (const expression of expressions) noteBranches(expression, seen.branches)
          for (const action of actions) this.#actions.add(keyOf(action.place))
        }
      }
    }
  }

  /** Returns the coverage. `parts`: contents of the document. */
  result(parts: PolicyParts): Coverage {
    const uncovered: Uncovered[] = []
    const counted = { rules: 0, actions: 0, branches: 0, allBranches: 0 }
    for (const { line, column, name, conditions } of parts.rules) {
      const seen = this.#rules.get(keyOf({ line, column }))
      if (seen?.matched === true) counted.rules++
      else uncovered.push({ line, column, what: `rule "${name}" never matches` })
      for (const condition of conditions) {
        const branches = [...(seen?.branches.values() ?? [])].filter((one) => isOf(one, condition))
        const known =
          branches.length > 0 ? branches : [{ ...condition, text: condition.name, ways: new Set<boolean>() }]
        for (const { line, column, text, ways } of known) {
          counted.allBranches += 2
          counted.branches += ways.size
          for (const way of [true, false]) {
            if (!ways.has(way)) uncovered.push({ line, column, what: `${text} is never ${way}` })
          }
        }
      }
    }
    for (const { line, column, name } of parts.actions) {
      if (this.#actions.has(keyOf({ line, column }))) counted.actions++
      else uncovered.push({ line, column, what: `action ${name} never runs` })
    }
    return {
      rules: { covered: counted.rules, total: parts.rules.length },
      actions: { covered: counted.actions, total: parts.actions.length },
      branches: { covered: counted.branches, total: counted.allBranches },
      uncovered: uncovered.sort((a, b) => a.line - b.line || a.column - b.column)
    }
  }
}

function keyOf({ line, column }: { readonly line: number; readonly column: number }): string {
  return `${line}:${column}`
}

function isOf(branch: BranchSeen, condition: Standing): boolean {
  return branch.line === condition.line && branch.column === condition.column
}

/** A condition as a whole, and each part of it that has been true or false. */
function noteBranches({ source, place, value, parts }: ExplainedExpression, branches: Map<string, BranchSeen>): void {
  if (place === null) return
  const note = (from: number, length: number, way: unknown) => {
    if (typeof way !== 'boolean') return
    const key = `${keyOf(place)}:${from}:${length}`
    const seen = branches.get(key) ?? { ...place, text: source.slice(from, from + length), ways: new Set<boolean>() }
    seen.ways.add(way)
    branches.set(key, seen)
  }
  note(0, source.length, value)
  for (const part of parts) if (part.length < source.length) note(part.offset, part.length, part.value)
}
