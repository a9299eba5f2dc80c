import type { PolicyWarning } from '../../../control/calls.js'
import type { UnitProblems } from '../../../policy/problems.js'

/** Joins the warnings of the file with those of the write, such as unused names, without duplicates. */
export function together(one: readonly PolicyWarning[], other: readonly PolicyWarning[]): readonly PolicyWarning[] {
  const keyOf = ({ file, code, path, line, column }: PolicyWarning) => JSON.stringify([file, code, path, line, column])
  const known = new Set(one.map(keyOf))
  return [...one, ...other.filter((warning) => warning.file !== undefined && !known.has(keyOf(warning)))]
}

/** Returns the warnings of a site file in the form of responses. */
export function warningsOf(problems: readonly UnitProblems[]): PolicyWarning[] {
  return problems.flatMap(({ source, problems }) =>
    problems
      .filter(({ severity }) => severity === 'warning')
      .map(({ code, message, path, line, column, length }) => {
        return { file: source, code, message, path, line, column, length }
      })
  )
}

/** Returns one line for each error, with its place. */
export const reasons = (problems: readonly UnitProblems[]) =>
  problems.flatMap(({ source, problems }) =>
    problems
      .filter(({ severity }) => severity === 'error')
      .map(({ line, column, code, message }) => `${source}:${line}:${column} ${code} ${message}`)
  )
