import { METHODS } from 'node:http'
import { domainToASCII } from 'node:url'
import { normalPath } from '../flow/target.js'
import { formatAddress, parseAddress } from '../lib/ip.js'
import { compileRegex, quotedPattern, type Regex, sharesText } from '../lib/regex.js'

/** All texts that a value can be. */
export interface TextValues {
  /** Matches every one of them; RE2 syntax, anchored at both ends. */
  readonly pattern: string
  /** Set if the pattern also matches texts that are not values. */
  readonly accepts?: (text: string) => boolean
  /** Description of the values' form, for people: ends a sentence after a colon. */
  readonly form: string
  /** Returns the probable intended value for an invalid text; the caller checks the result. */
  readonly spell?: (text: string) => string | undefined
  /** Narrower pattern under strict paths. */
  readonly strict?: string
}

/** All numbers that a value can be: both ends are possible. */
export interface NumberValues {
  readonly min: number
  readonly max: number
  readonly form: string
  readonly spell?: (value: number) => number | undefined
}

/** The whole of one of these patterns. */
function anchored(...patterns: readonly string[]): string {
  return `^(?:${patterns.join('|')})$`
}

/** A set of few texts. A text that differs in case alone, or as `alias` says, is spelled as one of them. */
function oneOf(texts: readonly string[], form: string, alias: (text: string) => string = (text) => text): TextValues {
  const known = new Map(texts.map((text) => [text.toLowerCase(), text]))
  return {
    pattern: anchored(...texts.map(quotedPattern)),
    form,
    spell: (text) => known.get(text.trim().toLowerCase()) ?? known.get(alias(text.trim()).toLowerCase())
  }
}

const lower = (text: string) => text.toLowerCase()
const upper = (text: string) => text.toUpperCase()

/** A character of a path or query that needs no escape (RFC 3986 3.3), without the dot and the semicolon. */
const PLAIN = "A-Za-z0-9_~!$&'()*+,=:@\\-"
/** Escapes that stay in the strict form of a path, and all that stay in the lenient one. */
const STRICT_ESCAPE = '%(?:2[0-9A-C]|3[A-F]|40|5[BDE]|60|7[B-D]|[89A-F][0-9A-F])'
/** Escapes that the lenient path form preserves. */
const ESCAPE = '%(?:[01][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF]|[89A-F][0-9A-F])'

/** Paths of segments that are neither `.` nor `..`. */
function paths(escaped: string, { empty }: { readonly empty: boolean }): string {
  const any = `(?:[${PLAIN}.;]|${escaped})`
  const noDot = `(?:[${PLAIN};]|${escaped})`
  const segment = `(?:${noDot}${any}*|\\.${noDot}${any}*|\\.\\.${any}+)`
  return empty ? `/(?:${segment}?/)*${segment}?` : `(?:/${segment})*/?`
}

const PATH = paths(ESCAPE, { empty: true })
const STRICT_PATH = `/|${paths(STRICT_ESCAPE, { empty: false }).replace(/\*\/\?$/, '+/?')}`
const QUERY = `(?:[${PLAIN}.;/?%\\[\\]])*`
const NAME = "[A-Za-z0-9_~!$&'()+,;=-]"
const PORT = '(?::[0-9]{1,5})?'
const AUTHORITY = `(?:\\[[0-9A-Fa-f:.]+\\]|(?:${NAME}+\\.)*${NAME}+)${PORT}`
const LOWER_NAME = NAME.replace('A-Z', '')
const PATH_FORM = 'a path begins with "/", holds no space and no "?", and has no segment "." or ".."'

/** The path that was probably meant. */
function spellPath(text: string): string | undefined {
  if (/^[a-z]+:\/*$/i.test(text)) return undefined
  const path = /^https?:\/\/[^/]*(\/.*)$/i.exec(text)?.[1] ?? text
  const mark = path.indexOf('?')
  const cut = (mark === -1 ? path : path.slice(0, mark)).trim()
  const normal = normalPath(cut.startsWith('/') ? cut : `/${cut}`, 'strict')
  return 'path' in normal ? normal.path : undefined
}

const path: TextValues = {
  pattern: anchored('\\*', PATH),
  strict: anchored('\\*', STRICT_PATH),
  form: PATH_FORM,
  spell: spellPath
}
const url: TextValues = {
  pattern: anchored(`https?://${AUTHORITY}(?:(?:${PATH})(?:\\?${QUERY})?)?`),
  strict: anchored(`https?://${AUTHORITY}(?:(?:${STRICT_PATH})(?:\\?${QUERY})?)?`),
  form: 'a URL begins with http:// or https:// and holds no space',
  spell: (text) => text.trim().replace(/^https?:/i, lower)
}
const uri: TextValues = {
  pattern: anchored('\\*', `(?:${PATH})(?:\\?${QUERY})?`),
  strict: anchored('\\*', `(?:${STRICT_PATH})(?:\\?${QUERY})?`),
  form: 'it is path and query: it begins with "/", holds no space, and its path has no segment "." or ".."',
  spell: (text) => {
    const mark = text.indexOf('?')
    const normal = spellPath(text)
    return normal === undefined || mark === -1 ? normal : `${normal}${text.slice(mark)}`
  }
}
const VISIBLE = '[\\x21-\\x7e]'

/** The text of an address as the product writes it (RFC 5952). */
function spellAddress(text: string): string | undefined {
  const address = parseAddress(text.trim().replace(/^\[(.*)\]$/, '$1'))
  return address === undefined ? undefined : formatAddress(address)
}

const address: TextValues = {
  pattern: anchored('[0-9]{1,3}(?:\\.[0-9]{1,3}){3}', '[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}'),
  accepts: (text) => spellAddress(text) === text,
  form: 'an address is written as 192.0.2.1 or, in the short form of RFC 5952, as 2001:db8::1; for a network write inCidrRange(…)',
  spell: spellAddress
}
const host: TextValues = {
  pattern: anchored(`(?:\\[[0-9a-f:.]+\\]|(?:${LOWER_NAME}+\\.)*${LOWER_NAME}+)${PORT}`),
  form: "it is a host name in lower case, with a port that is not the default one of its scheme, and nothing else; for all names of a domain write endsWith('.example.com')",
  spell: (text) => spellHost(text)?.toLowerCase()
}
const lowerHost: TextValues = {
  pattern: anchored(`(?:${LOWER_NAME}+\\.)*${LOWER_NAME}+`, '[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}'),
  form: "it is a host name in lower case without a port; for all names of a domain write endsWith('.example.com')",
  spell: (text) => spellHost(text)?.toLowerCase().replace(/:\d+$/, '')
}

/** A name of other letters is in the form of the DNS (RFC 5891) in every request. */
function spellHost(text: string): string | undefined {
  const host = text
    .trim()
    .replace(/^[a-z]+:\/\//i, '')
    .replace(/\/.*$/, '')
    .replace(/\.$/, '')
  return /[^\0-\x7f]/.test(host) ? domainToASCII(host) : host
}

const scheme = oneOf(['http', 'https'], "it is 'http' or 'https'", (text) => text.replace(/:\/*$/, ''))
const mediaType: TextValues = {
  pattern: anchored('', '[^A-Z;\\x00-\\x20\\x7f](?:[^A-Z;\\x00-\\x1f\\x7f]*[^A-Z;\\x00-\\x20\\x7f])?'),
  form: 'it is the media type in lower case, without parameters; what was sent is in content_type.raw',
  spell: (text) => text.replace(/;.*$/s, '').trim().toLowerCase()
}
const trimmed = (text: string) => text.trim()

/** A value of a header field (RFC 9110 5.5). */
export const HEADER_VALUE: TextValues = {
  pattern: anchored('', '[^\\x00-\\x20\\x7f](?:[^\\x00-\\x08\\x0a-\\x1f\\x7f]*[^\\x00-\\x20\\x7f])?'),
  form: 'a value of a header field has no space at its ends and no line break',
  spell: trimmed
}
const fieldName: TextValues = {
  pattern: anchored("[A-Za-z0-9!#$%&'*+.^_`|~-]+"),
  form: 'the name of a header field has letters, digits and "-", and no space or ":"',
  spell: (text) => text.trim().replace(/:+$/, '').replaceAll(' ', '-')
}
/** Header names in the form that a comprehension over a map of headers yields. */
export const LOWER_FIELD_NAME: TextValues = {
  ...fieldName,
  pattern: anchored("[a-z0-9!#$%&'*+.^_`|~-]+"),
  form: 'the names in a map of header fields are in lower case',
  spell: (text) => fieldName.spell?.(text)?.toLowerCase()
}
const cookieName: TextValues = {
  pattern: anchored('[^\\x00-\\x20=;\\x7f](?:[^\\x00-\\x1f=;\\x7f]*[^\\x00-\\x20=;\\x7f])?'),
  form: 'the name of a cookie has no "=", no ";" and no space at its ends',
  spell: (text) => text.replace(/[=;].*$/s, '').trim()
}
const COUNTRIES: Readonly<Record<string, string>> = { UK: 'GB', EL: 'GR' }
const country: TextValues = {
  pattern: anchored('(?:[A-Z]{2})?'),
  accepts: (text) => !Object.hasOwn(COUNTRIES, text),
  form: "it is a code of two letters in upper case (ISO 3166-1), such as 'DE', 'US' or 'GB'",
  spell: (text) => COUNTRIES[upper(text.trim())] ?? upper(text.trim())
}
const tlsVersion = oneOf(['', '1.0', '1.1', '1.2', '1.3'], "it is '1.2' or '1.3', and empty without TLS", (text) =>
  text.replace(/^(?:TLS|SSL)\s?v?/i, '').replace('_', '.')
)
const serial: TextValues = {
  pattern: anchored('(?:[0-9a-f]{2})*'),
  form: 'a serial number is written in lower-case hexadecimal digits, without colons',
  spell: (text) => {
    const digits = text.replace(/[:\s]|^0x/gi, '').toLowerCase()
    return digits.length % 2 === 0 ? digits : `0${digits}`
  }
}
const CONTINENTS = ['', 'Africa', 'Antarctica', 'Asia', 'Europe', 'North America', 'Oceania', 'South America']
const CONTINENT_CODES = ['', 'AF', 'AN', 'AS', 'EU', 'NA', 'OC', 'SA']
const continent = oneOf(
  CONTINENTS,
  `it is the English name: ${CONTINENTS.slice(1).join(', ')}`,
  (text) => CONTINENTS[CONTINENT_CODES.indexOf(upper(text))] ?? text
)
const raw = (pattern: string, form: string): TextValues => ({ pattern: anchored(pattern), form })

/**
 * Possible texts of variables, by path; `[]` stands for the elements of a list, `{}` for the keys of a map. Variables that are not listed
 * can have any value; names of clients, devices, cities and organizations, for example, come from databases.
 */
export const VARIABLE_TEXTS: Readonly<Record<string, TextValues>> = {
  'req.method': {
    // A method is any token without lower-case letters.
    ...oneOf([...METHODS], "it is a method of HTTP, in upper case, such as 'GET'"),
    pattern: anchored("[!#$%&'*+\\-.^_`|~0-9A-Z]{1,32}")
  },
  'req.version': oneOf(
    ['HTTP/1.0', 'HTTP/1.1', 'HTTP/2.0'],
    "it is 'HTTP/1.0', 'HTTP/1.1' or 'HTTP/2.0'",
    (text) => ({ '2': 'HTTP/2.0', h2: 'HTTP/2.0' })[lower(text).replace('http/', '')] ?? `HTTP/${text}`
  ),
  'req.host': host,
  'req.location': HEADER_VALUE,
  'req.content_type': mediaType,
  'req.content_type.raw': HEADER_VALUE,
  'req.content_type.parameters{}': {
    ...fieldName,
    pattern: anchored('[^A-Z\\s;=]+'),
    form: 'it is in lower case',
    spell: lower
  },
  'req.content_encoding[]': {
    ...HEADER_VALUE,
    pattern: anchored('[^\\x00-\\x20,\\x7f](?:[^\\x00-\\x1f,\\x7f]*[^\\x00-\\x20,\\x7f])?'),
    form: 'each coding is an element of its own'
  },
  'req.headers{}': fieldName,
  'req.trailers{}': fieldName,
  'req.cookies{}': cookieName,
  'req.user_agent': HEADER_VALUE,
  'req.url': url,
  'req.url.authority': host,
  'req.url.host': lowerHost,
  'req.url.path': path,
  'req.url.query': raw(QUERY, 'a query holds no space, no "#" and none of "<>\\\\^`{|}, which stand as escapes'),
  'req.url.raw_path': raw(`[\\x21-\\x3e\\x40-\\x7e]*`, 'a path as it came has no space and no "?"'),
  'req.url.raw': raw(`(?:https?://${VISIBLE}*|\\*|${VISIBLE}+)`, 'a URL has no space'),
  'req.url.scheme': scheme,
  'req.url.uri': uri,
  'req.url.user_password': raw('', 'a target with a user name is refused, so it is always empty'),
  'res.location': HEADER_VALUE,
  'res.content_type': mediaType,
  'res.content_type.raw': HEADER_VALUE,
  'res.headers{}': fieldName,
  'res.trailers{}': fieldName,
  'res.cookies{}': cookieName,
  'conn.client_ip': address,
  'conn.server_ip': address,
  'conn.geo.country_code': country,
  'conn.client_ip.geo.location.country_code': country,
  'conn.client_ip.geo.registered_location.country_code': country,
  'conn.client_ip.geo.location.continent': continent,
  'conn.client_ip.geo.registered_location.continent': continent,
  'conn.server_ip.geo.location.country_code': country,
  'conn.server_ip.geo.registered_location.country_code': country,
  'conn.server_ip.geo.location.continent': continent,
  'conn.server_ip.geo.registered_location.continent': continent,
  'conn.tls.version': tlsVersion,
  'conn.tls.sni': raw('[^\\s/:]*', 'it is a host name alone'),
  'conn.tls.client.serial_number': serial,
  'conn.tls.server.serial_number': serial,
  'endpoint.protocol': oneOf(['http', 'https', 'tcp', 'tls'], "it is 'http', 'https', 'tcp' or 'tls'"),
  'endpoint.host': raw('[^A-Z\\s/]*', 'it is a host in lower case')
}

const bytes: NumberValues = { min: 0, max: Number.MAX_SAFE_INTEGER, form: 'a number of bytes is 0 or more' }
const port: NumberValues = { min: 0, max: 65_535, form: 'a port is a number up to 65535' }

/** Possible numbers of variables, by path as in `VARIABLE_TEXTS`. */
export const VARIABLE_NUMBERS: Readonly<Record<string, NumberValues>> = {
  'req.content_length': bytes,
  'res.content_length': bytes,
  'conn.bytes_in': bytes,
  'conn.bytes_out': bytes,
  'conn.client_port': port,
  'conn.server_port': port,
  'endpoint.port': port,
  'req.url.port': { ...port, min: 1 },
  'res.status_code': { min: 100, max: 999, form: 'a status has three digits, from 100 on' },
  'conn.client_ip.as.number': { min: 0, max: 4_294_967_295, form: 'a number of an AS has 32 bits' },
  'conn.server_ip.as.number': { min: 0, max: 4_294_967_295, form: 'a number of an AS has 32 bits' }
}

/** Possible results of timestamp methods. */
export const TIMESTAMP_NUMBERS: Readonly<Record<string, NumberValues>> = {
  getFullYear: { min: 1, max: 9_999, form: 'a year has up to four digits' },
  getMonth: {
    min: 0,
    max: 11,
    form: 'months count from 0 for January to 11 for December',
    spell: (value) => value - 1
  },
  getDate: { min: 1, max: 31, form: 'days of a month count from 1 to 31' },
  getDayOfMonth: {
    min: 0,
    max: 30,
    form: 'it counts days from 0 to 30; getDate() counts from 1',
    spell: (value) => value - 1
  },
  getDayOfWeek: {
    min: 0,
    max: 6,
    form: 'days of the week count from 0 for Sunday to 6 for Saturday',
    spell: (value) => value % 7
  },
  getDayOfYear: { min: 0, max: 365, form: 'days of a year count from 0 to 365' },
  getHours: { min: 0, max: 23, form: 'hours count from 0 to 23', spell: (value) => value % 24 },
  getMinutes: { min: 0, max: 59, form: 'minutes count from 0 to 59' },
  getSeconds: { min: 0, max: 59, form: 'seconds count from 0 to 59' },
  getMilliseconds: { min: 0, max: 999, form: 'milliseconds count from 0 to 999' }
}

export const SIZE: NumberValues = { min: 0, max: Number.MAX_SAFE_INTEGER, form: 'a size is 0 or more' }

const hexadecimal = (digits: number): TextValues => ({
  pattern: anchored(`[0-9a-f]{${digits}}`),
  form: `this hash has ${digits} hexadecimal digits in lower case`,
  spell: lower
})

/** Possible results of text functions, by name; a namespace is joined by `__`. */
export const FUNCTION_TEXTS: Readonly<Record<string, TextValues>> = {
  lowerAscii: { pattern: anchored('[^A-Z]*'), form: 'lowerAscii() leaves no upper-case letter', spell: lower },
  lower: { pattern: anchored('[^A-Z]*'), form: 'lower() leaves no upper-case letter', spell: lower },
  upperAscii: { pattern: anchored('[^a-z]*'), form: 'upperAscii() leaves no lower-case letter', spell: upper },
  upper: { pattern: anchored('[^a-z]*'), form: 'upper() leaves no lower-case letter', spell: upper },
  trim: { pattern: anchored('', '\\S', '\\S[\\s\\S]*\\S'), form: 'trim() leaves no space at the ends', spell: trimmed },
  ...Object.fromEntries(
    Object.entries({ crc32: 8, crc64: 16, md5: 32, sha1: 40, sha256: 64, sha512: 128, xxhash64: 16 }).flatMap(
      ([name, digits]) => [name, `hash__${name}`].map((one) => [one, hexadecimal(digits)])
    )
  )
}

/** Comparison with a literal: the whole value, a part at some position, or a pattern. */
export type Comparison = 'whole' | 'start' | 'end' | 'part' | 'pattern'

/** Patterns of the sets, which many documents are held against. */
const patterns = new Map<string, Regex>()

function regexOf(pattern: string): Regex {
  const known = patterns.get(pattern)
  if (known !== undefined) return known
  const made = compileRegex(pattern)
  if (!made.ok) throw new Error(`A pattern of values: ${made.message}`)
  patterns.set(pattern, made.regex)
  return made.regex
}

/** Returns false if no value compares so with the text: under either form of paths, or (`strict`) under the strict one. */
export function isPossible(values: TextValues, comparison: Comparison, text: string, strict = false): boolean {
  const all = regexOf((strict ? values.strict : undefined) ?? values.pattern)
  if (comparison === 'whole') return all.test(text) && values.accepts?.(text) !== false
  if (comparison !== 'pattern' && AROUND[comparison].some(([before, after]) => all.test(before + text + after)))
    return true
  const wanted = compileRegex(PATTERNS[comparison](text))
  return !wanted.ok || sharesText(all, wanted.regex) !== false
}

/**
 * Text before and after a literal in values of most sets. Finding a value proves in microseconds that one exists; a full search takes a
 * millisecond.
 */
const AROUND: Readonly<Record<'start' | 'end' | 'part', readonly (readonly [string, string])[]>> = {
  start: ['', 'a', '//a'].map((after) => ['', after]),
  end: ['', 'a', '/a', 'https://a', 'https://a/'].map((before) => [before, '']),
  part: ['', 'a', '/a', 'https://a', 'https://a/'].flatMap((before) => [
    [before, ''],
    [before, 'a']
  ])
}

const PATTERNS: Readonly<Record<Exclude<Comparison, 'whole'>, (text: string) => string>> = {
  start: (text) => `^${quotedPattern(text)}`,
  end: (text) => `${quotedPattern(text)}$`,
  part: quotedPattern,
  pattern: (text) => text
}
