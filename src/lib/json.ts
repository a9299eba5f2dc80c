/** A value as JSON knows it. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** A JSON object, no list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Milliseconds since the Unix epoch as RFC 3339 in UTC, whole seconds. */
export function timestampText(wall: number): string {
  return `${new Date(wall).toISOString().slice(0, 19)}Z`
}
