/** `$YOUR_IP`, `<your ip>`, `{your-ip}`, `YOUR_IP`, `...`: where an example leaves the value to its reader. */
const PLACEHOLDER = /\$[A-Z_]\w*|<[^<>]+>|\{[^{}]+\}|\bYOUR_\w+|\.\.\./

/**
 * True when `text`, which is not what the field takes, looks like the blank of an example. Such a document is checked
 * with a warning, so that the rest of it can be checked too, and does not run.
 */
export function isPlaceholder(text: string): boolean {
  return PLACEHOLDER.test(text)
}
