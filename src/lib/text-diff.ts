import { structuredPatch } from 'diff'

/** Number of context lines around a change. */
const CONTEXT = 3
/** Maximum number of changed lines for a minimal difference, whose time grows with their square. */
const MOST_EDITS = 500

/**
 * Returns a unified diff (POSIX `diff -u`) without its two file name lines: lines that begin with `@@`, a space, `-` or `+`. Very different
 * texts are shown as a whole, one after the other. Empty for equal texts.
 */
export function unifiedDiff(before: string, after: string): string {
  if (before === after) return ''
  const options = { context: CONTEXT, maxEditLength: MOST_EDITS }
  const patch = structuredPatch('', '', before, after, undefined, undefined, options)
  if (patch === undefined) return wholly(before, after)
  return patch.hunks
    .map(({ oldStart, oldLines, newStart, newLines, lines }) => {
      return [`@@ -${range(oldStart, oldLines)} +${range(newStart, newLines)} @@`, ...lines].join('\n')
    })
    .join('\n')
}

function range(start: number, lines: number): string {
  return lines === 1 ? String(start) : `${lines === 0 ? start - 1 : start},${lines}`
}

function wholly(before: string, after: string): string {
  const linesOf = (text: string) => (text === '' ? [] : text.replace(/\n$/, '').split('\n'))
  const [old, now] = [linesOf(before), linesOf(after)]
  const heading = `@@ -${range(1, old.length)} +${range(1, now.length)} @@`
  return [heading, ...old.map((line) => `-${line}`), ...now.map((line) => `+${line}`)].join('\n')
}
