import { CodedError, codeOf, messageOf } from '../lib/errors.js'
import { printableLines } from '../lib/printable.js'
import { fileReason, systemReason } from '../lib/system-errors.js'

/** Pattern of a message that already has advice: after a semicolon, with a flag, or as an imperative after a colon. */
const ADVISES = /;|--[a-z]|: (?:set|give|name|put|stop|use|correct)\b/

/**
 * Returns the message of an error that an operator can correct: the problem and, after a semicolon, the advice. It is safe
 * for terminals. Rethrows faults of the program.
 */
export function failureText(error: unknown): string {
  return printableLines(textOf(error))
}

function textOf(error: unknown): string {
  if (error instanceof CodedError) return codedText(error)
  const code = codeOf(error)
  if (code === undefined || !(error instanceof Error)) throw error
  const { path, syscall } = error as NodeJS.ErrnoException
  if (path !== undefined) return `${path}: ${fileReason(error)}`
  const reason = systemReason(code)
  // An error of Node itself, such as ERR_INVALID_ARG_TYPE, is a fault of the program.
  if (reason === undefined && (syscall === undefined || code.startsWith('ERR_'))) throw error
  return reason ?? `${error.message} (${code})`
}

function codedText(error: CodedError): string {
  const cause = codeOf(error.cause)
  const why = cause === undefined || error.message.includes(cause) ? '' : `: ${systemReason(cause) ?? cause}`
  const message = `${error.message}${why}`
  return error.help === undefined || ADVISES.test(message) ? message : `${message}; ${messageOf({ text: error.help })}`
}
