import { paint, type ReportStyle } from '../../cli/report.js'
import { printable } from '../../lib/printable.js'
import type {
  ExplainedAction,
  ExplainedExpression,
  ExplainedPart,
  ExplainedPhase,
  ExplainedRule,
  Explanation,
  WafResult
} from './answers.js'

/** The decision in a few words, the same for all exchanges that are decided alike: `forwarded`, `429 rate-limit`, `closed`. */
export function decisionText({ outcome, status, code, by }: Explanation['decision']): string {
  if (outcome === 'closed') return by === null ? 'closed' : `closed ${by.action}`
  if (by !== null) return `${status} ${by.action}`
  return outcome === 'forwarded' ? 'forwarded' : `${status} ${code ?? 'answered'}`
}

/** Formats an explanation as lines: the request, each rule with the values of its expressions, and the deciding rule. */
export function explanationText(explanation: Explanation, source: string, style: ReportStyle): string[] {
  const { request, at, listener, edge, other_ports: ports, route, steps, upstream, decision, omitted } = explanation
  const place = [
    `listener ${listener}`,
    edge === null ? '' : `site ${edge.name}`,
    route === null ? 'no route' : `route ${route.name}`,
    ports.length === 0 ? '' : `the host is served only on port ${ports.join(', ')}`
  ]
  const lines = [
    `${paint(printable(`${request.method} ${request.url}`), 'bold', style)} from ${request.client_ip} at ${at}`,
    paint(printable(place.filter(Boolean).join(', ')), 'faint', style)
  ]
  for (const { module, on, outcome, reason, phases } of steps) {
    if (outcome === 'not_judged') lines.push(`${module}: not judged, ${reason}`)
    else if (phases.length === 0 && module !== 'traffic_policy') lines.push(`${module}, on the ${on}: ${outcome}`)
    for (const phase of phases) lines.push(...phaseText(phase, source, style))
  }
  for (const result of explanation.waf) lines.push(...wafLines(result))
  if (omitted > 0) lines.push(`${omitted} more ${omitted === 1 ? 'record' : 'records'} left out`)
  if (upstream !== null) lines.push(printable(`forwarded to ${upstream.name}: ${upstream.method} ${upstream.uri}`))
  lines.push(decisionLine(decision, style))
  return lines
}

/** Formats what the firewall found: its decision, and each rule that matched with variable, value and transformations. */
export function wafLines({ action, decision, score, threshold, rules, omitted }: WafResult): string[] {
  const lines = [`firewall, ${action}: ${decision}, score ${score} of ${threshold}`]
  for (const { id, message, score: added, variable, value, transformations } of rules) {
    const where = variable === '' ? '' : ` in ${variable}: ${JSON.stringify(value)}`
    const forms = transformations.length === 0 ? '' : ` after ${transformations.join(', ')}`
    lines.push(printable(`  ${id} +${added} ${message}${where}${forms}`))
  }
  if (omitted > 0) lines.push(`  and ${omitted} more`)
  return lines
}

function decisionLine({ outcome, status, code, reason, by }: Explanation['decision'], style: ReportStyle): string {
  if (reason !== null) return paint(printable(`${outcome}: ${reason}`), 'warning', style)
  const answer = status === 0 ? 'the connection is closed' : `${status}${code === null ? '' : ` ${code}`}`
  const who = by === null ? '' : `, by ${by.action} of rule "${by.rule}" in ${by.phase}`
  return paint(printable(`${outcome}: ${answer}${who}`), outcome === 'forwarded' ? 'bold' : 'warning', style)
}

function phaseText({ phase, rules }: ExplainedPhase, source: string, style: ReportStyle): string[] {
  return [`${phase}:`, ...rules.flatMap((rule) => ruleText(rule, source, style))]
}

const RULE_WORDS = {
  matched: 'matched',
  not_matched: 'did not match',
  absent: 'did not match, a value is absent',
  failed: 'failed',
  not_reached: 'not reached'
} as const

function ruleText(rule: ExplainedRule, source: string, style: ReportStyle): string[] {
  const { name, place, outcome, reason, expressions, actions } = rule
  const why = reason === undefined ? '' : `: ${reason}`
  const color = outcome === 'failed' ? 'error' : outcome === 'matched' ? 'bold' : 'faint'
  const head = `  ${source}:${place.line}:${place.column} ${name}: ${RULE_WORDS[outcome]}${why}`
  return [
    paint(printable(head), color, style),
    ...expressions.flatMap((one) => expressionText(one, '      ', style)),
    ...actions.flatMap((action) => actionText(action, style))
  ]
}

function actionText(
  { type, outcome, reason, published, edits, expressions }: ExplainedAction,
  style: ReportStyle
): string[] {
  const why = reason === undefined ? '' : `: ${reason}`
  return [
    printable(`      ${type}: ${outcome}${why}`),
    ...expressions.flatMap((one) => expressionText(one, '          ', style)),
    ...Object.entries(published).map(([name, value]) => printable(`          ${name} = ${JSON.stringify(value)}`)),
    ...edits.map(({ of, before, after }) =>
      printable(`          ${of}: ${JSON.stringify(before)} → ${JSON.stringify(after)}`)
    )
  ]
}

/** Prints the source and, below it, each part with its value; the parts of a value are nested. */
function expressionText(expression: ExplainedExpression, indent: string, style: ReportStyle): string[] {
  const { source, parts } = expression
  const result = 'missing' in expression ? `no value: ${expression.missing}` : JSON.stringify(expression.value)
  const head = `${indent}${printable(source.trim())} ${paint('=', 'faint', style)} ${printable(result)}`
  // A part as long as the whole is already printed.
  const inner = parts.filter(({ length }) => length < source.length)
  if (source.includes('\n') || inner.length === 0)
    return [
      head,
      ...inner.map(
        (part) =>
          `${indent}  ${printable(source.slice(part.offset, part.offset + part.length))} = ${printable(shownValue(part))}`
      )
    ]
  const lead = source.length - source.trimStart().length
  return [
    head,
    ...inner.map((part) => `${indent}${carets(part, lead)} ${paint(printable(shownValue(part)), 'faint', style)}`)
  ]
}

function carets({ offset, length }: ExplainedPart, lead: number): string {
  return ' '.repeat(Math.max(0, offset - lead)) + '^'.repeat(Math.max(1, length))
}

function shownValue({ value, missing, times }: ExplainedPart): string {
  const shown = missing === undefined ? JSON.stringify(value) : `no value: ${missing}`
  return times === undefined ? shown : `${shown} (the last of ${times})`
}
