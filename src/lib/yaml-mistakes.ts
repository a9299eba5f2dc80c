/** A mistake that the YAML reader has found: its code, and where it stands in the text. */
interface YamlMistake {
  readonly code: string
  /** Offsets: its beginning, and what follows its end. */
  readonly pos: readonly [number, number]
}

const GOES_ON = 'the value goes on after its closing quote or bracket; put all of it in quotes of the other kind'

const UNQUOTED = 'a value with "${" needs quotes inside brackets'

const INDENTED =
  'the next line is indented further, although this one has a value already; begin both in the same column'

const MESSAGES: Readonly<Record<string, string>> = {
  BAD_DQ_ESCAPE: 'this escape does not exist in a double-quoted string; write the backslash twice or use single quotes',
  BAD_INDENT: 'the indentation does not fit, or a bracket is not closed',
  BAD_SCALAR_START: 'a value cannot begin with this character; put it in quotes',
  BAD_ALIAS: 'this is no valid alias',
  BLOCK_AS_IMPLICIT_KEY: 'a second ": " in one line; put the value in quotes, or begin a new line',
  BLOCK_IN_FLOW: 'an indented block cannot stand inside brackets',
  DUPLICATE_KEY: 'this key stands twice in one map; remove one of them',
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

/** A mistake of YAML in our own words: what is wrong there, and what to write instead. */
export function yamlMistake(mistake: YamlMistake, text: string): string {
  if (isIndented(mistake, text)) return INDENTED
  if (text.startsWith('${', mistake.pos[0] - 1)) return UNQUOTED
  return goesOn(mistake, text) ? GOES_ON : (MESSAGES[mistake.code] ?? 'this is not valid YAML')
}

/** `- 'a' in b`: an expression that begins with a quoted text or a list, which YAML takes for the whole value. */
function goesOn({ code, pos }: YamlMistake, text: string): boolean {
  if (code !== 'UNEXPECTED_TOKEN') return false
  const before = text.slice(text.lastIndexOf('\n', pos[0] - 1) + 1, pos[0]).trimEnd()
  return /['"\])}]$/.test(before)
}

/** `listen: 127.0.0.1:80` and below it, further to the right, `api: …`: YAML takes both lines for one value. */
function isIndented({ code, pos }: YamlMistake, text: string): boolean {
  if (!code.endsWith('_IMPLICIT_KEY')) return false
  const start = text.lastIndexOf('\n', pos[0] - 1) + 1
  const [line = '', next = ''] = text.slice(start).split('\n', 2)
  const [, key] = /^( *)[^\s:#]+: +\S/.exec(line) ?? []
  const [, below] = /^( *)[^\s:#]+:(?: |\r?$)/.exec(next) ?? []
  return key !== undefined && below !== undefined && below.length > key.length
}
