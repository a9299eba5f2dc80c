/**
 * One string for a tuple of strings, so that different tuples never give the same string.
 *
 * Every part is preceded by its length in UTF-16 units and a colon: `['a', 'bc']` is `1:a2:bc`, `['ab', 'c']` is
 * `2:ab1:c`. A reader can cut the text back into its parts in one way only.
 */
export function encodeKey(parts: readonly string[]): string {
  let text = ''
  for (const part of parts) text += `${part.length}:${part}`
  return text
}
