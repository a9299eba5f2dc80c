import { ControlError } from '../../../control/errors.js'
import { defineErrors } from '../../../lib/errors.js'
import type { UnitProblems } from '../../../policy/problems.js'

/** Codes of refused applications of a site file. */
export const applyErrors = defineErrors({
  SITE_FILE_REFUSED: {
    status: 400,
    text: 'The site file, or a file that it names, has errors. Nothing was changed.',
    help: 'Correct what the problems of the answer name, each with file, line and column.'
  },
  SITE_FILE_STARTED: {
    status: 409,
    text: 'The process was started with a site file, which alone says what it serves.',
    help: 'Change that file, which the details name; or start the process without it.'
  }
})

/** The refusal of a site file: each error is a problem with its place. */
export function siteRefused(problems: readonly UnitProblems[]): ControlError {
  const found = problems.flatMap(({ source, problems }) =>
    problems
      .filter(({ severity }) => severity === 'error')
      .map(({ code, message, path, line, column, length }) => {
        const place = { file: source, path, line: String(line), column: String(column), length: String(length) }
        return { field: '', code, message, details: place }
      })
  )
  const [first] = found
  if (first === undefined) throw new RangeError('a site file was refused without an error')
  const { file, line, column } = first.details
  const message = `${file}:${line}:${column}: ${first.message}`
  return new ControlError(applyErrors.SITE_FILE_REFUSED, message, {
    details: { ...first.details, code: first.code },
    problems: found
  })
}
