/** `$YOUR_IP`, `<your ip>`, `{your-ip}`, `YOUR_IP`, `...`: where an example leaves the value to its reader. */
const PLACEHOLDER = /\$[A-Z_]\w*|<[^<>]+>|\{[^{}]+\}|\bYOUR_\w+|\.\.\.|…/
/** `OFFICE_IP`, `MY-NETWORK/24`: a word in capitals, with the length of a network behind it where there is one. */
const CAPITALS = /^[A-Z][A-Z0-9]*(?:[ _-][A-Z0-9]+)*(?:\/\d{1,3})?$/
/** The same blanks where they are the whole of a text, and no word that might be the value itself. */
export const BLANK = /^(?:\$\{?[A-Z_]\w*\}?|<[^<>]+>|\{[^{}]+\}|YOUR_\w+|\.{3,}|…)$/

/**
 * True when `text`, which is not what the field takes, looks like the blank of an example. Such a document is checked
 * with a warning, so that the rest of it can be checked too, and does not run.
 */
export function isPlaceholder(text: string): boolean {
  return PLACEHOLDER.test(text)
}

/** Like `isPlaceholder`, for fields such as addresses and URLs, which no word in capitals can fill. */
export function isPlaceholderWord(text: string): boolean {
  return isPlaceholder(text) || CAPITALS.test(text.trim())
}

/** True when `text` can only be the blank of an example, although the field takes any text. */
export function isBlank(text: string): boolean {
  return BLANK.test(text.trim())
}
