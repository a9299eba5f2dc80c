/** Deepest nesting; claims need a handful. */
const MAX_DEPTH = 64
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const OPENING = [0x5b, 0x7b]
const CLOSING = [0x5d, 0x7d]
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export type JsonObject = Readonly<Record<string, unknown>>

/**
 * Reads bytes as one JSON object, strictly: valid UTF-8, no member twice in any object, bounded depth. Undefined when
 * it is none: of two members of one name this reader and the next might take different ones (RFC 7519 4).
 */
export function readJsonObject(bytes: Uint8Array): JsonObject | undefined {
  let colons: number | undefined
  let value: unknown
  try {
    const text = UTF8.decode(bytes)
    colons = scan(text)
    value = colons === undefined ? undefined : JSON.parse(text)
  } catch {
    // Decoder and parser have one reason to throw, and their messages may quote what must not be logged.
    return undefined
  }
  if (!isJsonObject(value)) return undefined
  // One colon outside of strings stands for one member, so a surplus is a member that came twice and was overwritten.
  return colons === countMembers(value) ? value : undefined
}

function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Colons outside of strings; undefined when the nesting is too deep. */
function scan(text: string): number | undefined {
  let colons = 0
  let depth = 0
  let quoted = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (quoted) {
      if (code === BACKSLASH) at++
      else if (code === QUOTE) quoted = false
    } else if (code === QUOTE) quoted = true
    else if (code === COLON) colons++
    else if (CLOSING.includes(code)) depth--
    else if (OPENING.includes(code) && ++depth > MAX_DEPTH) return undefined
  }
  return colons
}

function countMembers(root: object): number {
  let count = 0
  const waiting: object[] = [root]
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    const inner: readonly unknown[] = Object.values(value)
    if (!Array.isArray(value)) count += inner.length
    for (const item of inner) if (typeof item === 'object' && item !== null) waiting.push(item)
  }
  return count
}
