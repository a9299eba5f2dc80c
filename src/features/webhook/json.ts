import { type JsonMembersOptions, JsonValue, jsonMembers } from '../../lib/json-members.js'
import { Slices, type Steps } from '../../lib/slices.js'

/** Some members of a JSON object: lists and objects as they stand, everything else as its value. */
export type JsonObject = ReadonlyMap<string, unknown>

/**
 * Those members of the object that a body holds that are called `names`, or undefined when it holds none; long bodies are read in
 * slices. A body that names a member of the outermost object twice is none: which of both counts is left to every reader
 * (RFC 8259 4), so a signed one could hide another.
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

/** A member that is a text; a number counts as the text that it is written as by us. Undefined for anything else. */
export function textMember(object: JsonObject, name: string): string | undefined {
  const value = object.get(name)
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : undefined
}

/** Those members of a member that is an object that are called `names`; undefined for anything else. */
export async function objectMember(
  object: JsonObject,
  name: string,
  names: readonly string[]
): Promise<JsonObject | undefined> {
  const value = object.get(name)
  return value instanceof JsonValue ? readObject(value.bytes, names) : undefined
}

/** Is the member a list without items? */
export function isEmptyList(object: JsonObject, name: string): boolean {
  const value = object.get(name)
  return value instanceof JsonValue && value.isEmptyList
}
