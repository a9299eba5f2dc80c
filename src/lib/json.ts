/** A JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** Returns whether a value is a JSON object and not a list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Formats milliseconds since the Unix epoch as RFC 3339 in UTC, whole seconds. */
export function timestampText(wall: number): string {
  return `${new Date(wall).toISOString().slice(0, 19)}Z`
}
