import { spellingOf } from '../../flow/headers.js'
import type { DocumentScope } from '../scope.js'
import { child } from '../tree.js'
import { policyWarnings } from './codes.js'
import { EarlierRules } from './earlier-rules.js'
import type { ActionFacts, RuleFacts, WarningKind } from './kind.js'

/** Variables that upstreams trust because only the proxy can know them: results of actions, the client's certificate. */
const VOUCHED = /^(?:actions\.|conn\.tls\.client\.)/

/**
 * Warns of request headers that carry an action's result, such as the user's identity, and that a client could send too: `add-headers`
 * appends, and most upstreams read the first field. Another action must have removed the field before, in a rule that runs whenever this
 * one does.
 */
export const headerForgeable: WarningKind = {
  warning: policyWarnings.HEADER_FORGEABLE,
  judge(document) {
    const judge = new HeaderJudge(document)
    return (facts) => judge.judge(facts)
  }
}

class HeaderJudge {
  readonly #document: DocumentScope
  readonly #earlier = new EarlierRules()
  /** Names of `vars` with a trusted value. */
  readonly #vouched = new Set<string>()

  constructor(document: DocumentScope) {
    this.#document = document
  }

  /** Rules arrive in execution order. */
  judge(facts: RuleFacts): void {
    if (facts.phase !== 'on_http_request') return
    const removed = new Set<string>()
    let always: ReadonlySet<string> | undefined
    for (const one of facts.actions) {
      this.#follow(one)
      for (const [name, value] of Object.entries(one.action.edits?.(one.config).add ?? {})) {
        if (name.toLowerCase() === 'host' || removed.has(spellingOf(name)) || !this.#isVouched(value)) continue
        always ??= new Set(this.#earlier.runBefore(facts).flatMap(({ actions }) => actions.flatMap(removedBy)))
        if (!always.has(spellingOf(name))) this.#warn(one, name)
      }
      for (const name of removedBy(one)) removed.add(name)
    }
    this.#earlier.add(facts)
  }

  #follow({ action, config }: ActionFacts): void {
    for (const [name, value] of action.assigns?.(config) ?? []) {
      if (this.#isVouched(value)) this.#vouched.add(`vars.${name}`)
    }
  }

  /** Returns whether a text in the value, at any depth, contains a trusted variable. */
  #isVouched(value: unknown): boolean {
    if (typeof value === 'object' && value !== null) return Object.values(value).some((part) => this.#isVouched(part))
    if (typeof value !== 'string' || !value.includes('${')) return false
    const compiled = this.#document.services.expressions.template(value, 'on_http_request')
    return compiled.ok && [...compiled.value.variables].some((name) => VOUCHED.test(name) || this.#vouched.has(name))
  }

  #warn({ node }: ActionFacts, name: string): void {
    const headers = node.config === undefined ? undefined : child(node.config, 'headers')
    const entry = headers?.kind === 'map' ? headers.entries.find(({ key }) => key === name) : undefined
    const message = `a client can send "${name}" itself, and an upstream may believe the first of two; remove it before, by an action remove-headers with headers: [${name}] in this rule or in one that always runs before it`
    this.#document.report.warning(
      [...node.path, 'config', 'headers', name],
      policyWarnings.HEADER_FORGEABLE,
      message,
      entry?.keySpan ?? node.typeNode.span
    )
  }
}

function removedBy({ action, config }: ActionFacts): readonly string[] {
  return (action.edits?.(config).remove ?? []).map(spellingOf)
}
