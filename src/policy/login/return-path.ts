const LONGEST = 2_048
/** Any origin does: what leaves it is refused. */
const HERE = 'http://here.invalid'
/** Slash or backslash, also percent-encoded, however often. */
const SECOND_SLASH = /^\/(?:%(?:25)*(?:2f|5c)|[/\\])/i
/** Browsers drop tabs and line ends inside a URL and read a backslash as a slash. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
const REFUSED = /[\u0000-\u0020\u007f-\uffff\\]/
/** Whoever decodes such a path reads what browsers drop. */
const ENCODED_CONTROL = /%(?:25)*[01][0-9a-f]/i
const OWN = /^\/(?:\.sluice\/|ngrok\/log)/

/**
 * Where a browser may be sent after a login or a logout: a path of this very origin, with a query, in the spelling that
 * browsers read it. Undefined for whatever else: another origin, another scheme, `//`, `/\` and their encoded
 * forms, paths of the login itself.
 */
export function returnPath(text: string): string | undefined {
  if (text.length > LONGEST || !text.startsWith('/') || REFUSED.test(text)) return undefined
  if (!URL.canParse(text, HERE)) return undefined
  const url = new URL(text, HERE)
  const path = `${url.pathname}${url.search}${url.hash}`
  if (url.origin !== HERE || url.username !== '' || SECOND_SLASH.test(text) || SECOND_SLASH.test(path)) return undefined
  return OWN.test(path) || ENCODED_CONTROL.test(url.pathname) ? undefined : path
}
