import type { HeaderList } from '../../flow/headers.js'

/** Fields of a request that decide how a file is sent; undefined where the request has none. */
export interface FileFields {
  readonly accepted: string | undefined
  /** Names in lower case; undefined when no condition and no range is asked for. */
  readonly conditions: Readonly<Record<string, string>> | undefined
}

/** What `Range` and conditions are compared with. */
export interface Validators {
  readonly size: number
  /** Strong entity tag. */
  readonly tag: string
  /** Value of Last-Modified. */
  readonly modified: string
}

/** By the length of their names, so that other fields cost nothing. */
const NAMES: ReadonlyMap<number, readonly string[]> = new Map([
  [5, ['range']],
  [8, ['if-match', 'if-range']],
  [13, ['if-none-match']],
  [15, ['accept-encoding']],
  [17, ['if-modified-since']],
  [19, ['if-unmodified-since']]
])
/** Fields whose value is a list, which several lines make longer (RFC 9110 5.3). */
const LISTS: readonly string[] = ['if-match', 'if-none-match', 'accept-encoding']
/** The forms of dates (RFC 9110 5.6.7), of which the last one is that of asctime. */
const DATE =
  /^(?:[A-Z][a-z]{2,8}, \d{2}[ -][A-Z][a-z]{2}[ -]\d{2,4} \d{2}:\d{2}:\d{2} GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4})$/
const RANGE = /^bytes=[ \t,]*(?:(\d+)-(\d*)|-(\d+))[ \t,]*$/i
/** Digits that a number of bytes may have; more mean the end of any file. */
const MOST_DIGITS = 15

/** Reads the fields; one that is there twice and may not be is left out. */
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
 * The conditions and the range in the form in which the package `@fastify/send` answers them as RFC 9110 13 and 14 have it: it compares
 * weakly where the RFC asks for the strong comparison, takes `bytes=1-2-3` and `bytes=0x0-5` for ranges, and a suffix that is longer than the file for
 * one that cannot be satisfied. Undefined when the file is to be sent as a whole, without conditions.
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
  // Only GET has ranges (RFC 9110 14.2); both forms of If-Range are compared exactly (13.1.5).
  if (range !== undefined && method === 'GET' && (ifRange === undefined || ifRange === tag || ifRange === modified)) {
    const one = oneRange(range, size)
    if (one !== undefined) asked.range = one
  }
  return Object.keys(asked).length === 0 ? undefined : asked
}

/** `bytes=first-last` of a file of this size; undefined for what is no range, or several. */
function oneRange(text: string, size: number): string | undefined {
  const [whole, first, last = '', suffix] = RANGE.exec(text) ?? []
  if (whole === undefined) return undefined
  if (suffix !== undefined) {
    const length = bounded(suffix)
    // A suffix without bytes cannot be satisfied; one that is longer is the whole file.
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

/** Without the weak tags, which never match here (RFC 9110 13.1.1). */
function strongTags(list: string): string {
  if (list.trim() === '*') return '*'
  const tags = list.match(/(?:W\/)?"[^"]*"/g) ?? []
  // A list that no tag of the file is in: it is never empty.
  return [...tags.filter((tag) => !tag.startsWith('W/')), '""'].join(', ')
}

function isDate(text: string | undefined): text is string {
  return text !== undefined && DATE.test(text) && !Number.isNaN(Date.parse(text))
}

/** The preferred of the codings that a client takes (RFC 9110 12.5.3); `names` are content codings, the preferred first. */
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
