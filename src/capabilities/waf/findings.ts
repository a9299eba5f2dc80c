import { type Cidr, CidrSet } from '../../lib/ip.js'
import type { Slices } from '../../lib/slices.js'
import { type ShownFirewallResult, shownValue } from '../../telemetry/firewall.js'
import { REDACTED } from '../../telemetry/redaction.js'
import type { Decided } from '../recorder/comparer.js'
import type { PastExchange } from '../recorder/comparison.js'
import { toPlace } from './places.js'

/** Estimate whether a rule matched harmless requests. */
type Likelihood = 'likely' | 'possible' | 'unlikely'

/** One rule on one path and variable, with the exchanges in which it matched. */
export interface Finding {
  /** Identity: owner, action, path, rule and variable. */
  readonly key: string
  readonly owner: string
  readonly action: string
  /** Path in which `*` stands for ids. */
  readonly path: string
  readonly rule: number
  readonly message: string
  readonly variable: string
  readonly exchanges: number
  readonly clients: number
  /** Exchanges that the firewall denied, or would have denied if it were enforced. */
  readonly denied: number
  /** Exchanges that the upstream answered with a status below 400, and with 4xx. */
  readonly accepted: number
  readonly rejected: number
  readonly signedIn: number
  /** Exchanges of clients that look like scanners. */
  readonly scanned: number
  readonly trusted: number
  readonly values: readonly string[]
  readonly likelihood: Likelihood
  readonly reasons: readonly string[]
}

/** Results of the firewall for one exchange. */
export interface Examined {
  readonly past: PastExchange
  readonly isDenied: boolean
  /** True if the results are of a decision now; false if they were recorded, because the exchange cannot be decided again. */
  readonly isJudged: boolean
  readonly matches: readonly FoundMatch[]
}

interface FoundMatch {
  readonly key: string
  readonly result: ShownFirewallResult
  readonly path: string
  readonly rule: number
  readonly message: string
  readonly variable: string
  readonly value: string
  readonly score: number
}

/** Numbers of rules and paths from which a client looks like a scanner. */
const SCANNER = { rules: 5, paths: 3 }
/** Maximum number of findings. */
const MAX_FINDINGS = 5_000

/** Maximum number of shown values of a finding. */
const MAX_VALUES = 3

/** Returns what the firewall found in an exchange: in the decision now, or in the recorded one if the exchange cannot be decided again. */
export function examine(past: PastExchange, { judgement, explanation }: Decided): Examined {
  const isJudged =
    judgement.reason === null && !lostSecrets(past) && reachesFirewall(past, judgement.decision, explanation.waf)
  const results: readonly ShownFirewallResult[] = isJudged ? explanation.waf : past.waf
  return {
    past,
    isJudged,
    isDenied: results.some(({ decision }) => decision === 'deny' || decision === 'would_deny'),
    matches: results.flatMap((result) => {
      const path = toPlace(result.path)
      return result.rules.map(({ id, message, variable, value, score }) => {
        const key = JSON.stringify([result.owner, result.action, path, id, variable.toLowerCase()])
        return { key, result, path, rule: id, message, variable, value: shownValue(variable, value), score }
      })
    })
  }
}

/** Returns whether a rule matched a value that an archive has without its secrets. */
function lostSecrets({ isRedacted, waf }: PastExchange): boolean {
  return isRedacted && waf.some(({ rules }) => rules.some(({ value }) => value.includes(REDACTED)))
}

/**
 * Returns whether a decision now says what the firewall finds: another action, such as a login whose session cannot be repeated, may have ended
 * the exchange before.
 */
function reachesFirewall(past: PastExchange, decision: string, found: readonly unknown[]): boolean {
  return past.waf.length === 0 || found.length > 0 || decision === 'forwarded' || decision === past.decided
}

interface Gathering {
  readonly first: FoundMatch
  readonly clients: Set<string>
  readonly values: Set<string>
  exchanges: number
  denied: number
  accepted: number
  rejected: number
  signedIn: number
  scanned: number
  trusted: number
}

/** Findings of exchanges. */
export interface Findings {
  readonly all: readonly Finding[]
  /** Clients that look like scanners. */
  readonly scanners: ReadonlySet<string>
  /** Number of findings beyond the maximum. */
  readonly omitted: number
}

/** Gathers findings, likely false positives and frequent ones first. `trusted`: networks of which all requests are harmless. */
export async function gatherFindings(
  examined: readonly Examined[],
  trusted: readonly Cidr[],
  slices: Slices
): Promise<Findings> {
  const networks = new CidrSet(trusted)
  const scanners = findScanners(examined, networks)
  const found = new Map<string, Gathering>()
  const omitted = new Set<string>()
  for (const one of examined) {
    for (const match of new Map(one.matches.map((each) => [each.key, each])).values()) {
      const known = found.get(match.key)
      if (known === undefined && found.size >= MAX_FINDINGS) {
        omitted.add(match.key)
        continue
      }
      const gathering = known ?? beginGathering(match)
      found.set(match.key, gathering)
      count(gathering, one, match, { scanners, networks })
    }
    if (slices.due) await slices.rest()
  }
  const all = [...found].map(([key, gathering]) => toFinding(key, gathering))
  return { all: all.sort(compareFindings), scanners, omitted: omitted.size }
}

function findScanners(examined: readonly Examined[], trusted: CidrSet): ReadonlySet<string> {
  const clients = new Map<string, { readonly rules: Set<number>; readonly paths: Set<string> }>()
  for (const { past, matches } of examined) {
    const { clientAddress } = past.request
    const seen = clients.get(clientAddress) ?? { rules: new Set(), paths: new Set() }
    clients.set(clientAddress, seen)
    for (const { rule, path } of matches) {
      seen.rules.add(rule)
      seen.paths.add(path)
    }
  }
  const scanning = [...clients].filter(
    ([client, { rules, paths }]) =>
      rules.size >= SCANNER.rules && paths.size >= SCANNER.paths && trusted.match(client) === undefined
  )
  return new Set(scanning.map(([client]) => client))
}

function beginGathering(first: FoundMatch): Gathering {
  const counts = { exchanges: 0, denied: 0, accepted: 0, rejected: 0, signedIn: 0, scanned: 0, trusted: 0 }
  return { first, clients: new Set(), values: new Set(), ...counts }
}

function count(
  to: Gathering,
  { past, isDenied }: Examined,
  { value }: FoundMatch,
  { scanners, networks }: { readonly scanners: ReadonlySet<string>; readonly networks: CidrSet }
): void {
  const { clientAddress } = past.request
  const { upstreamStatus: status } = past
  to.exchanges++
  to.clients.add(clientAddress)
  if (to.values.size < MAX_VALUES && value !== '') to.values.add(value)
  if (isDenied) to.denied++
  if (status !== undefined && status < 400) to.accepted++
  if (status !== undefined && status >= 400 && status < 500) to.rejected++
  if (past.isSignedIn) to.signedIn++
  if (scanners.has(clientAddress)) to.scanned++
  if (networks.match(clientAddress) !== undefined) to.trusted++
}

function toFinding(key: string, { first, clients, values, ...counts }: Gathering): Finding {
  const { result, path, rule, message, variable } = first
  const { owner, action } = result
  const facts = { ...counts, clients: clients.size }
  return { key, owner, action, path, rule, message, variable, ...facts, values: [...values], ...estimate(facts) }
}

/** Points from which a false positive is likely. */
const LIKELY = 3

/** Points from which a false positive is possible. */
const POSSIBLE = 1

/** Estimates from counts how likely the matches are false positives. Each reason adds or takes points; see docs/waf.md. */
export function estimate(
  counts: Pick<Finding, 'exchanges' | 'clients' | 'accepted' | 'rejected' | 'signedIn' | 'scanned' | 'trusted'>
): Pick<Finding, 'likelihood' | 'reasons'> {
  const { exchanges, clients, accepted, rejected, signedIn, scanned, trusted } = counts
  const reasons: string[] = []
  let points = 0
  const add = (change: number, reason: string) => {
    points += change
    reasons.push(reason)
  }
  if (trusted > 0) add(3, `${trusted} of ${exchanges} from trusted networks`)
  if (clients >= 3) add(2, `${clients} different clients`)
  else if (clients === 2) add(1, '2 different clients')
  const answered = accepted + rejected
  if (answered > 0) {
    const share = accepted / answered
    const reason = `the upstream accepted ${accepted} of ${answered}`
    add(share >= 0.9 ? 2 : share >= 0.5 ? 1 : -2, reason)
  }
  if (signedIn / exchanges >= 0.5) add(2, `${signedIn} of ${exchanges} signed in`)
  if (scanned / exchanges >= 0.5) add(-4, `${scanned} of ${exchanges} from clients that look like scanners`)
  return { likelihood: points >= LIKELY ? 'likely' : points >= POSSIBLE ? 'possible' : 'unlikely', reasons }
}

const ORDER: Readonly<Record<Likelihood, number>> = { likely: 0, possible: 1, unlikely: 2 }

function compareFindings(a: Finding, b: Finding): number {
  return ORDER[a.likelihood] - ORDER[b.likelihood] || b.exchanges - a.exchanges || (a.key < b.key ? -1 : 1)
}
