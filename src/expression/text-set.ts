/** Position of a part in a text: start, end, or anywhere. */
export type PartPlace = 'start' | 'end' | 'anywhere'

/** All texts that have a part at a place. */
interface TextPattern {
  readonly place: PartPlace
  readonly part: string
}

/** A set of texts: some of them by name, and all that follow one of the patterns. */
export interface TextSet {
  readonly exact: ReadonlySet<string>
  readonly patterns: readonly TextPattern[]
}

export function union(one: TextSet, other: TextSet): TextSet {
  return { exact: new Set([...one.exact, ...other.exact]), patterns: [...one.patterns, ...other.patterns] }
}

export function isEmpty({ exact, patterns }: TextSet): boolean {
  return exact.size === 0 && patterns.length === 0
}

/** True when every text is in the set. */
export function isEverything({ patterns }: TextSet): boolean {
  return patterns.some(({ part }) => part === '')
}

/** True when every text of `narrow` is one of `wide`. */
export function holdsAll(wide: TextSet, narrow: TextSet): boolean {
  for (const text of narrow.exact) if (!has(wide, text)) return false
  return narrow.patterns.every((pattern) => wide.patterns.some((wider) => isWider(wider, pattern)))
}

/** True when no text is in both. */
export function sharesNone(one: TextSet, other: TextSet): boolean {
  for (const text of one.exact) if (has(other, text)) return false
  for (const text of other.exact) if (has(one, text)) return false
  return one.patterns.every((pattern) => other.patterns.every((another) => areApart(pattern, another)))
}

function has({ exact, patterns }: TextSet, text: string): boolean {
  return exact.has(text) || patterns.some((pattern) => follows(text, pattern))
}

function follows(text: string, { place, part }: TextPattern): boolean {
  return place === 'start' ? text.startsWith(part) : place === 'end' ? text.endsWith(part) : text.includes(part)
}

/** A text that follows the narrow pattern holds its part at its place, and of what is outside nothing is known. */
function isWider(wide: TextPattern, narrow: TextPattern): boolean {
  return (wide.place === narrow.place || wide.place === 'anywhere' || wide.part === '') && follows(narrow.part, wide)
}

/** Two beginnings, or two ends, exclude each other unless one is part of the other; any other two patterns fit into one text. */
function areApart(one: TextPattern, other: TextPattern): boolean {
  if (one.place !== other.place || one.place === 'anywhere') return false
  return !follows(one.part, other) && !follows(other.part, one)
}
