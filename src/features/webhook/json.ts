import { isUtf8 } from 'node:buffer'

/** The members of a JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const OPENING = new Set([0x7b, 0x5b])
const CLOSING = new Set([0x7d, 0x5d])

/**
 * The object that a body holds, or undefined when it holds none. A body that names a member of the outermost object twice is
 * none: which of both counts is left to every reader (RFC 8259 4), so a signed one could hide another.
 */
export function readObject(body: Uint8Array): JsonObject | undefined {
  if (!isUtf8(body)) return undefined
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // A sender may send anything.
    return undefined
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return outermostMembers(text) === Object.keys(value).length ? (value as JsonObject) : undefined
}

/** How many members the outermost object of a valid JSON text has, repeated names included. */
function outermostMembers(text: string): number {
  let depth = 0
  let colons = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) i = endOfString(text, i)
    else if (OPENING.has(code)) depth++
    else if (CLOSING.has(code)) depth--
    else if (code === COLON && depth === 1) colons++
  }
  return colons
}

function endOfString(text: string, start: number): number {
  let i = start + 1
  while (i < text.length && text.charCodeAt(i) !== QUOTE) i += text.charCodeAt(i) === BACKSLASH ? 2 : 1
  return i
}

/** A member that is a text; a number counts as the text that it is written as by us. Undefined for anything else. */
export function textMember(object: JsonObject, name: string): string | undefined {
  if (!Object.hasOwn(object, name)) return undefined
  const value = object[name]
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : undefined
}

/** The member when it is an object; undefined when it is absent or anything else. */
export function objectMember(object: JsonObject, name: string): JsonObject | undefined {
  const value = Object.hasOwn(object, name) ? object[name] : undefined
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined
}
