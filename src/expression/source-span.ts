import type { Node } from './cel-parser.js'

/** A string of the language; parentheses in it are text. */
const STRING = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/gs

/** Returns the span of a node including its parentheses, in UTF-16 units: the parser omits those at an end. */
export function spanOf({ start, end }: Node, source: string): { readonly start: number; readonly end: number } {
  const part = source.slice(start, end)
  if (!part.includes('(') && !part.includes(')')) return { start, end }
  const text = part.replace(STRING, (string) => '_'.repeat(string.length))
  let open = 0
  let missing = 0
  for (const character of text) {
    if (character === '(') open++
    else if (character === ')') open === 0 ? missing++ : open--
  }
  let from = start
  let to = end
  for (; missing > 0 && from > 0; from--) if (source[from - 1] === '(') missing--
  for (; open > 0 && to < source.length; to++) if (source[to] === ')') open--
  return { start: from, end: to }
}

/** The source of a node with the parentheses that belong to it. */
export function textOfNode(node: Node, source: string): string {
  const { start, end } = spanOf(node, source)
  return source.slice(start, end)
}
