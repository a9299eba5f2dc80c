import type { TSchema } from 'typebox'
import { didYouMean } from '../lib/suggest.js'
import { formatDuration, parseDuration } from '../lib/units.js'
import { checkList, checkMap, checkScalar, describe, describeBranches } from './constraints.js'
import { formatPath, type NodePath } from './problems.js'
import type { ActionScope } from './scope.js'
import { isExact, type Schema, typeOfWords } from './shape.js'
import { dataOf, isNull, type ListNode, type MapNode, nameOf, type ScalarNode, setOwn, type TreeNode } from './tree.js'

/** A text that the schema says is a duration. */
interface DurationField {
  readonly text: string
  /** Inside the config. */
  readonly path: NodePath
  readonly schema: Schema
}

interface ReadConfig {
  /** What the schema describes, defaults filled in; meaningful when nothing was reported. */
  readonly data: unknown
  readonly durations: readonly DurationField[]
}

/** Where a reader reports. `onKey`: the key of the path is to blame, not its value. */
type ReportField = (path: NodePath, message: string, onKey: boolean) => void

/**
 * Reads the config of an action against its schema.
 *
 * Every problem is reported with what is allowed. Lenient in two things, because YAML types what people mean as text:
 * where the schema wants a text, a number or a truth value counts with its characters as written (`1.30`, `yes`) unless
 * the schema wants it exact, and a field without a value counts as absent.
 */
export function readConfig(schema: TSchema, node: MapNode, report: ReportField): ReadConfig {
  const reader = new ConfigReader(report)
  return { data: reader.read(schema as Schema, node, []), durations: reader.durations }
}

class ConfigReader {
  readonly durations: DurationField[] = []
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
      return dataOf(node)
    }
    if (node.kind === 'map') return this.#map(schema, node, path)
    return node.kind === 'list' ? this.#list(schema, node, path) : this.#scalar(schema, node, path)
  }

  /** The first branch whose kind of value this is; its problems are the union's. */
  #union(branches: readonly Schema[], node: TreeNode, path: NodePath): unknown {
    const exact = branches.find((branch) => fits(branch, node, true)) ?? branches.find((branch) => fits(branch, node))
    if (exact !== undefined) return this.read(exact, node, path)
    this.#wrong(path, `must be ${describeBranches(branches)}, not ${nameOf(node)}`)
    return undefined
  }

  #scalar(schema: Schema, node: ScalarNode, path: NodePath): unknown {
    const value = wantsText(schema) && node.value !== null ? node.text : node.value
    for (const message of checkScalar(schema, value, node.text)) this.#wrong(path, message)
    if (typeof value === 'string' && schema['x-sluice'] === 'duration') {
      this.durations.push({ text: value, path, schema })
    }
    return value
  }

  #list(schema: Schema, node: ListNode, path: NodePath): unknown {
    const { items } = schema
    const data = node.items.map((item, i) =>
      items === undefined ? dataOf(item) : this.read(items, item, [...path, i])
    )
    for (const message of checkList(schema, data)) this.#wrong(path, message)
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
    for (const message of checkMap(schema, data)) this.#wrong(path, message)
    return data
  }

  #unknownKey(schema: Schema, key: string, path: NodePath): void {
    const known = Object.keys(schema.properties ?? {})
    const message =
      known.length > 0
        ? `unknown field "${key}"; known are ${known.join(', ')}${didYouMean(key, known)}`
        : 'patternProperties' in schema
          ? `"${key}" is not allowed as a name here`
          : `unknown field "${key}"; this takes no fields`
    this.#report([...path, key], message, true)
  }

  #wrong(path: NodePath, message: string): void {
    this.#report(path, path.length === 0 ? `config ${message}` : `\`${formatPath(path)}\` ${message}`, false)
  }
}

/** Is this the kind of value that the schema describes? `exact`: without reading a number or truth value as text. */
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
  for (const [pattern, field] of Object.entries(schema.patternProperties ?? {})) {
    // The pattern of "any key" in TypeBox does not match line ends; any key is meant.
    if (pattern === '^.*$' || new RegExp(pattern, 'u').test(key)) return field
  }
  if (schema.additionalProperties === false) return undefined
  if (typeof schema.additionalProperties === 'object') return schema.additionalProperties
  return schema.patternProperties === undefined ? {} : undefined
}

function wantsText(schema: Schema): boolean {
  return schema.type === 'string' || schema.enum?.every((word) => typeof word === 'string') === true
}

function describeMissing(field: Schema | undefined): string {
  return field === undefined ? '' : `; it takes ${describe(field)}`
}

/** Texts that look like what was wanted: quotes, or words of another YAML. */
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

/** Reports durations that cannot be read or are out of their bounds. */
export function checkDurations(durations: readonly DurationField[], scope: ActionScope): void {
  for (const { text, path, schema } of durations) {
    const { 'x-min': min = 0, 'x-max': max = Number.POSITIVE_INFINITY, 'x-multiple': multiple = 1 } = schema
    const milliseconds = parseDuration(text)
    const name = `\`${formatPath(path)}\``
    if (milliseconds === undefined) {
      const hint = /^\d+$/.test(text) ? `; a unit is missing, such as ${text}s` : ''
      scope.field(path, `${name} must be a duration such as 90s or 1h30m, with the units h, m, s, ms${hint}`, false)
    } else if (milliseconds < min || milliseconds > max) {
      const bounds = Number.isFinite(max)
        ? `from ${formatDuration(min)} to ${formatDuration(max)}`
        : `at least ${formatDuration(min)}`
      scope.field(path, `${name} must be ${bounds}, not ${text}`, false)
    } else if (milliseconds % multiple !== 0) {
      scope.field(path, `${name} must be a multiple of ${formatDuration(multiple)}, not ${text}`, false)
    }
  }
}
