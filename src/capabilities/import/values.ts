/** Members of a YAML or TOML table. */
export type Fields = Readonly<Record<string, unknown>>

/** A map; empty for another value. */
export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}

/** Returns a scalar as text; undefined for anything else. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string'
    ? value
    : typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean'
      ? String(value)
      : undefined
}

/** Returns a number that is written as a number or as text; undefined for anything else. */
export function numberOf(value: unknown): number | undefined {
  const text = textOf(value)
  return text !== undefined && /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : undefined
}

/** A list of texts; labels write it with commas. */
export function textsOf(value: unknown): string[] {
  const items = Array.isArray(value) ? value : typeof value === 'string' ? value.split(',') : []
  return items.flatMap((item) => textOf(item)?.trim() ?? [])
}
