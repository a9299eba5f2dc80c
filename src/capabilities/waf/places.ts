import { quotedPattern } from '../../lib/regex.js'

/** Segments of paths that are ids: numbers, UUIDs, long hexadecimal numbers, and long texts with digits. */
const ID = /^(?:\d+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{12,}|(?=.*\d)[\w-]{20,})$/i
/** Stands for an id in a path. */
const ANY = '*'

/** Returns a path with `*` for segments that are ids, so that paths of one kind are one place. */
export function toPlace(path: string): string {
  return path
    .split('/')
    .map((segment) => (ID.test(segment) ? ANY : segment))
    .join('/')
}

/** Returns a CEL condition that holds for requests to a place. */
export function toCondition(place: string): string {
  const segments = place.split('/')
  if (!segments.includes(ANY)) return `req.url.path == ${quoted(place)}`
  const pattern = segments.map((segment) => (segment === ANY ? '[^/]+' : quotedPattern(segment))).join('/')
  return `req.url.path.matches(${quoted(`^${pattern}$`)})`
}

/** Collections whose members a request names. */
const WITH_MEMBERS =
  /^(?:ARGS|ARGS_GET|ARGS_POST|ARGS_NAMES|ARGS_GET_NAMES|ARGS_POST_NAMES|REQUEST_HEADERS|REQUEST_HEADERS_NAMES|REQUEST_COOKIES|REQUEST_COOKIES_NAMES|FILES|FILES_NAMES|FILES_SIZES|MULTIPART_PART_HEADERS|RESPONSE_HEADERS|RESPONSE_HEADERS_NAMES):/
/** Variables of which one value cannot be exempt: counts, and those that rules compute. */
const COMPUTED = /^(?:$|&|TX(?::|$)|MATCHED_VARS?)/
/** Names that targets hold as they are. */
const PLAIN = /^[\w.-]+$/
/** A number in a name: the index of a list. */
const INDEX = /(^|[.[])\d+(?=$|[.\]])/
/** Mark of a name that is cut. */
const CUT = '…'
/** Maximum length of the known part of a cut name (characters). */
const MAX_PREFIX = 100

/** Returns the target of an exclusion for a variable; undefined if the rule examines no variable that can be exempt. */
export function toTarget(variable: string): string | undefined {
  if (COMPUTED.test(variable)) return undefined
  const collection = WITH_MEMBERS.exec(variable)?.[0]
  if (collection === undefined) return variable
  const name = variable.slice(collection.length)
  if (name.endsWith(CUT)) return `${collection}/^${escaped(name.slice(0, -CUT.length).slice(0, MAX_PREFIX))}/`
  if (PLAIN.test(name) && !INDEX.test(name)) return variable
  const parts = name.split(/((?<=^|[.[])\d+(?=$|[.\]]))/)
  return `${collection}/^${parts.map((part, i) => (i % 2 === 1 ? '\\d+' : escaped(part))).join('')}$/`
}

/** Returns a pattern of the rule language, which stands between slashes. */
function escaped(text: string): string {
  return quotedPattern(text).replaceAll('/', '\\/')
}

function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}
