import { type JsonMembersOptions, JsonValue, jsonMembers } from '../../lib/json-members.js'
import { Slices, type Steps } from '../../lib/slices.js'

/** Some members of a JSON object: lists and objects as raw text, others as values. */
export type JsonObject = ReadonlyMap<string, unknown>

/**
 * Returns the members `names` of the object in a body, or undefined if it has none; long bodies are read in slices. A repeated member of
 * the outermost object is invalid: readers differ in which one they use (RFC 8259 4), so a signed one could hide another.
 */
export function readObject(body: Uint8Array, names: readonly string[]): Promise<JsonObject | undefined> {
  return new Slices().run(membersOf(body, { wanted: (name) => names.includes(name) }))
}

function* membersOf(body: Uint8Array, options: JsonMembersOptions): Steps<JsonObject | undefined> {
  const members = yield* jsonMembers(body, options)
  if (members === undefined) return undefined
  const object = new Map<string, unknown>()
  for (const [name, value] of members) {
    const scalar = yield* value.scalar()
    object.set(name, scalar === undefined ? value : scalar)
  }
  return object
}

/** Returns a text member; a number is returned as its text. Undefined otherwise. */
export function textMember(object: JsonObject, name: string): string | undefined {
  const value = object.get(name)
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : undefined
}

/** Returns the members `names` of an object member; undefined if it is not an object. */
export async function objectMember(
  object: JsonObject,
  name: string,
  names: readonly string[]
): Promise<JsonObject | undefined> {
  const value = object.get(name)
  return value instanceof JsonValue ? readObject(value.bytes, names) : undefined
}

/** Returns true if the member is an empty list. */
export function isEmptyList(object: JsonObject, name: string): boolean {
  const value = object.get(name)
  return value instanceof JsonValue && value.isEmptyList
}
