import type { UnitProblems } from '../snapshot/compile.js'

/** The problems of policy documents as lines, in the form of `sluice check`: `file:line:column: error CODE: message`. */
export function formatProblems(units: readonly UnitProblems[]): string[] {
  return units.flatMap(({ source, problems }) =>
    problems.map(
      ({ severity, code, message, path, line, column }) =>
        `${source}:${line}:${column}: ${severity} ${code}: ${message}${path === '' ? '' : ` (${path})`}`
    )
  )
}

/** Writes them where people look for errors. */
export function printProblems(units: readonly UnitProblems[], to: NodeJS.WritableStream): void {
  for (const line of formatProblems(units)) to.write(`${line}\n`)
}
