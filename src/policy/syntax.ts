import type { YAMLError } from 'yaml'
import type { TreeProblem } from './tree.js'

/** What follows a few mistakes is mostly their consequence. */
export const MAX_SYNTAX_PROBLEMS = 5

/** A mistake of YAML in our own words. */
export function syntaxProblem(error: YAMLError, text: string): TreeProblem {
  const [start, end] = error.pos
  const message = goesOn(error, text) ? GOES_ON : (SYNTAX_MESSAGES[error.code] ?? 'this is not valid YAML')
  return { code: error.code === 'RESOURCE_EXHAUSTION' ? 'LIMIT' : 'SYNTAX', message, span: { start, end } }
}

const GOES_ON = 'the value goes on after its closing quote or bracket; put all of it in quotes of the other kind'

/** `- 'a' in b`: an expression that begins with a quoted text or a list, which YAML takes for the whole value. */
function goesOn(error: YAMLError, text: string): boolean {
  if (error.code !== 'UNEXPECTED_TOKEN') return false
  const before = text.slice(text.lastIndexOf('\n', error.pos[0] - 1) + 1, error.pos[0]).trimEnd()
  return /['"\])}]$/.test(before)
}

const SYNTAX_MESSAGES: Readonly<Partial<Record<YAMLError['code'], string>>> = {
  BAD_DQ_ESCAPE: 'this escape does not exist in a double-quoted string; write the backslash twice or use single quotes',
  BAD_INDENT: 'the indentation does not fit, or a bracket is not closed',
  BAD_SCALAR_START: 'a value cannot begin with this character; put it in quotes',
  BAD_ALIAS: 'this is no valid alias',
  BLOCK_AS_IMPLICIT_KEY: 'a second ": " in one line; put the value in quotes, or begin a new line',
  BLOCK_IN_FLOW: 'an indented block cannot stand inside brackets',
  KEY_OVER_1024_CHARS: 'a key is limited to 1024 characters',
  MISSING_CHAR: 'a character is missing here: a closing quote or bracket, a comma, a colon, or the "-" of a list item',
  MULTILINE_IMPLICIT_KEY: 'a key must stand in one line; is a ":" missing?',
  MULTIPLE_ANCHORS: 'a value can have one anchor',
  MULTIPLE_TAGS: 'a value can have one tag',
  NON_STRING_KEY: 'a key must be a single word or text',
  RESOURCE_EXHAUSTION: 'the document is nested too deeply',
  TAB_AS_INDENT: 'tabs cannot indent YAML; use spaces',
  UNEXPECTED_TOKEN:
    'this does not belong here; is a quote or a bracket missing, or a value with special characters not quoted?'
}

/** The parser recurses for each bracket, so brackets are counted before it runs. Brackets in texts count too: generous factor. */
export function nestingProblem(text: string, depth: number): TreeProblem | undefined {
  let open = 0
  const limit = depth * 16
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x5b || code === 0x7b) open++
    else if ((code === 0x5d || code === 0x7d) && open > 0) open--
    if (open > limit) {
      return { code: 'LIMIT', message: `more than ${limit} brackets are open here`, span: { start: at, end: at + 1 } }
    }
  }
  return undefined
}
