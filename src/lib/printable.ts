/**
 * Characters that control a terminal: the C0 and C1 controls (ECMA-48), including tab and line feed, line separators, and those that change
 * the direction of text (Unicode UAX 9).
 */
const OBEYED = '\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069'
/** Matches one such character. */
const OBEYED_TEXT = new RegExp(`[${OBEYED}]`, 'g')

const ESCAPE = '\\u001b\\['
/** A colour or weight used by this program (SGR), or a control other than tab and line feed. */
const COLOUR_OR_OBEYED = new RegExp(
  `${ESCAPE}(?:[0124]|2[24]|3[0-79]|9[0-7])m|[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]`,
  'g'
)

/** Sequence that replaces the terminal's last line. */
const ERASES_LINE = new RegExp(`^\\r${ESCAPE}2?K`)

/** Converts external text to one line for a terminal: control characters become U+FFFD, a tab becomes a space. */
export function printable(text: string): string {
  return text.replace(/\t/g, ' ').replace(OBEYED_TEXT, '\ufffd')
}

/** Converts external text of several lines for a terminal. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/**
 * Filters text for a terminal: keeps only colour sequences, and at its start the one that erases a line. Other controls are written as
 * `\u001b`, which also preserves JSON.
 */
export function terminalText(text: string): string {
  const erasing = ERASES_LINE.exec(text)?.[0] ?? ''
  const shown = text
    .slice(erasing.length)
    .replace(COLOUR_OR_OBEYED, (found) => (found.length > 1 ? found : escapeOf(found)))
  return `${erasing}${shown}`
}

/** Escapes the controls that `JSON.stringify` leaves unescaped. The data does not change. */
export function printableJson(text: string): string {
  return /[\u007f-\u009f\u2028\u2029]/.test(text) ? text.replace(/[\u007f-\u009f\u2028\u2029]/g, escapeOf) : text
}

function escapeOf(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;'
}

/** Escapes a text for the content and the attributes of HTML and XML. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] as string)
}

/** Returns a text of at most `length` UTF-16 units, with an ellipsis behind what is cut. */
export function shorten(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text
}
