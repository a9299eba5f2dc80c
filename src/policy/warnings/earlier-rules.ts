import type { MaybeAbsent } from '../../expression/expression.js'
import type { RuleNode } from '../document.js'
import type { ActionFacts, RuleFacts } from './kind.js'

/** Rules of a document judged so far, to find those that have run whenever a later one runs. */
export class EarlierRules {
  /** Rules by one of their expressions; rules without expressions under the empty string. */
  readonly #rules = new Map<string, RuleFacts[]>()

  add(facts: RuleFacts): void {
    const [first = ''] = sourcesOf(facts.rule)
    const alike = this.#rules.get(first)
    if (alike === undefined) this.#rules.set(first, [facts])
    else alike.push(facts)
  }

  /** Returns rules whose conditions are all conditions of this rule: they have run whenever it does. */
  runBefore({ rule }: RuleFacts): readonly RuleFacts[] {
    const asked = new Set(sourcesOf(rule))
    const some = ['', ...asked].flatMap((source) => this.#rules.get(source) ?? [])
    return some.filter((earlier) => sourcesOf(earlier.rule).every((source) => asked.has(source)))
  }
}

function sourcesOf({ expressions }: RuleNode): readonly string[] {
  return expressions.map(({ source }) => source.trim())
}

/** Keys of the values that an earlier rule has set when this one runs. */
export function leftBy(earlier: RuleFacts, facts: RuleFacts): readonly string[] {
  // Variables live as long as their phase; a response may come from a phase that ended early.
  if (earlier.phase !== facts.phase && earlier.phase !== 'on_tcp_connect') return []
  const left = earlier.actions.flatMap(leftByAction)
  return earlier.phase === facts.phase ? left : left.filter((key) => !key.startsWith('vars.'))
}

/** Keys of the values that are set after the action let the exchange continue. */
export function leftByAction({ action, config }: ActionFacts): readonly string[] {
  return action.leaves?.(config) ?? (action.results === undefined ? [] : [`actions.service.${action.results.name}`])
}

/** For a variable of the language, all direct members are set with it; deeper members are data. */
export function isLeft({ key }: MaybeAbsent, left: ReadonlySet<string>): boolean {
  if (left.has(key)) return true
  const names = key.split('.')
  return !/[[:]/.test(key) && names.some((_, i) => left.has(names.slice(0, i).join('.')))
}
