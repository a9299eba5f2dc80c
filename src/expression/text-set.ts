/** A set of texts: some of them by name, and all that begin with one of the prefixes. */
export interface TextSet {
  readonly exact: ReadonlySet<string>
  readonly prefixes: readonly string[]
}

export function union(one: TextSet, other: TextSet): TextSet {
  return { exact: new Set([...one.exact, ...other.exact]), prefixes: [...one.prefixes, ...other.prefixes] }
}

/** True when every text of `narrow` is one of `wide`. */
export function holdsAll(wide: TextSet, narrow: TextSet): boolean {
  for (const text of narrow.exact) if (!has(wide, text)) return false
  return narrow.prefixes.every((prefix) => wide.prefixes.some((wider) => prefix.startsWith(wider)))
}

/** True when no text is in both. */
export function sharesNone(one: TextSet, other: TextSet): boolean {
  for (const text of one.exact) if (has(other, text)) return false
  for (const text of other.exact) if (has(one, text)) return false
  return !one.prefixes.some((prefix) =>
    other.prefixes.some((another) => prefix.startsWith(another) || another.startsWith(prefix))
  )
}

function has({ exact, prefixes }: TextSet, text: string): boolean {
  return exact.has(text) || prefixes.some((prefix) => text.startsWith(prefix))
}
