import { addFirewallResult, evaluatesScore, type FirewallResult, rulesVersionSlot } from '../../flow/firewall.js'
import { refuse, type Verdict } from '../../flow/verdict.js'
import { messageOf } from '../../lib/errors.js'
import { shorten } from '../../lib/printable.js'
import { formatSize, parseSize } from '../../lib/units.js'
import { type ActionRun, defineAction, ERROR_RESULTS, type Scope } from '../../policy/action.js'
import { policyErrors } from '../../policy/problems.js'
import { decisionCounters } from '../../policy/services.js'
import { defineFeature } from '../contract.js'
import { toNumber } from './engine/operators.js'
import type { RulePlan, RuleSet } from './engine/rule-set.js'
import { type MatchedRule, Transaction } from './engine/transaction.js'
import { wafErrors, wafProblems } from './errors.js'
import { compileExcludedIds, compileExclusions, Exclusions } from './exclusions.js'
import { MAX_BODY, wafConfig } from './fields.js'
import { type Inspected, inspectRequest, inspectResponse } from './inspection.js'
import { wafRules } from './rules.js'

/**
 * Work that a message may take (steps): without its body, for each examined byte of it, and at most. A step takes about half a nanosecond, so
 * that the maximum is near the time that a long text may take.
 */
const WORK = { head: 30_000_000, perByte: 1_500, most: 120_000_000 }

/** Examined bytes of a body. @default of `body_limit` */
const BODY_LIMIT = 4_096

const DECISIONS = ['allow', 'deny', 'would_deny', 'error'] as const

type WafConfig = Parameters<Parameters<typeof defineAction<typeof wafConfig>>[0]['compile']>[0]

/** Differences between requests and responses. */
interface Side {
  readonly name: 'owasp_crs_request' | 'owasp_crs_response'
  readonly type: 'owasp-crs-request' | 'owasp-crs-response'
  readonly inspect: typeof inspectRequest
  /** Variables of TX with the score and the score at which a message is denied. */
  readonly score: string
  readonly threshold: string
  readonly denied: (typeof wafErrors)[keyof typeof wafErrors]
}

const REQUEST: Side = {
  name: 'owasp_crs_request',
  type: 'owasp-crs-request',
  inspect: inspectRequest,
  score: 'blocking_inbound_anomaly_score',
  threshold: 'inbound_anomaly_score_threshold',
  denied: wafErrors.WAF_REQUEST_DENIED
}

const RESPONSE: Side = {
  name: 'owasp_crs_response',
  type: 'owasp-crs-response',
  inspect: inspectResponse,
  score: 'blocking_outbound_anomaly_score',
  threshold: 'outbound_anomaly_score_threshold',
  denied: wafErrors.WAF_RESPONSE_DENIED
}

const FAILURES = {
  'body-invalid': wafErrors.WAF_BODY_INVALID,
  'work-exceeded': wafErrors.WAF_WORK_EXCEEDED
} as const

/** Parts of an action that depend on the rule set. */
interface Prepared {
  readonly rules: RuleSet
  readonly plan: RulePlan
  readonly fixed: ReadonlyMap<string, string>
  readonly exclusions: Exclusions
}

function compile(config: WafConfig, scope: Scope, side: Side): ActionRun {
  const { process_body = false, paranoia, threshold } = config
  const blocks = denies(config)
  const written = [
    compileExcludedIds(config.exclude_rule_ids ?? [], scope),
    ...compileExclusions(config.exclusions ?? [], scope)
  ]
  const limit = examinedBytes(config.body_limit, scope)
  const bodyLimit = process_body ? limit : 0
  const { bodies, clock, meter } = scope.services
  const counters = decisionCounters(meter, scope.owner, side.name, DECISIONS)
  const source = scope.service(wafRules)
  if (source === 'unchecked') return () => undefined
  if (source === undefined) {
    const help = 'unpack a release of the OWASP Core Rule Set 4 and name its folder in the option waf.rules'
    scope.unavailable([], `the process has no rules for this action; ${help}`, wafProblems.WAF_RULES_MISSING)
    return () => undefined
  }
  const budget = Math.min(WORK.most, WORK.head + WORK.perByte * bodyLimit)
  // Plans are made when the policy is, not at its first request.
  source.current.plan(paranoia)
  let prepared: Prepared | undefined
  const prepare = (rules: RuleSet): Prepared => {
    const plan = rules.plan(paranoia)
    const fixed = threshold === undefined ? plan.fixed : new Map([...plan.fixed, [side.threshold, String(threshold)]])
    return { rules, plan, fixed, exclusions: new Exclusions(written, rules) }
  }
  return (flow) => {
    const { current } = source
    if (prepared?.rules !== current) prepared = prepare(current)
    const { plan, fixed, exclusions } = prepared
    const { digest } = current
    const transaction = new Transaction({ budget, fixed, removed: exclusions.removed })
    flow.set(rulesVersionSlot, current)
    exclusions.apply(transaction, flow)
    const finish = (outcome: Inspected): Verdict | undefined => {
      if (typeof outcome === 'object') return outcome
      const failure = outcome === undefined ? undefined : FAILURES[outcome]
      const denied = transaction.denied !== undefined
      const error = denied ? side.denied : failure
      const decision = denied ? (blocks ? 'deny' : 'would_deny') : failure === undefined ? 'allow' : 'error'
      const published = results(transaction, side, denied, error)
      flow.publish(side.name, published)
      counters[decision].inc()
      const { reported } = transaction
      if (failure !== undefined || reported.some(isFinding)) {
        const { anomaly_score: score, anomaly_score_threshold: threshold } = published
        const path = flow.request?.target.path ?? ''
        const found = { action: side.type, owner: scope.owner, path, decision, score, threshold, digest } as const
        addFirewallResult(flow, withMatches(found, reported))
        if (decision === 'deny') {
          const rules = reported.filter(isFinding).map(({ id }) => id)
          flow.refusal = { firewall: { score, threshold, rules: [...new Set(rules)] } }
        }
      }
      return blocks && error !== undefined ? refuse(error) : undefined
    }
    const outcome = side.inspect({ flow, plan, transaction, bodies, clock, bodyLimit })
    return outcome instanceof Promise ? outcome.then(finish) : finish(outcome)
  }
}

/** Returns how many bytes of a body are examined. */
function examinedBytes(limit: number | string = BODY_LIMIT, scope: Scope): number {
  const bytes = typeof limit === 'string' ? parseSize(limit) : limit
  if (bytes !== undefined && bytes >= 1 && bytes <= MAX_BODY) return bytes
  const message = `\`body_limit\` must be from 1 byte to ${formatSize(MAX_BODY)}, not ${limit}`
  scope.problem(['body_limit'], policyErrors.CONFIG_INVALID, message)
  return BODY_LIMIT
}

function results(
  transaction: Transaction,
  side: Side,
  denied: boolean,
  error: { readonly code: string; readonly text: string } | undefined
) {
  const { reported } = transaction
  return {
    decision: denied ? 'deny' : 'allow',
    anomaly_score: toNumber(transaction.getTx(side.score) ?? '0'),
    anomaly_score_threshold: toNumber(transaction.getTx(side.threshold) ?? '0'),
    get matched_rules() {
      return reported.filter(isFinding).map(({ id, message, severity, data, variable }) => ({
        id,
        message: shownText(message),
        severity,
        data: shownText(data),
        variable: shownText(variable)
      }))
    },
    'error.code': error?.code ?? '',
    'error.message': error === undefined ? '' : messageOf(error)
  }
}

/** Returns whether a match is of a rule that scores, and not of one that sums up scores. */
function isFinding({ id, severity }: MatchedRule): boolean {
  return severity !== '' && !evaluatesScore(id)
}

/** Returns a result whose matches are listed when they are read. It keeps nothing else of the transaction, which is large. */
function withMatches(found: Omit<FirewallResult, 'matches'>, reported: readonly MatchedRule[]): FirewallResult {
  return {
    ...found,
    get matches() {
      return reported.filter(isFinding).flatMap(toMatches)
    }
  }
}

/** Returns a match for each value that the rule matched. Score that no value added belongs to the last one. */
function toMatches({ id, message, severity, score, variable, sources }: MatchedRule): FirewallResult['matches'] {
  const about = { id, message: shownText(message), severity }
  if (sources.length === 0) return [{ ...about, score, variable: shownText(variable), value: '', transformations: [] }]
  let rest = score
  for (const source of sources) rest -= source.score
  return sources.map(({ target, transformations, score: own }, at) => ({
    ...about,
    score: at === sources.length - 1 ? own + rest : own,
    variable: shownText(target.name),
    value: shownText(target.value),
    transformations
  }))
}

/** Maximum length of a text in the results in characters. */
const SHOWN = 1_024

/** Returns Latin-1 text of a message as people read it: UTF-8 where it is valid. */
function shownText(latin1: string): string {
  // A character of UTF-8 has up to four bytes.
  const text = Buffer.from(latin1.slice(0, 4 * (SHOWN + 1)), 'latin1').toString('utf8')
  return shorten(text, SHOWN)
}

const RESULTS = {
  decision: ['string', 'deny or allow.'],
  anomaly_score: ['int', 'Sum of the scores of the rules that matched.'],
  anomaly_score_threshold: ['int', 'Score at which a message is denied.'],
  matched_rules: ['list<dyn>', 'The rules that matched: id, message, severity, data, and the variable that matched.'],
  ...ERROR_RESULTS
} as const

const denies = ({ enforce = true, on_error = 'halt' }: { enforce?: boolean; on_error?: string }) =>
  enforce && on_error === 'halt'

/**
 * Examines requests with the OWASP Core Rule Set and denies those whose anomaly score reaches the threshold: 403 `WAF_REQUEST_DENIED`.
 *
 * The rules see the request as it was received. Failures are 400 `WAF_BODY_INVALID` and 503 `WAF_WORK_EXCEEDED`.
 */
const owaspCrsRequest = defineAction({
  type: REQUEST.type,
  summary: 'Denies requests that look like attacks, by the OWASP Core Rule Set.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: owasp-crs-request
        config:
          process_body: true
`
  },
  phases: ['on_http_request'],
  config: wafConfig,
  configOptional: true,
  terminates: 'sometimes',
  denies,
  results: { name: REQUEST.name, fields: RESULTS },
  compile: (config, scope) => compile(config, scope, REQUEST)
})

/**
 * Examines responses with the OWASP Core Rule Set and replaces those that leak data, such as source code and errors of databases: 403
 * `WAF_RESPONSE_DENIED`.
 */
const owaspCrsResponse = defineAction({
  type: RESPONSE.type,
  summary: 'Denies responses that leak data, by the OWASP Core Rule Set.',
  example: {
    policy: `on_http_response:
  - actions:
      - type: owasp-crs-response
        config:
          process_body: true
`
  },
  phases: ['on_http_response'],
  config: wafConfig,
  configOptional: true,
  terminates: 'sometimes',
  denies,
  readsResponse: 'stream',
  results: { name: RESPONSE.name, fields: RESULTS },
  compile: (config, scope) => compile(config, scope, RESPONSE)
})

/** Feature: a web application firewall with the OWASP Core Rule Set. */
export const waf = defineFeature({
  name: 'waf',
  summary: 'Denies requests and responses by the rules of the OWASP Core Rule Set.',
  actions: [owaspCrsRequest, owaspCrsResponse],
  errors: [wafErrors],
  problems: [wafProblems],
  notInAgent: 'an agent has no folder with rules; put the action into a policy of the server'
})
