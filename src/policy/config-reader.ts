import type { TSchema } from 'typebox'
import { didYouMean } from '../lib/suggest.js'
import { isExact, type Schema, typeOfWords } from '../schema/schema.js'
import { describe, describeBranches, listProblems, mapProblems, scalarProblems } from './phrases.js'
import { formatPath, type NodePath } from './problems.js'
import {
  dataOf,
  exactValue,
  isNull,
  type ListNode,
  type MapNode,
  nameOf,
  type ScalarNode,
  setOwn,
  type TreeNode
} from './tree.js'

/** Receives problems. With `onKey`, the problem is in the key of the path, not in its value. */
type ReportField = (path: NodePath, message: string, onKey: boolean) => void

/**
 * Reads the config of an action against its schema. Returns the value with defaults filled in, valid only if nothing was reported. Each
 * report says what is allowed. Lenient in two ways, because YAML gives types to unquoted text: where the schema wants text, numbers and
 * booleans are read as written (`1.30`, `yes`) unless the schema is exact, and a field without a value counts as absent.
 */
export function readConfig(schema: TSchema, node: MapNode, report: ReportField): unknown {
  return new ConfigReader(report).read(schema as Schema, node, [])
}

class ConfigReader {
  readonly #report: ReportField

  constructor(report: ReportField) {
    this.#report = report
  }

  read(schema: Schema, node: TreeNode, path: NodePath): unknown {
    if (node.kind === 'broken') return undefined
    const branches = schema.anyOf ?? schema.oneOf
    if (branches !== undefined) return this.#union(branches, node, path)
    if (!fits(schema, node)) {
      this.#wrong(path, `must be ${describe(schema)}, not ${nameOf(node)}${typeHint(schema, node)}`)
      return undefined
    }
    if (schema.type === undefined && schema.enum === undefined && schema.const === undefined) {
      return schema['x-kind'] === 'template' ? dataOf(node, exactValue) : dataOf(node)
    }
    if (node.kind === 'map') return this.#map(schema, node, path)
    return node.kind === 'list' ? this.#list(schema, node, path) : this.#scalar(schema, node, path)
  }

  /** Reads with the first branch of the value's kind; its problems are the union's. */
  #union(branches: readonly Schema[], node: TreeNode, path: NodePath): unknown {
    const exact = branches.find((branch) => fits(branch, node, true)) ?? branches.find((branch) => fits(branch, node))
    if (exact !== undefined) return this.read(exact, node, path)
    this.#wrong(path, `must be ${describeBranches(branches)}, not ${nameOf(node)}`)
    return undefined
  }

  #scalar(schema: Schema, node: ScalarNode, path: NodePath): unknown {
    const value = wantsText(schema) && node.value !== null ? node.text : node.value
    for (const message of scalarProblems(schema, value, node.text)) this.#wrong(path, message)
    return value
  }

  #list(schema: Schema, node: ListNode, path: NodePath): unknown {
    const { items } = schema
    const data = node.items.map((item, i) =>
      items === undefined ? dataOf(item) : this.read(items, item, [...path, i])
    )
    for (const message of listProblems(schema, data)) this.#wrong(path, message)
    return data
  }

  #map(schema: Schema, node: MapNode, path: NodePath): unknown {
    const properties = schema.properties ?? {}
    const data: Record<string, unknown> = {}
    for (const { key, value } of node.entries) {
      const field = childSchema(schema, key)
      if (field === undefined) this.#unknownKey(schema, key, path)
      else if (!(isNull(value) && properties[key] !== undefined && !fits(field, value))) {
        setOwn(data, key, this.read(field, value, [...path, key]))
      }
    }
    for (const [key, field] of Object.entries(properties)) {
      if (!Object.hasOwn(data, key) && field.default !== undefined) setOwn(data, key, structuredClone(field.default))
    }
    for (const key of schema.required ?? []) {
      if (Object.hasOwn(data, key)) continue
      const message = `\`${formatPath([...path, key])}\` is missing${describeMissing(properties[key])}`
      this.#report(node.entries.some((entry) => entry.key === key) ? [...path, key] : path, message, true)
    }
    for (const message of mapProblems(schema, data)) this.#wrong(path, message)
    return data
  }

  #unknownKey(schema: Schema, key: string, path: NodePath): void {
    const known = Object.keys(schema.properties ?? {})
    const message =
      known.length > 0
        ? `unknown field "${key}"; known are ${known.join(', ')}${didYouMean(key, known)}`
        : `unknown field "${key}"; this takes no fields`
    this.#report([...path, key], message, true)
  }

  #wrong(path: NodePath, message: string): void {
    this.#report(path, path.length === 0 ? `config ${message}` : `\`${formatPath(path)}\` ${message}`, false)
  }
}

/** Returns whether the node has the schema's kind. With `exact`, numbers and booleans do not count as text. */
function fits(schema: Schema, node: TreeNode, exact = false): boolean {
  const branches = schema.anyOf ?? schema.oneOf
  if (branches !== undefined) return branches.some((branch) => fits(branch, node, exact))
  const type = schema.type ?? typeOfWords(schema)
  if (type === undefined) return true
  if (type === 'object') return node.kind === 'map'
  if (type === 'array') return node.kind === 'list'
  if (node.kind !== 'scalar') return false
  const { value } = node
  if (type === 'null') return value === null
  if (type === 'string') return typeof value === 'string' || (!exact && !isExact(schema) && value !== null)
  if (type === 'integer') return typeof value === 'number' && Number.isInteger(value)
  return type === 'number' ? typeof value === 'number' && Number.isFinite(value) : typeof value === type
}

function childSchema(schema: Schema, key: string): Schema | undefined {
  if (Object.hasOwn(schema.properties ?? {}, key)) return schema.properties?.[key]
  const { additionalProperties: others = {} } = schema
  return typeof others === 'object' ? others : others ? {} : undefined
}

function wantsText(schema: Schema): boolean {
  return schema.type === 'string' || schema.enum?.every((word) => typeof word === 'string') === true
}

function describeMissing(field: Schema | undefined): string {
  return field === undefined ? '' : `; it takes ${describe(field)}`
}

/** Returns a hint for texts that resemble the wanted value: quoted values, or words of YAML 1.1. */
function typeHint(schema: Schema, node: TreeNode): string {
  if (node.kind === 'map' && schema.type === 'array') return '; begin each item with "- "'
  if (node.kind !== 'scalar') return ''
  if (schema.type === 'string' && node.value !== null) return '; put it in quotes'
  if (typeof node.value !== 'string') return ''
  if (schema.type === 'boolean') return `; write true or false without quotes`
  const number = schema.type === 'integer' || schema.type === 'number'
  return number && node.value.trim() !== '' && !Number.isNaN(Number(node.value))
    ? '; write the number without quotes'
    : ''
}
