import { features } from '../features/registry.js'
import { FAILURES, flowErrors } from '../flow/error-codes.js'
import type { Sent } from '../flow/exchange.js'
import type { Flow, Refusal } from '../flow/flow.js'
import { messageOf } from '../lib/errors.js'
import type { UpstreamTries } from './upstream-tries.js'

/** Facts of a finished exchange or connection that `reasonOf` reads. */
export interface ReasonFacts {
  /** 0 if no response was sent. */
  readonly status: number
  readonly code: string | undefined
  readonly sent?: Pick<Sent, 'failure'>
  readonly flow: Flow | undefined
  readonly site: string | undefined
  readonly tries: UpstreamTries | undefined
}

/** Meaning of each code of the data plane, as a part of a sentence. */
const MEANINGS: ReadonlyMap<string, string> = new Map(
  [flowErrors, ...features.flatMap(({ errors = [] }) => errors)].flatMap((table) =>
    Object.entries(table).map(([code, row]) => [code, messageOf(row).split(/[.;] /, 1).join()] as const)
  )
)

/** First status of a refusal or failure. */
const REFUSED = 400
/** Code of a request without a site or route. */
const NO_ROUTE = flowErrors.NO_ROUTE.code

/** Returns true if the exchange was refused or failed. */
export function isRefusedOrFailed({ status, code, sent }: Pick<ReasonFacts, 'status' | 'code' | 'sent'>): boolean {
  return status >= REFUSED || status === 0 || code !== undefined || sent?.failure !== undefined
}

/**
 * Returns the reason of a refusal or failure in one sentence, such as `429 by limit "per key": 60 of 60 in 60s; free again in 12s`; undefined
 * for an exchange that passed. It is made of the configuration's own names and of numbers: no header, key or other value of the request.
 */
export function reasonOf(facts: ReasonFacts): string | undefined {
  if (!isRefusedOrFailed(facts)) return undefined
  const { status, flow } = facts
  const start = status === 0 ? 'closed' : String(status)
  return `${start}${cause(facts, failureCode(facts))}${wait(flow?.refusal)}`
}

function failureCode({ code, sent }: ReasonFacts): string | undefined {
  return code ?? (sent?.failure === undefined ? undefined : FAILURES[sent.failure].code)
}

function cause({ flow, site, tries }: ReasonFacts, code: string | undefined): string {
  const { refusal, decidedBy } = flow ?? {}
  const meaning = code === undefined ? '' : `: ${MEANINGS.get(code) ?? code}`
  if (refusal?.limit !== undefined) {
    const { name, used, capacity, seconds } = refusal.limit
    return ` by limit "${name}"${capacity > 0 ? `: ${used} of ${capacity} in ${seconds}s` : meaning}`
  }
  if (refusal?.firewall !== undefined && decidedBy !== undefined) {
    const { score, threshold, rules } = refusal.firewall
    return ` by ${decider(decidedBy)}: score ${score} of ${threshold} by ${rulesText(rules)}`
  }
  // The name of the action `deny` makes the meaning of its code redundant.
  if (decidedBy !== undefined) return ` by ${decider(decidedBy)}${decidedBy.action === 'deny' ? '' : meaning}`
  if (code === NO_ROUTE)
    return site === undefined ? ': no site has this host' : `: the site ${site} has no route for this path`
  const last = tries?.last
  if (last === undefined) return `${code === undefined ? '' : ` ${code}`}${meaning}`
  const place = last.name === last.server ? last.server : `"${last.name}" (${last.server})`
  const count = tries?.count ?? 1
  return ` from backend ${place}${count > 1 ? ` after ${count} tries` : ''}${meaning}`
}

/** Maximum number of rules that a reason names. */
const MAX_RULES = 5

function rulesText(rules: readonly number[]): string {
  const shown = rules.slice(0, MAX_RULES).join(', ')
  const rest = rules.length - MAX_RULES
  return `${rules.length === 1 ? 'rule' : 'rules'} ${shown}${rest > 0 ? ` and ${rest} more` : ''}`
}

function decider({ action, rule, phase }: NonNullable<Flow['decidedBy']>): string {
  // A rule without a name is identified by its number.
  return rule.startsWith('#') ? `${action} (${phase}, rule ${Number(rule.slice(1)) + 1})` : `${action}, rule "${rule}"`
}

function wait(refusal: Refusal | undefined): string {
  return refusal?.retryAfter === undefined ? '' : `; free again in ${refusal.retryAfter}s`
}
