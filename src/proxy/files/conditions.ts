import type { HeaderList } from '../../flow/headers.js'

/** Request fields for serving a file; undefined for missing ones. */
export interface FileFields {
  readonly accepted: string | undefined
  /** Conditions and range by lower-case name; undefined if there are none. */
  readonly conditions: Readonly<Record<string, string>> | undefined
}

/** Validators for `Range` and conditional requests. */
export interface Validators {
  readonly size: number
  /** Strong entity tag. */
  readonly tag: string
  /** Value of Last-Modified. */
  readonly modified: string
}

/** Field names by length, so that other fields are skipped quickly. */
const NAMES: ReadonlyMap<number, readonly string[]> = new Map([
  [5, ['range']],
  [8, ['if-match', 'if-range']],
  [13, ['if-none-match']],
  [15, ['accept-encoding']],
  [17, ['if-modified-since']],
  [19, ['if-unmodified-since']]
])
/** List fields, which may span several lines (RFC 9110 5.3). */
const LISTS: readonly string[] = ['if-match', 'if-none-match', 'accept-encoding']
/** Date formats (RFC 9110 5.6.7), the last one that of asctime. */
const DATE =
  /^(?:[A-Z][a-z]{2,8}, \d{2}[ -][A-Z][a-z]{2}[ -]\d{2,4} \d{2}:\d{2}:\d{2} GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4})$/
const RANGE = /^bytes=[ \t,]*(?:(\d+)-(\d*)|-(\d+))[ \t,]*$/i
/** Maximum number of digits of a byte position; more are beyond the end of any file. */
const MOST_DIGITS = 15

/** Reads the fields; drops a repeated field that must be single. */
export function readFileFields(headers: HeaderList): FileFields {
  let found: Record<string, string> | undefined
  let accepted: string | undefined
  const twice: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    const names = NAMES.get(name.length)
    if (names === undefined) continue
    const lower = name.toLowerCase()
    if (!names.includes(lower)) continue
    const value = headers[i + 1] as string
    if (lower === 'accept-encoding') {
      accepted = accepted === undefined ? value : `${accepted}, ${value}`
      continue
    }
    found ??= {}
    const before = found[lower]
    if (before === undefined) found[lower] = value
    else if (LISTS.includes(lower)) found[lower] = `${before}, ${value}`
    else twice.push(lower)
  }
  for (const name of twice) delete found?.[name]
  return { accepted, conditions: found }
}

/**
 * Converts conditions and range so that the package `@fastify/send` answers them by RFC 9110 13 and 14. By itself it compares weakly where
 * the RFC requires strong comparison, accepts `bytes=1-2-3` and `bytes=0x0-5`, and rejects a suffix longer than the file. Undefined: the
 * complete file is sent unconditionally.
 */
export function prepareConditions(
  method: string,
  fields: Readonly<Record<string, string>>,
  { size, tag, modified }: Validators
): Readonly<Record<string, string>> | undefined {
  const asked: Record<string, string> = {}
  const { range, 'if-range': ifRange, 'if-match': match, 'if-none-match': noneMatch } = fields
  if (match !== undefined) asked['if-match'] = strongTags(match)
  else if (isDate(fields['if-unmodified-since'])) asked['if-unmodified-since'] = fields['if-unmodified-since']
  if (noneMatch !== undefined) asked['if-none-match'] = noneMatch
  else if (isDate(fields['if-modified-since'])) asked['if-modified-since'] = fields['if-modified-since']
  // Only GET supports ranges (RFC 9110 14.2); both forms of If-Range are compared exactly (13.1.5).
  if (range !== undefined && method === 'GET' && (ifRange === undefined || ifRange === tag || ifRange === modified)) {
    const one = oneRange(range, size)
    if (one !== undefined) asked.range = one
  }
  return Object.keys(asked).length === 0 ? undefined : asked
}

/** Normalizes a range to `bytes=first-last` for a file of this size; undefined for an invalid range or several. */
function oneRange(text: string, size: number): string | undefined {
  const [whole, first, last = '', suffix] = RANGE.exec(text) ?? []
  if (whole === undefined) return undefined
  if (suffix !== undefined) {
    const length = bounded(suffix)
    // An empty suffix is unsatisfiable; a suffix longer than the file is the whole file.
    return length === 0 ? `bytes=${size}-` : `bytes=${Math.max(0, size - length)}-`
  }
  const from = bounded(first as string)
  if (last === '') return `bytes=${from}-`
  const to = bounded(last)
  return to < from ? undefined : `bytes=${from}-${to}`
}

function bounded(digits: string): number {
  const number = digits.replace(/^0+(?=.)/, '')
  return number.length > MOST_DIGITS ? 10 ** MOST_DIGITS - 1 : Number(number)
}

/** Removes weak tags, which never match here (RFC 9110 13.1.1). */
function strongTags(list: string): string {
  if (list.trim() === '*') return '*'
  const tags = list.match(/(?:W\/)?"[^"]*"/g) ?? []
  // The list is never empty: it gets a tag that no file has.
  return [...tags.filter((tag) => !tag.startsWith('W/')), '""'].join(', ')
}

function isDate(text: string | undefined): text is string {
  return text !== undefined && DATE.test(text) && !Number.isNaN(Date.parse(text))
}

/** Returns the best content coding that the client accepts (RFC 9110 12.5.3); `names` in order of preference. */
export function chooseCoding<N extends string>(accepted: string, names: readonly N[]): N | undefined {
  let best: { readonly name: N; readonly quality: number } | undefined
  const qualities = new Map<string, number>()
  for (const item of accepted.toLowerCase().split(',')) {
    const [name = '', ...parameters] = item.split(';').map((part) => part.trim())
    const quality = parameters.find((one) => one.startsWith('q='))
    qualities.set(name, quality === undefined ? 1 : Number(quality.slice(2)))
  }
  for (const name of names) {
    const quality = qualities.get(name) ?? qualities.get('*') ?? 0
    if (quality > 0 && (best === undefined || quality > best.quality)) best = { name, quality }
  }
  return best?.name
}
