import { type FirewallMatch, type FirewallResult, firewallResults } from '../flow/firewall.js'
import type { Flow } from '../flow/flow.js'
import { shorten } from '../lib/printable.js'
import { isSensitive, REDACTED, redactText } from './redaction.js'

/** Maximum number of rules that are shown of one action. */
const MAX_RULES = 50

/** Maximum length of the name of a variable (characters). */
const MAX_NAME = 128

/** Maximum length of another text (characters). */
const MAX_VALUE = 256

/** Result of one action of the web application firewall, as it may be shown. */
export interface ShownFirewallResult extends Omit<FirewallResult, 'decision' | 'matches'> {
  readonly decision: string
  readonly rules: readonly FirewallMatch[]
  /** Number of further rules. */
  readonly omitted: number
}

/** Returns the results of the firewall, with short values and without those of sensitive names. `reveal`: with those values. */
export function shownFirewall(flow: Flow | undefined, reveal = false): ShownFirewallResult[] {
  return firewallResults(flow).map(({ action, owner, path, decision, score, threshold, digest, matches }) => ({
    action,
    owner,
    path: shorten(path, MAX_VALUE),
    decision,
    score,
    threshold,
    digest,
    rules: matches.slice(0, MAX_RULES).map(({ message, variable, value, ...rest }) => ({
      ...rest,
      message: shorten(message, MAX_VALUE),
      variable: shorten(variable, MAX_NAME),
      value: shorten(reveal ? value : shownValue(variable, value), MAX_VALUE)
    })),
    omitted: Math.max(0, matches.length - MAX_RULES)
  }))
}

/** Returns the value of a variable of a request as it may be shown. */
export function shownValue(variable: string, value: string): string {
  return isSensitive(variable) ? REDACTED : redactText(value)
}

/** Results of the firewall in a line of the access log: without values. */
export function loggedFirewall(flow: Flow | undefined): object[] | undefined {
  const results = firewallResults(flow)
  if (results.length === 0) return undefined
  return results.map(({ action, decision, score, threshold, matches }) => ({
    action,
    decision,
    score,
    threshold,
    rules: matches
      .slice(0, MAX_RULES)
      .map(({ id, variable, score: added }) => ({ id, variable: shorten(variable, MAX_NAME), score: added }))
  }))
}
