import type { StaticType } from './engine.js'
import { isNumber, typeOf } from './values.js'

/** A parameter type: `any` for `dyn` and type parameters. */
export interface TypeSpec {
  readonly name: string
  readonly item?: TypeSpec
  readonly key?: TypeSpec
}

/** A signature in parts. `parameters` begins with the receiver of a method. */
export interface Signature {
  readonly form: 'method' | 'function'
  /** With its namespace: `lists.range`. */
  readonly name: string
  readonly parameters: readonly TypeSpec[]
  readonly result: string
}

const SHAPE = /^(?:([\w.]+(?:<[^()]*>)?)\.)?(\w+)\(([^)]*)\):\s*(.+)$/
const TYPES =
  /^(?:string|bytes|bool|int|uint|double|dyn|list|map|timestamp|duration|google\.protobuf\.\w+|[A-Z])(?:<|$)/
const LONG_NAMES = { timestamp: 'google.protobuf.Timestamp', duration: 'google.protobuf.Duration' } as const

/** Parses `'string.charAt(int): string'`, `'lists.range(int): list<int>'`, `'size(list): int'`. Throws on anything else. */
export function parseSignature(text: string): Signature {
  const match = SHAPE.exec(text)
  if (match === null) throw new Error(`Not a signature: ${text}`)
  const [, before, name, list, result] = match as unknown as [string, string | undefined, string, string, string]
  const parameters = splitTypes(list).map(parseType)
  if (before === undefined) return { form: 'function', name, parameters, result }
  if (!TYPES.test(before)) return { form: 'function', name: `${before}.${name}`, parameters, result }
  return { form: 'method', name, parameters: [parseType(before), ...parameters], result }
}

/** The name under which a function of a namespace stands in the tree. */
export function flatName(name: string): string {
  return name.replaceAll('.', '__')
}

/** The signature in the engine's notation. */
export function engineSignature({ form, name, parameters, result }: Signature): string {
  const types = parameters.map(longName)
  // The engine's notation has no parameters on a map that is a receiver.
  const receiver = form === 'method' ? `${types.shift()?.replace(/^map<.*>$/, 'map')}.` : ''
  return `${receiver}${flatName(name)}(${types.join(', ')}): ${longName(parseType(result))}`
}

/** The signature for people. */
export function readableSignature({ form, name, parameters }: Signature): string {
  const types = parameters.map(shortName)
  const receiver = form === 'method' ? `${types.shift()}.` : ''
  return `${receiver}${name}(${types.join(', ')})`
}

/** True when `value` can be an argument of type `spec`. */
export function accepts(spec: TypeSpec, value: unknown): boolean {
  if (spec.name === 'any') return true
  const type = typeOf(value)
  if (type !== spec.name) return false
  if (type === 'list' && spec.item !== undefined && spec.item.name !== 'any') {
    for (const item of value as readonly unknown[]) if (!accepts(spec.item, item)) return false
  }
  if (type === 'map' && spec.item !== undefined && spec.item.name !== 'any') {
    for (const item of (value as ReadonlyMap<unknown, unknown>).values()) if (!accepts(spec.item, item)) return false
  }
  return true
}

/** Whether every value of the static type is accepted, none is, or it depends on the value. */
export function acceptsType(spec: TypeSpec, type: StaticType | undefined): 'yes' | 'no' | 'maybe' {
  if (spec.name === 'any') return 'yes'
  if (type === undefined || type.kind === 'dyn' || type.kind === 'param') return 'maybe'
  const name = specName(type)
  if (name !== spec.name) return 'no'
  if (spec.item === undefined || spec.item.name === 'any') return 'yes'
  return acceptsType(spec.item, type.valueType)
}

/** Name of a static type as people write it: `timestamp`, `list<string>`, `map<string, list<string>>`. */
export function typeLabel(type: StaticType): string {
  if (type.name === 'list<dyn>') return 'list'
  if (type.name === 'map<dyn, dyn>') return 'map'
  return type.name
    .replaceAll('google.protobuf.Timestamp', 'timestamp')
    .replaceAll('google.protobuf.Duration', 'duration')
    .replace(/\b[A-Z]\b/g, 'dyn')
}

/** True when a value of the static type is certainly a number. */
export function isNumericType(type: StaticType | undefined): boolean {
  return type !== undefined && isNumber(type.name)
}

function specName(type: StaticType): string {
  if (type.kind === 'list' || type.kind === 'map') return type.kind
  if (type.name === 'null') return 'null_type'
  return type.name.startsWith('google.protobuf.') ? type.name.slice('google.protobuf.'.length).toLowerCase() : type.name
}

function parseType(text: string): TypeSpec {
  const type = text.trim()
  if (type === 'dyn' || /^[A-Z]$/.test(type)) return { name: 'any' }
  const generic = /^(list|map)<(.*)>$/.exec(type)
  if (generic !== null) {
    const inner = splitTypes(generic[2] as string).map(parseType)
    const item = inner.at(-1) as TypeSpec
    return generic[1] === 'list' ? { name: 'list', item } : { name: 'map', key: inner[0] as TypeSpec, item }
  }
  if (type === 'null') return { name: 'null_type' }
  return { name: type.startsWith('google.protobuf.') ? type.slice('google.protobuf.'.length).toLowerCase() : type }
}

function splitTypes(list: string): string[] {
  const parts: string[] = []
  let depth = 0
  let from = 0
  for (let i = 0; i < list.length; i++) {
    if (list[i] === '<') depth++
    else if (list[i] === '>') depth--
    else if (list[i] === ',' && depth === 0) {
      parts.push(list.slice(from, i))
      from = i + 1
    }
  }
  if (list.slice(from).trim() !== '') parts.push(list.slice(from))
  return parts
}

function longName(spec: TypeSpec): string {
  if (spec.name === 'any') return 'dyn'
  if (spec.name === 'null_type') return 'null'
  if (spec.name === 'list') return spec.item === undefined ? 'list<dyn>' : `list<${longName(spec.item)}>`
  if (spec.name === 'map') {
    return spec.item === undefined ? 'map<dyn, dyn>' : `map<${longName(spec.key as TypeSpec)}, ${longName(spec.item)}>`
  }
  return LONG_NAMES[spec.name as keyof typeof LONG_NAMES] ?? spec.name
}

function shortName(spec: TypeSpec): string {
  return longName(spec)
    .replaceAll('list<dyn>', 'list')
    .replaceAll('map<dyn, dyn>', 'map')
    .replaceAll('google.protobuf.Timestamp', 'timestamp')
    .replaceAll('google.protobuf.Duration', 'duration')
}
