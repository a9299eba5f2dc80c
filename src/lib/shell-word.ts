/** Text that needs no quotes anywhere in a shell command. */
const PLAIN = /^[\w./:][\w./:@%+,=-]*$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal obeys these when they are pasted
const OBEYED = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g

/**
 * Quotes a text as one word of a POSIX shell (XCU 2.2) for pasting into a terminal. Controls other than line feeds are written by `printf`,
 * so that the terminal does not interpret them. Omits U+0000, which is impossible in a shell word.
 */
export function shellWord(text: string): string {
  if (PLAIN.test(text)) return text
  const quoted = text.replaceAll("'", `'\\''`)
  return `'${quoted.replace(OBEYED, (found) => `'"$(printf '${octal(found)}')"'`)}'`
}

function octal(text: string): string {
  const bytes = [...Buffer.from(text.replaceAll('\0', ''))]
  return bytes.map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
}
