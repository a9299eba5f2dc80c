import { paint, type ReportStyle } from '../../cli/report.js'
import { printable } from '../../lib/printable.js'
import { explanationText } from '../explain/explanation-text.js'
import type { Coverage } from './coverage.js'
import type { Mutant } from './mutants.js'
import type { CaseResult, Failure } from './run-tests.js'

/** Results of one test file. */
export interface SuiteReport {
  readonly file: string
  readonly policy: string
  /** Errors of the file or its policy; nothing runs if there are any. */
  readonly problems: readonly string[]
  readonly results: readonly CaseResult[]
  readonly milliseconds: number
  readonly coverage?: Coverage
  /** Left out if a case fails. */
  readonly mutation?: { readonly killed: number; readonly survived: readonly Mutant[] }
}

const PLAIN: ReportStyle = { excerpts: false, colors: false, width: 100 }

/** Formats the results of a file for display: failures, with the explanation of the request. */
export function suiteText(
  { file, policy, problems, results, coverage, mutation }: SuiteReport,
  style: ReportStyle
): string[] {
  if (problems.length > 0) return [...problems]
  const failed = results.filter(({ failures }) => failures.length > 0)
  const lines = [
    `${paint(failed.length === 0 ? 'ok' : 'failed', failed.length === 0 ? 'bold' : 'error', style)} ${printable(file)}: ${results.length - failed.length} of ${results.length} cases`
  ]
  for (const one of failed) lines.push(...failureText(file, policy, one, style))
  const asked = new Set(results.flatMap(({ unanswered }) => unanswered))
  for (const url of asked) lines.push(printable(`  no stub for ${url}: the policy saw it as unreachable`))
  if (coverage !== undefined) lines.push(...coverageText(policy, coverage, style))
  if (mutation !== undefined) lines.push(...mutationText(policy, mutation, style))
  return lines
}

function failureText(file: string, policy: string, { name, line, failures }: CaseResult, style: ReportStyle): string[] {
  const [first] = failures
  if (first === undefined) return []
  return [
    paint(printable(`  ${file}:${line} ${name}`), 'error', style),
    paint(
      `    step ${first.step}${first.time > 1 ? `, the request for the ${first.time}th time` : ''}:`,
      'faint',
      style
    ),
    ...failures.map((failure) => printable(`    ${differenceText(failure)}`)),
    ...explanationText(first.explanation, policy, style).map((text) => `      ${text}`)
  ]
}

function differenceText({ what, expected, found }: Failure): string {
  return `${what}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`
}

function coverageText(policy: string, { rules, actions, branches, uncovered }: Coverage, style: ReportStyle): string[] {
  const share = ({ covered, total }: Coverage['rules']) => `${covered} of ${total}`
  return [
    `  covered: ${share(rules)} rules, ${share(actions)} actions, ${share(branches)} branches of conditions`,
    ...uncovered.map(({ line, column, what }) =>
      paint(printable(`    ${policy}:${line}:${column}: ${what}`), 'warning', style)
    )
  ]
}

function mutationText(
  policy: string,
  { killed, survived }: NonNullable<SuiteReport['mutation']>,
  style: ReportStyle
): string[] {
  const total = killed + survived.length
  return [
    `  mutations: ${killed} of ${total} detected${total === 0 ? '' : ` (${Math.floor((100 * killed) / total)} %)`}`,
    ...survived.map(({ line, column, what }) =>
      paint(printable(`    ${policy}:${line}:${column}: no case detects that ${what}`), 'warning', style)
    )
  ]
}

/** `42 cases, 41 passed, 1 failed in 0.3 s`. */
export function summaryText(reports: readonly SuiteReport[], style: ReportStyle): string {
  const all = reports.flatMap(({ results }) => results)
  const failed = all.filter(({ failures }) => failures.length > 0).length
  const broken = reports.filter(({ problems }) => problems.length > 0).length
  const seconds = reports.reduce((sum, { milliseconds }) => sum + milliseconds, 0) / 1000
  const unread = broken === 0 ? '' : `, ${broken} ${broken === 1 ? 'file' : 'files'} could not run`
  const text = `${all.length} cases, ${all.length - failed} passed, ${failed} failed${unread} in ${seconds.toFixed(1)} s`
  return paint(text, failed + broken === 0 ? 'bold' : 'error', style)
}

/** Writes the Test Anything Protocol, version 14 (https://testanything.org/tap-version-14-specification.html). */
export class TapWriter {
  readonly #write: (text: string) => void
  #count = 0

  constructor(write: (text: string) => void) {
    this.#write = write
    write('TAP version 14\n')
  }

  suite({ file, problems, results }: SuiteReport): void {
    if (problems.length > 0) this.#point(false, file, problems)
    for (const { name, line, failures } of results)
      this.#point(failures.length === 0, `${file}:${line} ${name}`, failures.map(differenceText))
  }

  end(): void {
    this.#write(`1..${this.#count}\n`)
  }

  #point(ok: boolean, name: string, why: readonly string[]): void {
    this.#write(`${ok ? 'ok' : 'not ok'} ${++this.#count} - ${printable(name).replace(/[#\\]/g, '\\$&')}\n`)
    for (const line of why) this.#write(`# ${printable(line)}\n`)
  }
}

/** The XML that servers of continuous integration read. */
export function junitReport(reports: readonly SuiteReport[]): string {
  const suites = reports.map((report) => {
    const { file, problems, results, milliseconds } = report
    const failed = results.filter(({ failures }) => failures.length > 0).length
    const cases = results.map((one) => {
      const [first] = one.failures
      const head = `    <testcase name="${xml(one.name)}" classname="${xml(file)}" line="${one.line}"`
      if (first === undefined) return `${head}/>`
      const why = [...one.failures.map(differenceText), ...explanationText(first.explanation, report.policy, PLAIN)]
      return `${head}>\n      <failure message="${xml(differenceText(first))}">${xml(why.join('\n'))}</failure>\n    </testcase>`
    })
    if (problems.length > 0)
      cases.push(
        `    <testcase name="${xml(file)}" classname="${xml(file)}"><error message="${xml(problems[0] as string)}"/></testcase>`
      )
    const counts = `tests="${results.length}" failures="${failed}" errors="${problems.length > 0 ? 1 : 0}"`
    return `  <testsuite name="${xml(file)}" ${counts} time="${(milliseconds / 1000).toFixed(3)}">\n${cases.join('\n')}\n  </testsuite>`
  })
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n${suites.join('\n')}\n</testsuites>\n`
}

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

function xml(text: string): string {
  return printable(text.replaceAll('\n', '\u241e'))
    .replaceAll('\u241e', '\n')
    .replace(/[&<>"]/g, (character) => ESCAPES[character] as string)
}
