import type { RuleNode } from '../document.js'
import type { RuleFacts } from './kind.js'

/** The rules of a document that have been looked at, for the question which of them have run when a later one runs. */
export class EarlierRules {
  /** By one of their expressions; those without any under the empty text. */
  readonly #rules = new Map<string, RuleFacts[]>()

  add(facts: RuleFacts): void {
    const [first = ''] = sourcesOf(facts.rule)
    const alike = this.#rules.get(first)
    if (alike === undefined) this.#rules.set(first, [facts])
    else alike.push(facts)
  }

  /** Those that ask for nothing that this rule does not ask for: they have run whenever it does. */
  runBefore({ rule }: RuleFacts): readonly RuleFacts[] {
    const asked = new Set(sourcesOf(rule))
    const some = ['', ...asked].flatMap((source) => this.#rules.get(source) ?? [])
    return some.filter((earlier) => sourcesOf(earlier.rule).every((source) => asked.has(source)))
  }
}

function sourcesOf({ expressions }: RuleNode): readonly string[] {
  return expressions.map(({ source }) => source.trim())
}
