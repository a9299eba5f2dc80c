const WORD = /^\w{1,80}$/

/** The object that a body holds; empty when it holds something else. */
export function jsonOf(body: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(Buffer.from(body).toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    // Whatever it is, it says nothing.
    return {}
  }
}

/** A code that may be repeated to people; '' when it is anything but one word. */
export function wordOf(value: unknown): string {
  return typeof value === 'string' && WORD.test(value) ? value : ''
}

/** The objects of a list; empty when it is none. */
export function objectsOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  if (!Array.isArray(value)) return []
  return value.map((item: unknown) =>
    typeof item === 'object' && item !== null ? (item as Record<string, unknown>) : {}
  )
}
