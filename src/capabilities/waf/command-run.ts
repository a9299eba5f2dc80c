import { type AccessFlags, accessFor, askApi, printApiError } from '../../cli/api-client.js'
import { ExitCode } from '../../cli/process.js'
import { readTextFile } from '../../cli/text-file.js'
import { isObject } from '../../lib/json.js'
import { printable } from '../../lib/printable.js'
import { type CriteriaFlags, criteriaOf } from '../recorder/command-log.js'
import { archivedView } from '../recorder/har.js'
import type { WafReport } from './answers.js'

export interface ReportFlags extends AccessFlags, CriteriaFlags {
  readonly from?: string
  readonly trust: readonly string[]
  readonly possible?: boolean
  readonly policy: readonly string[]
  readonly proof: boolean
  readonly limit: string
  readonly json?: boolean
}

/** Deadline of the report (ms): a hundred thousand exchanges take their time beside traffic. */
const DEADLINE = 600_000

/** Prints the report of a running process. Resolves with the exit code. */
export async function reportFirewall(flags: ReportFlags): Promise<number> {
  const access = accessFor('waf report', flags)
  if (typeof access === 'number') return access
  const limit = Number(flags.limit)
  if (!Number.isInteger(limit) || limit < 1) return refuse('--limit: a number from 1 to 100000')
  const archive = flags.from === undefined ? undefined : readExchanges(await readTextFile(flags.from))
  if (flags.from !== undefined && archive === undefined)
    return refuse(`--from: ${flags.from} has neither exchanges of recorder.file nor an HTTP Archive`)
  const policies: { route: string; text: string }[] = []
  for (const one of flags.policy) {
    const equals = one.indexOf('=')
    const [route, file] = equals === -1 ? ['default', one] : [one.slice(0, equals), one.slice(equals + 1)]
    policies.push({ route, text: await readTextFile(file) })
  }
  const body = {
    exchanges: criteriaOf(flags),
    limit,
    policies,
    trusted: flags.trust,
    propose: flags.possible === true ? 'possible' : 'likely',
    prove: flags.proof,
    ...(archive === undefined ? {} : { archive })
  }
  const answer = await askApi(access, '/waf/report', { method: 'POST', body, deadline: DEADLINE })
  if (answer.status !== 200) return printApiError(answer.body)
  const report = answer.body as unknown as WafReport
  if (flags.json === true) process.stdout.write(`${JSON.stringify(report)}\n`)
  else for (const line of reportLines(report)) process.stdout.write(`${printable(line)}\n`)
  return ExitCode.ok
}

/** Returns the entries of an archive, or of a file of the recorder, one in each line; undefined for other text. */
function readExchanges(text: string): string | undefined {
  const whole = parsed(text)
  const { log } = isObject(whole) ? whole : {}
  if (isObject(log) && Array.isArray(log.entries)) return log.entries.map((entry) => JSON.stringify(entry)).join('\n')
  const entries: string[] = []
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue
    const entry = archivedView(parsed(line))
    if (entry === undefined) return undefined
    entries.push(JSON.stringify(entry))
  }
  return entries.length === 0 ? undefined : entries.join('\n')
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Formats a report: findings, proposed exclusions, proof. */
function reportLines(report: WafReport): string[] {
  const { rules, exchanges, clients, from, to, matched, denied, findings, omitted } = report
  if (rules === null) return ['the process has no rules: unpack a release of the Core Rule Set and set waf.rules']
  if (exchanges === 0) return ['no recorded request matches; see sluice log']
  const lines = [
    `${rules.name === '' ? 'rules' : rules.name}, number of rules: ${rules.size}`,
    `${counted(exchanges, 'exchange')} of ${counted(clients, 'client')}, ${from} to ${to}`,
    `rules match ${matched} of them; the firewall denies ${denied}`
  ]
  if (report.not_judged > 0)
    lines.push(
      `${report.not_judged} cannot be decided again, such as those without a recorded body (recorder.bodies); their recorded matches count`
    )
  for (const finding of findings) lines.push(...findingLines(finding))
  if (omitted > 0) lines.push(`${omitted} more ${omitted === 1 ? 'finding' : 'findings'}`)
  return [...lines, ...proposalLines(report)]
}

function findingLines(finding: WafReport['findings'][number]): string[] {
  const { likelihood, rule, route, path, variable, exchanges, clients, denied, message, reasons, values } = finding
  const where = variable === '' ? '' : ` ${variable}`
  return [
    `${likelihood}: ${rule} ${message}`,
    `  ${route} ${path}${where}: ${counted(exchanges, 'exchange')} of ${counted(clients, 'client')}, ${denied} denied`,
    ...(reasons.length === 0 ? [] : [`  ${reasons.join('; ')}`]),
    ...values.map((value) => `  ${JSON.stringify(value)}`)
  ]
}

function proposalLines({ proposals, withheld, proof, matched }: WafReport): string[] {
  const lines: string[] = []
  for (const { route, action, source, yaml } of proposals)
    lines.push(
      '',
      `add to the config of ${action}, policy of ${route}${source === null ? '' : ` (${source})`}:`,
      ...yaml.split('\n')
    )
  if (proposals.length === 0 && matched > 0)
    lines.push('', 'no exclusions: no match is a likely false positive (--possible and --trust propose more)')
  for (const { route, yaml, releases } of withheld)
    lines.push(
      '',
      `withheld for ${route}: ${counted(releases, 'exchange')} that ${releases === 1 ? 'looks' : 'look'} like an attack would pass`,
      ...yaml.split('\n')
    )
  if (proof === null) return lines
  const { denied, hostile, not_judged: unknown } = proof
  lines.push(
    '',
    `denied: ${denied.before} without the exclusions, ${denied.after} with them`,
    `of these look like attacks: ${hostile.before} without, ${hostile.after} with them`
  )
  if (unknown > 0) lines.push(`not decided again: ${unknown}`)
  return lines
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

function refuse(message: string): number {
  process.stderr.write(`error: ${message}\n(sluice waf report --help lists the flags)\n`)
  return ExitCode.usage
}
