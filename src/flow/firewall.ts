import { type Flow, flowSlot } from './flow.js'

/** A value that a rule of the web application firewall matched. Its texts hold values of the message; `shownFirewall` redacts them. */
export interface FirewallMatch {
  readonly id: number
  readonly message: string
  readonly severity: string
  /** Anomaly score that the match added. */
  readonly score: number
  /** Examined variable: `ARGS:q`; '' for a rule without one. */
  readonly variable: string
  /** Value of the variable after the transformations. */
  readonly value: string
  readonly transformations: readonly string[]
}

/** Result of one action of the web application firewall in which a rule matched, or which failed. */
export interface FirewallResult {
  readonly action: string
  /** Id of the route or edge whose policy has the action. */
  readonly owner: string
  /** Path of the request as policies saw it then. */
  readonly path: string
  /** `would_deny`: the score reaches the threshold, and the action is not enforced. */
  readonly decision: 'allow' | 'deny' | 'would_deny' | 'error'
  readonly score: number
  readonly threshold: number
  /** SHA-256 of the rules, hexadecimal. */
  readonly digest: string
  /** The matches of each rule; computed when read. */
  readonly matches: readonly FirewallMatch[]
}

/** Returns whether a rule of the Core Rule Set, by its id, only evaluates the score: without it nothing is denied. */
export function evaluatesScore(id: number): boolean {
  return [949, 959, 980].includes(Math.floor(id / 1_000))
}

/** Name and version of the rules as they say, and SHA-256 of their files in hexadecimal. */
export interface RulesVersion {
  readonly signature: string
  readonly digest: string
}

/** Version of the rules that have examined the exchange, for its record. */
export const rulesVersionSlot = flowSlot<RulesVersion>('version of the rules of the firewall')

const results = flowSlot<readonly FirewallResult[]>('firewall')
const NO_RESULTS: readonly FirewallResult[] = []

/** Adds a result to those of the flow. */
export function addFirewallResult(flow: Flow, result: FirewallResult): void {
  flow.set(results, [...firewallResults(flow), result])
}

/** Returns the results of the firewall in the order of its actions; empty if no rule matched. */
export function firewallResults(flow: Flow | undefined): readonly FirewallResult[] {
  return flow?.get(results) ?? NO_RESULTS
}
