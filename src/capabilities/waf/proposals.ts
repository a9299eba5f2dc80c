import { evaluatesScore } from '../../flow/firewall.js'
import { appendTo } from '../../lib/lists.js'
import { changeActions } from '../policy-tests/mutants.js'
import type { Finding } from './findings.js'
import { toCondition, toTarget } from './places.js'

/** An exclusion of the actions `owasp-crs-request` and `owasp-crs-response`. */
export interface Exclusion {
  /** Left out: for all requests. */
  readonly when?: string
  readonly rules: readonly number[]
  /** Left out: the rules are not evaluated. */
  readonly targets?: readonly string[]
}

/** Exclusions for the actions of one type in one policy. */
export interface Proposal {
  readonly owner: string
  readonly action: string
  readonly exclusions: readonly Exclusion[]
  /** Findings that the exclusions are for. */
  readonly findings: readonly Finding[]
}

/** Maximum number of exclusions of one proposal. */
const MAX_EXCLUSIONS = 100

/** Maximum number of rules and of targets of one exclusion. */
const MAX_ITEMS = 100

/** Maximum length of a target (characters). */
const MAX_TARGET = 256

/** Variables that browsers send alike on all paths. */
const OF_ALL_PATHS = /^REQUEST_(?:HEADERS|COOKIES)(?:_NAMES)?:/

/** Proposes exclusions for findings: one for each path and set of rules, with the variables that they match. */
export function propose(findings: readonly Finding[]): Proposal[] {
  const actions = new Map<string, Finding[]>()
  for (const finding of findings) {
    // An archive may name them.
    if (evaluatesScore(finding.rule)) continue
    appendTo(actions, JSON.stringify([finding.owner, finding.action]), finding)
  }
  return [...actions.values()].map((all) => {
    const { owner, action } = all[0] as Finding
    const places = groupBy(all, ({ path, variable }) => (OF_ALL_PATHS.test(variable) ? '' : toCondition(path)))
    const exclusions = [...places].flatMap(([when, here]) => exclusionsFor(when === '' ? {} : { when }, here))
    return { owner, action, exclusions: exclusions.slice(0, MAX_EXCLUSIONS), findings: all }
  })
}

function exclusionsFor(condition: Pick<Exclusion, 'when'>, findings: readonly Finding[]): Exclusion[] {
  const targets = groupBy(findings, ({ variable }) => fittingTarget(variable) ?? '')
  const whole = [...(targets.get('') ?? [])]
  targets.delete('')
  const byRules = groupBy([...targets], ([, of]) => JSON.stringify(listRules(of)))
  const partly = [...byRules.values()].map((group) => ({
    ...condition,
    rules: listRules((group[0] as (typeof group)[number])[1]),
    targets: group
      .map(([target]) => target)
      .sort()
      .slice(0, MAX_ITEMS)
  }))
  return whole.length === 0 ? partly : [...partly, { ...condition, rules: listRules(whole) }]
}

function fittingTarget(variable: string): string | undefined {
  const target = toTarget(variable)
  return target === undefined || target.length > MAX_TARGET ? undefined : target
}

function listRules(findings: readonly Finding[]): number[] {
  return [...new Set(findings.map(({ rule }) => rule))].sort((a, b) => a - b).slice(0, MAX_ITEMS)
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) appendTo(groups, keyOf(item), item)
  return groups
}

/** Returns exclusions as YAML for the config of the action. */
export function exclusionsYaml(exclusions: readonly Exclusion[]): string {
  const lines = exclusions.flatMap(({ when, rules, targets }) => {
    const members = [
      ...(when === undefined ? [] : [`when: ${JSON.stringify(when)}`]),
      `rules: [${rules.join(', ')}]`,
      ...(targets === undefined ? [] : [`targets: [${targets.map((target) => JSON.stringify(target)).join(', ')}]`])
    ]
    return members.map((member, i) => `${i === 0 ? '  - ' : '    '}${member}`)
  })
  return ['exclusions:', ...lines].join('\n')
}

/** Returns a valid policy as JSON, with the exclusions in all of its actions of the type. */
export function withExclusions(text: string, { action, exclusions }: Pick<Proposal, 'action' | 'exclusions'>): string {
  return changeActions(text, ({ type, config }) => {
    if (type !== action) return
    const before = Array.isArray(config.exclusions) ? config.exclusions : []
    config.exclusions = [...before, ...exclusions]
  })
}
