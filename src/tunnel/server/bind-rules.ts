import type { Labels } from './authority.js'

const BIND = 'bind:'

/**
 * What a credential may bind: rules `bind:<domain>`, `bind:<host:port>`, `bind:<key>=<value>` or `*`. No rules, or one
 * `*`, allow everything. A rule with `=` is about labels and either side may be `*`; a domain that begins with `*.`
 * means every name below it.
 */
export class BindRules {
  readonly #everything: boolean
  readonly #labels: (readonly [key: string, value: string])[] = []
  readonly #names = new Set<string>()
  readonly #suffixes: string[] = []

  constructor(rules: readonly string[]) {
    this.#everything = rules.length === 0 || rules.includes('*')
    for (const rule of rules) {
      if (!rule.startsWith(BIND)) continue
      const target = rule.slice(BIND.length)
      const equals = target.indexOf('=')
      if (equals !== -1) this.#labels.push([target.slice(0, equals), target.slice(equals + 1)])
      else if (target.startsWith('*.')) this.#suffixes.push(target.slice(1).toLowerCase())
      else this.#names.add(target.toLowerCase())
    }
  }

  /** Every label must be covered by a rule. */
  allowsLabels(labels: Labels): boolean {
    if (this.#everything) return true
    return Object.entries(labels).every(([key, value]) =>
      this.#labels.some(([ruleKey, ruleValue]) => covers(ruleKey, key) && covers(ruleValue, value))
    )
  }

  /** `host` in lower case. */
  allowsDomain(host: string): boolean {
    return this.#everything || this.#names.has(host) || this.#suffixes.some((suffix) => host.endsWith(suffix))
  }

  /** `address` is host:port; undefined, any free port, needs the right to everything. */
  allowsAddress(address: string | undefined): boolean {
    return this.#everything || (address !== undefined && this.#names.has(address.toLowerCase()))
  }
}

function covers(rule: string, text: string): boolean {
  return rule === '*' || rule === text
}
