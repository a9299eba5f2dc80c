import { CodedError, defineErrors } from '../../lib/errors.js'
import { positionText, type SourcePosition } from './model.js'

/** Codes of files that `sluice import` cannot read. */
export const importErrors = defineErrors({
  IMPORT_SYNTAX: {
    text: 'A file is not written in the language that the command names.',
    help: 'Correct the file at the position that the message names; the server that it is for refuses it, too.'
  },
  IMPORT_INCLUDE: {
    text: 'A file that is included cannot be read.',
    help: 'Run the command where the included files are, or remove the line that includes them.'
  },
  IMPORT_ADAPT: {
    text: 'The command caddy adapt did not turn the Caddyfile into JSON.',
    help: 'Correct what the message names, or leave --adapt out: then Sluice reads the Caddyfile by itself.'
  },
  IMPORT_PROOF: {
    text: 'The old server and the new file cannot be compared.',
    help: 'Correct what the message names; without --prove the site file is written all the same.'
  }
})

/** Returns the error `IMPORT_SYNTAX` for a problem at a position of a file. */
export function syntaxError(problem: string, at: SourcePosition): CodedError {
  return new CodedError(importErrors.IMPORT_SYNTAX, `${positionText(at)}: ${problem}`)
}
