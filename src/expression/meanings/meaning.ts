import { meaningOfConnection } from './connection.js'
import { MESSAGES } from './messages.js'
import { type FunctionMeaning, TEXT_FUNCTIONS } from './text-functions.js'
import { VALUE_FUNCTIONS } from './value-functions.js'

/** Describes the exchange with which the examples of functions are evaluated. */
export const EXAMPLE_FLOW =
  'The examples are for `GET https://app.test/search?q=cats` with `x-tier: gold` and `cookie: session=abc`, answered with `content-type: text/plain` and `set-cookie: seen=1`.'

const LONG_NAMES = /^google\.protobuf\.(Timestamp|Duration)\./
const TYPE_PARAMETERS = /<[^()]*>(?=\.)/

/** The name under which the overloads of a function share a meaning: `list.join` of `list<string>.join(string): string`. */
export function functionName(signature: string): string {
  const called = signature.slice(0, signature.indexOf('('))
  return called.replace(LONG_NAMES, (_, type: string) => `${type.toLowerCase()}.`).replace(TYPE_PARAMETERS, '')
}

/** Returns the description of a function; undefined if the signature is unknown. */
export function functionMeaning(signature: string): FunctionMeaning | undefined {
  const name = functionName(signature)
  return TEXT_FUNCTIONS[name] ?? VALUE_FUNCTIONS[name]
}

/** Every function that has a meaning, by name. */
export const functionMeanings: ReadonlyMap<string, FunctionMeaning> = new Map(
  Object.entries({ ...TEXT_FUNCTIONS, ...VALUE_FUNCTIONS })
)

/** Returns the description of a variable other than action results; undefined if the path is unknown. */
export function variableMeaning(path: string): string | undefined {
  return MESSAGES[path] ?? meaningOfConnection(path)
}
