import { ConfigurationRefused } from '../app/errors.js'
import { CodedError, codeOf } from '../lib/errors.js'
import { formatAuthority } from '../lib/host.js'
import { printable } from '../lib/printable.js'
import { fileReason, portPermission } from '../lib/system-errors.js'
import type { Options } from '../options/options.js'
import type { ListenAddress } from '../options/values.js'
import type { Problem, UnitProblems } from '../policy/problems.js'
import { withoutText } from '../policy/warnings/codes.js'
import { failureText } from './failure.js'

/** Output format of a report. */
export interface ReportStyle {
  /** Source lines and carets. */
  readonly excerpts: boolean
  readonly colors: boolean
  /** Characters of a line on the terminal. */
  readonly width: number
}

/** A document with its problems. `lines` returns a line of its text, from 1. */
export interface Finding {
  readonly file: string
  readonly problems: readonly Problem[]
  line(number: number): string
}

const COLORS = { error: '\u001b[31m', warning: '\u001b[33m', faint: '\u001b[2m', bold: '\u001b[1m' } as const
const RESET = '\u001b[0m'
const GUTTER = 6

/** Returns the output format for a stream: excerpts and colors on a terminal, unless `NO_COLOR` is set (https://no-color.org). */
export function styleFor(
  stream: { readonly isTTY?: boolean; readonly columns?: number },
  environment: Readonly<Record<string, string | undefined>>
): ReportStyle {
  const terminal = stream.isTTY === true
  const colors = terminal && (environment.NO_COLOR ?? '') === '' && environment.TERM !== 'dumb'
  return { excerpts: terminal, colors, width: Math.max(40, stream.columns ?? 100) }
}

/** `file:line:column: error CODE: message (path)` for each problem, with the place in the text where `style` asks for it. */
export function formatFinding(finding: Finding, style: ReportStyle): string[] {
  return finding.problems.flatMap((problem) => [
    formatProblem(finding.file, problem, style),
    ...(style.excerpts ? excerpt(finding.line(problem.line), problem, style) : [])
  ])
}

/** One problem as one line. */
function formatProblem(file: string, problem: Problem, style: ReportStyle): string {
  const { severity, code, message, path, line, column } = problem
  const place = paint(`${printable(file)}:${line}:${column}:`, 'bold', style)
  const where = path === '' ? '' : paint(` (${printable(path)})`, 'faint', style)
  return `${place} ${paint(`${severity} ${code}:`, severity, style)} ${printable(message)}${where}`
}

/** One object with exactly the documented keys. */
export function jsonFinding({ file, problems }: Finding): string {
  const of = (wanted: Problem['severity']) =>
    problems
      .filter(({ severity }) => severity === wanted)
      .map(({ line, column, path, code, message }) => ({ line, column, path, code, message }))
  const errors = of('error')
  return JSON.stringify({ file, ok: errors.length === 0, errors, warnings: of('warning') })
}

/** `3 files: 1 valid, 2 with errors (4 errors, 1 warning)`. */
export function summary(findings: readonly Finding[]): string {
  const problems = findings.flatMap((finding) => finding.problems)
  const errors = problems.filter(({ severity }) => severity === 'error').length
  const bad = findings.filter((finding) => finding.problems.some(({ severity }) => severity === 'error')).length
  const good = findings.length - bad
  const verdicts = [good > 0 ? `${good} valid` : '', bad > 0 ? `${bad} with errors` : ''].filter(Boolean).join(', ')
  const counts = `${count(errors, 'error')}, ${count(problems.length - errors, 'warning')}`
  return `${count(findings.length, 'file')}: ${verdicts} (${counts})`
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

/** Formats the source line with carets under the marked text; a long line is cut around it. */
function excerpt(line: string, { line: number, column, length, severity }: Problem, style: ReportStyle): string[] {
  if (line.trim() === '') return []
  const room = style.width - GUTTER - 3
  const start = column - 1 < room - 10 ? 0 : Math.max(0, column - 1 - Math.floor(room / 2))
  const shown = printable(line.slice(start, start + room))
  const carets = '^'.repeat(Math.max(1, Math.min(length, start + room - column + 1)))
  const blank = ' '.repeat(GUTTER)
  return [
    paint(`${String(number).padStart(GUTTER)} | ${shown}`, 'faint', style),
    `${paint(`${blank} | `, 'faint', style)}${' '.repeat(column - 1 - start)}${paint(carets, severity, style)}`
  ]
}

/** Returns the text in a color, or as it is where the output has no colors. */
export function paint(text: string, color: keyof typeof COLORS, style: ReportStyle): string {
  return style.colors ? `${COLORS[color]}${text}${RESET}` : text
}

/** The problems of policy documents in the form of `sluice check`. */
export function formatProblems(units: readonly UnitProblems[], style: ReportStyle): string[] {
  return units.flatMap(({ source, text, problems }) => {
    const lines = text.split('\n')
    return formatFinding({ file: source, problems, line: (number) => lines[number - 1] ?? '' }, style)
  })
}

/** Writes them where people look for errors. */
export function printProblems(units: readonly UnitProblems[], to: NodeJS.WriteStream): void {
  for (const line of formatProblems(units, styleFor(to, process.env))) to.write(`${line}\n`)
}

/** Removes the text of documents from warnings for outputs other than terminals, which may be stored. */
export function forKeeping(units: readonly UnitProblems[], to: { readonly isTTY?: boolean }): readonly UnitProblems[] {
  if (to.isTTY === true) return units
  const kept = (one: Problem) => (one.severity === 'warning' ? { ...one, message: withoutText(one) } : one)
  return units.map((unit) => ({ ...unit, problems: unit.problems.map(kept) }))
}

/** Data of a system error. */
interface SystemError {
  readonly code: string
  readonly syscall?: string
  readonly address?: string
  readonly port?: number
  readonly hostname?: string
  readonly path?: string
}

/** The lines that explain to a user why the process does not start, or undefined when the program is at fault. */
export function explainStart(error: unknown, options: Options): string[] | undefined {
  if (error instanceof ConfigurationRefused)
    return formatProblems(forKeeping(error.problems, process.stderr), styleFor(process.stderr, process.env))
  if (error instanceof CodedError) return [failureText(error)]
  if (!isSystemError(error)) return undefined
  if (error.syscall === 'listen' || error.syscall === 'bind' || error.syscall === 'getaddrinfo')
    return [explainBind(error, options)]
  if (error.path !== undefined)
    return [`${error.path}: ${fileReason(error.code)}; the option data (--data, SLUICE_DATA) names the folder`]
  return undefined
}

function isSystemError(error: unknown): error is SystemError {
  return error instanceof Error && codeOf(error) !== undefined && 'errno' in error
}

function explainBind(error: SystemError, options: Options): string {
  const { listen, listeners, api } = options
  const fits = (at: ListenAddress) =>
    error.syscall === 'getaddrinfo' ? error.hostname === at.host : error.port === at.port
  const further = listeners.map((one) => one.listen).find(fits)
  if (further !== undefined && !fits(listen)) {
    return `listeners: ${reason(error.code, further)}; choose another address with SLUICE_LISTENERS or listeners in the options file`
  }
  const { address, port } = error
  if (
    options.site_file !== undefined &&
    address !== undefined &&
    port !== undefined &&
    ![listen, api.listen].some(fits)
  ) {
    return `listeners: ${reason(error.code, { host: address, port })}; choose another address in ${options.site_file}`
  }
  const isApi =
    error.syscall === 'getaddrinfo'
      ? error.hostname !== listen.host
      : error.port === api.listen.port && error.port !== listen.port
  const [option, flag, variable, at] = isApi
    ? ['api.listen', '--api', 'SLUICE_API_LISTEN', api.listen]
    : ['listen', '--listen', 'SLUICE_LISTEN', listen]
  return `${option}: ${reason(error.code, at as ListenAddress)}; choose another address with ${flag}, ${variable} or ${option} in the options file`
}

function reason(code: string, at: ListenAddress): string {
  const address = formatAuthority(at.host, at.port)
  switch (code) {
    case 'EADDRINUSE':
      return `${address} is in use by another process (${code})`
    case 'EACCES':
      return [`this user may not listen on ${address} (${code})`, portPermission(at.port)].filter(Boolean).join('; ')
    case 'EADDRNOTAVAIL':
      return `${at.host} is no address of this machine (${code})`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${at.host} has no address (${code})`
    default:
      return `cannot listen on ${address} (${code})`
  }
}
