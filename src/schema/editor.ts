/**
 * Additional rules of the editor schema for constraints that `compile` checks with its own messages. A field carries them as `x-editor`;
 * config readers ignore them. A test compares the verdicts of both.
 */
export type EditorRules = Readonly<Record<string, unknown>>

/** Text with `${…}`, whose value is known only at request time. */
const LATER = '\\$\\{'
/** Placeholders of `actions/placeholder.ts`, for which a check only warns. */
const BLANK =
  '\\$[A-Z_]\\w*|<[^<>]+>|\\{[^{}]+\\}|\\bYOUR_\\w+|\\.\\.\\.|…|^\\s*[A-Z][A-Z0-9]*(?:[ _-][A-Z0-9]+)*(?:/\\d{1,3})?\\s*$'

/** A string that matches one of the patterns. */
export function textLike(...patterns: readonly string[]): EditorRules {
  return { type: 'string', pattern: patterns.map((pattern) => `(?:${pattern})`).join('|') }
}

/** A string that matches one of the patterns, a template, or an example's placeholder. */
export function valueLike(...patterns: readonly string[]): EditorRules {
  return textLike(LATER, BLANK, ...patterns)
}

/** Like `valueLike`, for a field without templates. */
export function wordLike(...patterns: readonly string[]): EditorRules {
  return textLike(BLANK, ...patterns)
}

/** A template, or a string that matches one of the patterns; numbers are compared as text. */
export function templateLike(...patterns: readonly string[]): EditorRules {
  return { ...textLike(LATER, ...patterns), type: ['string', 'number', 'boolean'] }
}

/** Returns a pattern for `word` in any case, with `_` accepted for `-`. */
export function anyCase(word: string): string {
  return [...word]
    .map((one) => (/[a-z]/i.test(one) ? `[${one.toLowerCase()}${one.toUpperCase()}]` : one === '-' ? '[-_]' : one))
    .join('')
}

/** A map whose keys are header names outside `refused`. */
export function headerNames(refused: readonly string[]): EditorRules {
  return { propertyNames: headerName(refused) }
}

/** Pattern for a header field name (RFC 9110 5.1) outside `refused`. */
export function headerName(refused: readonly string[]): EditorRules {
  const names = refused.map(anyCase).join('|')
  const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
  return { ...textLike(`^(?!(?:${names})$)${token}$`), maxLength: 256 }
}

/** Requires `consequence` if `condition` is met. */
export function implies(condition: EditorRules, consequence: EditorRules): EditorRules {
  return { anyOf: [{ not: condition }, consequence] }
}

/** Requires the field to have one of `values`. */
export function given(field: string, values: readonly unknown[]): EditorRules {
  return { properties: { [field]: { enum: values } }, required: [field] }
}

const OCTET = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const V4 = `${OCTET}(?:\\.${OCTET}){3}`
const GROUP = '[0-9A-Fa-f]{1,4}'
const V6 = [
  `(?:${GROUP}:){7}${GROUP}`,
  `(?:${GROUP}:){6}${V4}`,
  ...Array.from({ length: 8 }, (_, before) => {
    const head = before === 0 ? '' : `${GROUP}(?::${GROUP}){${before - 1}}`
    const after = 7 - before
    const tail = after === 0 ? '' : `(?:${GROUP}(?::${GROUP}){0,${after - 1}})?`
    const mapped = after < 2 ? '' : `|${head}::(?:${GROUP}:){0,${Math.max(0, after - 2)}}${V4}`
    return `${head}::${tail}${mapped}`
  })
].join('|')

/** An IP address, or a network with a prefix length. */
export const NETWORK = `^\\s*(?:${V4}(?:/(?:3[0-2]|[12]?\\d))?|(?:${V6})(?:/(?:12[0-8]|1[01]\\d|[1-9]?\\d))?)\\s*$`
/** An absolute URL of http or https. */
export const WEB_URL = `^${anyCase('http')}[sS]?://[^\\s/]`
/** Hours, minutes, seconds and milliseconds in this order; a plain number is in seconds. */
export const DURATION: EditorRules = {
  type: ['string', 'number'],
  pattern: '^(?:\\d{1,12}(?:\\.\\d{1,3})?|(?=.)(?:\\d+h)?(?:\\d+m(?!s))?(?:\\d+s)?(?:\\d+ms)?)$',
  minimum: 0
}
