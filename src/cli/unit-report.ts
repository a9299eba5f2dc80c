import type { UnitProblems } from '../policy/problems.js'
import { formatFinding, type ReportStyle, styleFor } from './report.js'

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
