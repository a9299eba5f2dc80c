import type { ScalarNode } from './tree.js'

const SPACE = 0x20

/**
 * Reads a literal text (`|` or `|-`) that begins at `start` and belongs to a key or list at column `indent`. Its span ends with its last
 * line. Returns undefined for other block texts.
 */
export function readLiteral(text: string, start: number, indent: number): ScalarNode | undefined {
  const header = text.indexOf('\n', start)
  if (header === -1 || header >= text.length) return undefined
  const chomp = text.slice(start + 1, header)
  if (chomp !== '' && chomp !== '-') return undefined
  const lines: string[] = []
  let depth = 0
  let last = header + 1
  let blank = 0
  let at = header + 1
  while (at < text.length) {
    const next = text.indexOf('\n', at)
    const end = next === -1 || next > text.length ? text.length : next
    let content = at
    while (content < end && text.charCodeAt(content) === SPACE) content++
    if (content === end) {
      // Spaces beyond the text's indentation are content.
      if (lines.length === 0 || end - at > depth) return undefined
      blank++
    } else {
      const column = content - at
      if (lines.length === 0) {
        if (column <= indent) return undefined
        depth = column
      }
      if (column < depth) {
        if (column > indent) return undefined
        break
      }
      for (; blank > 0; blank--) lines.push('')
      const line = text.slice(at + depth, end)
      if (line.includes('\t') || line.includes('\r')) return undefined
      lines.push(line)
      // The last line of a text without a trailing newline.
      if (end === text.length) return undefined
      last = end + 1
    }
    at = end + 1
  }
  if (lines.length === 0) return undefined
  const value = lines.join('\n') + (chomp === '-' ? '' : '\n')
  return { kind: 'scalar', span: { start, end: last }, value, text: value, style: 'literal' }
}
