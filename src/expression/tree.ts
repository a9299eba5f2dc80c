import type { Node } from './engine.js'

/** The value of a node that is known when it is compiled: a literal, its negation, or a list of such. */
export function literal(node: Node): { readonly value: unknown } | undefined {
  if (node.op === 'value') return { value: node.args }
  if (node.op === 'list') {
    const items = (node.args as readonly Node[]).map(literal)
    return items.every((item) => item !== undefined) ? { value: items.map((item) => item?.value) } : undefined
  }
  if (node.op === '-_') {
    const operand = node.args as Node
    const value = operand.op === 'value' ? operand.args : undefined
    return typeof value === 'bigint' || typeof value === 'number' ? { value: -value } : undefined
  }
  return undefined
}

/** How many nodes a tree has: what one run of it costs at most, without what its comprehensions and functions add. */
export function weightOf(node: Node): number {
  let weight = 1
  forEachChild(node, (child) => {
    weight += weightOf(child)
  })
  return weight
}

/** Calls `visit` for every node below `node`. */
export function forEachChild(node: Node, visit: (child: Node) => void): void {
  for (const part of [node.args].flat(4)) {
    if (typeof part === 'object' && part !== null && 'op' in part && 'setMeta' in part) visit(part as Node)
  }
}
