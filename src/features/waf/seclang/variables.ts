import { type Place, PlaceError, type VariableUse } from './rule.js'

/** Collections with named members. */
const COLLECTIONS = new Set([
  'ARGS',
  'ARGS_GET',
  'ARGS_POST',
  'ARGS_NAMES',
  'ARGS_GET_NAMES',
  'ARGS_POST_NAMES',
  'REQUEST_HEADERS',
  'REQUEST_HEADERS_NAMES',
  'REQUEST_COOKIES',
  'REQUEST_COOKIES_NAMES',
  'FILES',
  'FILES_NAMES',
  'FILES_SIZES',
  'MULTIPART_PART_HEADERS',
  'XML',
  'TX',
  'MATCHED_VARS',
  'MATCHED_VARS_NAMES',
  'RESPONSE_HEADERS',
  'RESPONSE_HEADERS_NAMES'
])

/** Variables with one value. */
const SCALARS = new Set([
  'REQUEST_METHOD',
  'REQUEST_LINE',
  'REQUEST_URI',
  'REQUEST_URI_RAW',
  'REQUEST_FILENAME',
  'REQUEST_BASENAME',
  'REQUEST_PROTOCOL',
  'REQUEST_BODY',
  'REQUEST_BODY_LENGTH',
  'REQBODY_PROCESSOR',
  'REQBODY_ERROR',
  'QUERY_STRING',
  'REMOTE_ADDR',
  'REMOTE_PORT',
  'SERVER_NAME',
  'SERVER_PORT',
  'UNIQUE_ID',
  'ARGS_COMBINED_SIZE',
  'FILES_COMBINED_SIZE',
  'MATCHED_VAR',
  'MATCHED_VAR_NAME',
  'RESPONSE_STATUS',
  'RESPONSE_PROTOCOL',
  'RESPONSE_BODY',
  'RESPONSE_CONTENT_TYPE',
  'RESPONSE_CONTENT_LENGTH'
])

/** Variables whose values a rule may change, so that they are read anew for each rule. */
export const CHANGING: ReadonlySet<string> = new Set([
  'TX',
  'MATCHED_VAR',
  'MATCHED_VAR_NAME',
  'MATCHED_VARS',
  'MATCHED_VARS_NAMES'
])

/** Returns whether the engine knows a variable of this name, in upper case. */
function isVariable(name: string): boolean {
  return COLLECTIONS.has(name) || SCALARS.has(name)
}

/** Returns whether a variable has named members. */
function isCollection(name: string): boolean {
  return COLLECTIONS.has(name)
}

/** Reads a list such as `ARGS|!ARGS:name|&REQUEST_HEADERS:/^x-/`. Throws `PlaceError`. */
export function readVariables(text: string, place: Place): VariableUse[] {
  return splitVariables(text).map((word) => readVariable(word, place))
}

/** Reads one variable. Throws `PlaceError`. */
export function readVariable(word: string, place: Place): VariableUse {
  const kind = word.startsWith('!') ? 'excluded' : word.startsWith('&') ? 'count' : 'values'
  const bare = kind === 'values' ? word : word.slice(1)
  const colon = bare.indexOf(':')
  const collection = (colon < 0 ? bare : bare.slice(0, colon)).trim().toUpperCase()
  if (!isVariable(collection)) throw new PlaceError(place, `the variable ${collection} is not known`)
  if (colon < 0) return { collection, key: undefined, pattern: undefined, kind }
  if (!isCollection(collection)) throw new PlaceError(place, `${collection} has no members`)
  let key = bare.slice(colon + 1)
  if (key.length > 1 && key.startsWith("'") && key.endsWith("'")) key = key.slice(1, -1)
  if (collection === 'XML') {
    if (key !== '/*' && key !== '//@*')
      throw new PlaceError(place, `XML:${key} is not supported; only XML:/* and XML://@* are`)
  } else if (key.length > 1 && key.startsWith('/') && key.endsWith('/')) {
    return { collection, key: undefined, pattern: `(?i)${key.slice(1, -1)}`, kind }
  }
  return { collection, key: key.toLowerCase(), pattern: undefined, kind }
}

/** Splits at `|` outside of a pattern between slashes. */
function splitVariables(text: string): string[] {
  const words: string[] = []
  let word = ''
  let inPattern = false
  for (let i = 0; i < text.length; i++) {
    const character = text[i] as string
    if (inPattern) {
      word += character
      if (character === '\\' && i + 1 < text.length) word += text[++i]
      else if (character === '/') inPattern = false
    } else if (character === '|') {
      words.push(word)
      word = ''
    } else {
      // `XML:/*` holds a path, not a pattern.
      if (character === '/' && word.endsWith(':') && !/^[!&]?XML:$/i.test(word)) inPattern = true
      word += character
    }
  }
  words.push(word)
  return words.map((one) => one.trim()).filter((one) => one !== '')
}
