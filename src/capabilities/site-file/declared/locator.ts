import type { Span } from '../../../lib/positions.js'
import type { NodePath } from '../../../policy/problems.js'
import type { TreeNode } from '../../../policy/tree.js'
import type { At } from './declared-part.js'

/** The place of a field of a request inside the node that the request was made from; the deepest that is written. */
export function locator(node: TreeNode, path: NodePath, span: Span, renamed: Readonly<Record<string, string>> = {}) {
  return (field: string): At => {
    let at: At = { path, span }
    let level: TreeNode | undefined = node
    let rest = field
    while (rest !== '' && level !== undefined) {
      const step = nextStep(level, rest, renamed)
      if (step === undefined) break
      at = { path: [...at.path, step.key], span: step.span }
      level = step.node
      rest = step.rest
    }
    return at
  }
}

interface Step {
  readonly key: string | number
  readonly span: Span
  readonly node: TreeNode
  readonly rest: string
}

function nextStep(level: TreeNode, field: string, renamed: Readonly<Record<string, string>>): Step | undefined {
  const index = /^\[(\d+)\]\.?/.exec(field)
  if (index !== null && level.kind === 'list') {
    const item = level.items[Number(index[1])]
    return item && { key: Number(index[1]), span: item.span, node: item, rest: field.slice(index[0].length) }
  }
  if (level.kind !== 'map') return undefined
  // Keys may contain dots, so the longest match wins.
  const fits = level.entries.filter(({ key }) => begins(field, key) || begins(field, requestNameOf(key, renamed)))
  const entry = fits.sort((a, b) => b.key.length - a.key.length)[0]
  if (entry === undefined) return undefined
  const length = begins(field, entry.key) ? entry.key.length : requestNameOf(entry.key, renamed).length
  const span = entry.value.kind === 'scalar' ? entry.value.span : entry.keySpan
  return { key: entry.key, span, node: entry.value, rest: field.slice(length).replace(/^\./, '') }
}

const requestNameOf = (key: string, renamed: Readonly<Record<string, string>>) => renamed[key] ?? key

function begins(field: string, key: string): boolean {
  return field === key || field.startsWith(`${key}.`) || field.startsWith(`${key}[`)
}
