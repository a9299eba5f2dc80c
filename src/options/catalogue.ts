import type { OptionSchema } from './fields.js'
import { optionsSchema } from './options.js'

/** One option with its place. */
export interface OptionEntry {
  /** `limits.headers` */
  readonly path: string
  readonly steps: readonly string[]
  /** `SLUICE_LIMITS_HEADERS` */
  readonly variable: string
  readonly schema: OptionSchema
}

/** A level of the options file: what stands under each key. */
export type OptionTree = ReadonlyMap<string, OptionEntry | OptionTree>

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>
}

/** The options as a tree, in the order of the schema. */
export function optionTree(): OptionTree {
  return treeOf(optionsSchema as unknown as SchemaNode, [])
}

/** All options in the order of the schema. */
export function optionEntries(tree: OptionTree = optionTree()): OptionEntry[] {
  return [...tree.values()].flatMap((node) => (isOption(node) ? [node] : optionEntries(node)))
}

export function isOption(node: OptionEntry | OptionTree): node is OptionEntry {
  return 'schema' in node
}

function treeOf(schema: SchemaNode, steps: readonly string[]): OptionTree {
  const tree = new Map<string, OptionEntry | OptionTree>()
  for (const [name, child] of Object.entries(schema.properties ?? {})) {
    const inner = [...steps, name]
    tree.set(name, child.properties === undefined ? entryOf(child, inner) : treeOf(child, inner))
  }
  return tree
}

function entryOf(schema: SchemaNode, steps: readonly string[]): OptionEntry {
  return {
    path: steps.join('.'),
    steps,
    variable: `SLUICE_${steps.join('_').toUpperCase()}`,
    schema: schema as unknown as OptionSchema
  }
}
