/**
 * Characters that a terminal obeys in place of showing them: the C0 and C1 controls (ECMA-48), line separators, and those that turn the
 * direction of the text around them (Unicode UAX 9). Tabs and line feeds are controls too.
 */
const OBEYED = '\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069'
const OBEYED_TEXT = new RegExp(`[${OBEYED}]`, 'g')

const ESCAPE = '\\u001b\\['
/** A colour or weight of this program (SGR), or a control other than tab and line feed. */
const COLOUR_OR_OBEYED = new RegExp(
  `${ESCAPE}(?:[0124]|2[24]|3[0-79]|9[0-7])m|[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]`,
  'g'
)

/** Replaces the last line of the terminal. */
const ERASES_LINE = new RegExp(`^\\r${ESCAPE}2?K`)

/** A text of a document, client or server as one line for a terminal: what a terminal would obey is U+FFFD, a tab is a blank. */
export function printable(text: string): string {
  return text.replace(/\t/g, ' ').replace(OBEYED_TEXT, '\ufffd')
}

/** The same for a text of several lines. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/**
 * What a command writes to a terminal: of escape sequences colours alone get through, and at its beginning the one that erases a line.
 * All other controls are written as `\u001b`, which also keeps JSON what it is.
 */
export function terminalText(text: string): string {
  const erasing = ERASES_LINE.exec(text)?.[0] ?? ''
  const shown = text
    .slice(erasing.length)
    .replace(COLOUR_OR_OBEYED, (found) => (found.length > 1 ? found : escapeOf(found)))
  return `${erasing}${shown}`
}

/** JSON text without the controls that `JSON.stringify` leaves as they are. The data is the same. */
export function printableJson(text: string): string {
  return /[\u007f-\u009f\u2028\u2029]/.test(text) ? text.replace(/[\u007f-\u009f\u2028\u2029]/g, escapeOf) : text
}

function escapeOf(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
