import { ControlError, controlErrors } from '../../control/errors.js'
import type { Json } from '../../lib/json.js'
import type { KeyPart, LiveLimit, PolicyLimit } from '../../policy/live-limit.js'

/** Returns the value of a key that has one part, in the type of its expression. Throws `QUERY_INVALID`. */
export function valueOfKey({ limit }: Pick<PolicyLimit, 'limit'>, text: string): Json {
  const [part, other] = limit.bucketKey
  if (part === undefined || other !== undefined) {
    throw invalid('key', `names one value, and keys of this limit have several (${sourcesOf(limit)}): give values`)
  }
  return valueOfPart(part, text, 'key')
}

/** Returns the values of the parts of a key from a JSON list. Throws `QUERY_INVALID`. */
export function valuesOf({ limit }: Pick<PolicyLimit, 'limit'>, text: string): readonly Json[] {
  const wanted = limit.bucketKey.length
  const values = parsed(text)
  if (!Array.isArray(values) || values.length !== wanted) {
    const what = wanted === 1 ? 'the value' : `${wanted} values`
    throw invalid('values', `must be a JSON list of ${what} of ${sourcesOf(limit)}`)
  }
  return limit.bucketKey.map((part, i) => {
    const value = values[i] as Json
    return typeof value === 'string' ? valueOfPart(part, value, 'values') : value
  })
}

/** A value that is given as text, as the type of its expression wants it. */
function valueOfPart({ source, type }: KeyPart, text: string, field: string): Json {
  switch (type) {
    case 'int':
    case 'uint':
      if (!/^-?\d{1,20}$/.test(text)) throw invalid(field, `must have a whole number for ${source}`)
      return Number.isSafeInteger(Number(text)) ? Number(text) : text
    case 'double':
      if (text.trim() === '') throw invalid(field, `must have a number for ${source}`)
      return Number.isFinite(Number(text)) ? Number(text) : text
    case 'bool':
      if (text !== 'true' && text !== 'false') throw invalid(field, `must have true or false for ${source}`)
      return text === 'true'
    default:
      if (!type.startsWith('list') && !type.startsWith('map')) return text
      throw invalid(field, `must have a ${type} for ${source}: give values, a JSON list with it`)
  }
}

function sourcesOf({ bucketKey }: LiveLimit): string {
  return bucketKey.map(({ source }) => source).join(', ')
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns the error of a field of the query. */
export function invalid(field: string, reason: string): ControlError {
  return new ControlError(controlErrors.QUERY_INVALID, `${field} ${reason}`, { field })
}
