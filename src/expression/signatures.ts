import type { Flow } from '../flow/flow.js'
import { appendTo } from '../lib/lists.js'
import type { CelEngine, StaticType } from './cel-parser.js'
import { isNumber, typeOf } from './values.js'

/** A parameter type: `any` for `dyn` and type parameters. */
interface TypeSpec {
  readonly name: string
  readonly item?: TypeSpec
  readonly key?: TypeSpec
}

/** A signature in parts. `parameters` begins with the receiver of a method. */
interface Signature {
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
function parseSignature(text: string): Signature {
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
function engineSignature({ form, name, parameters, result }: Signature): string {
  const types = parameters.map(longName)
  // The engine's notation has no parameters on a map that is a receiver.
  const receiver = form === 'method' ? `${types.shift()?.replace(/^map<.*>$/, 'map')}.` : ''
  return `${receiver}${flatName(name)}(${types.join(', ')}): ${longName(parseType(result))}`
}

/** The signature for people. */
function readableSignature({ form, name, parameters }: Signature): string {
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

/** One overload, ready to be chosen and run. */
export interface Overload {
  readonly signature: Signature
  readonly phases: 'http' | 'response' | undefined
  readonly readsFlow: boolean
  readonly varies: boolean
  readonly deep: boolean
  readonly work: FunctionDefinition['work']
  readonly prepare: FunctionDefinition['prepare']
  readonly refuses: FunctionDefinition['refuses']
  readonly prepareWith: FlowFunctionDefinition['prepareWith']
  // biome-ignore lint/suspicious/noExplicitAny: the signature is the type of the arguments
  readonly run: (...args: any[]) => unknown
}

/** All overloads by form, name and number of arguments (the receiver counts). */
export class FunctionTable {
  readonly #overloads = new Map<string, Overload[]>()
  readonly #byName = new Map<string, Overload[]>()
  readonly functionNames = new Set<string>()
  readonly methodNames = new Set<string>()
  /** First parts of namespaced names: `lists`, `hash`. */
  readonly namespaces = new Set<string>()

  constructor(definitions: Iterable<FunctionDefinition | FlowFunctionDefinition>) {
    for (const definition of definitions) {
      const signature = parseSignature(definition.signature)
      const { form, name, parameters } = signature
      const readsFlow = 'runWith' in definition
      const overload: Overload = {
        signature,
        phases: readsFlow ? definition.phases : undefined,
        readsFlow,
        varies: !readsFlow && definition.varies === true,
        deep: !readsFlow && definition.deep === true,
        work: readsFlow ? undefined : definition.work,
        prepare: readsFlow ? undefined : definition.prepare,
        refuses: readsFlow ? undefined : definition.refuses,
        prepareWith: readsFlow ? definition.prepareWith : undefined,
        run: readsFlow ? definition.runWith : definition.run
      }
      appendTo(this.#overloads, keyOf(form, flatName(name), parameters.length), overload)
      appendTo(this.#byName, `${form} ${flatName(name)}`, overload)
      ;(form === 'method' ? this.methodNames : this.functionNames).add(name)
      if (name.includes('.')) this.namespaces.add(name.slice(0, name.indexOf('.')))
    }
  }

  /** Overloads of a flat name that take `count` arguments, a method's receiver among them. */
  find(form: 'method' | 'function', name: string, count: number): readonly Overload[] {
    return this.#overloads.get(keyOf(form, name, count)) ?? []
  }

  /** All overloads of a flat name. */
  named(form: 'method' | 'function', name: string): readonly Overload[] {
    return this.#byName.get(`${form} ${name}`) ?? []
  }

  /** Returns the written forms of a name's overloads, for a message. */
  forms(form: 'method' | 'function', name: string): string {
    return [...new Set(this.named(form, name).map((one) => readableSignature(one.signature)))].join(', ')
  }

  /** Declares to the checker every overload that it does not know of itself. */
  declareTo(engine: CelEngine): void {
    const known = engine.known.map(({ name, receiverType, params }) =>
      parseSignature(`${receiverType === null ? '' : `${receiverType}.`}${name}(${params.join(', ')}): dyn`)
    )
    const declared: Signature[] = known.filter(({ parameters }) => !parameters.some(({ name }) => name === 'ast'))
    for (const overloads of this.#overloads.values()) {
      for (const { signature } of overloads) {
        const flat = { ...signature, name: flatName(signature.name) }
        if (declared.some((one) => overlaps(one, flat))) continue
        engine.declare(engineSignature(signature))
        declared.push(flat)
      }
    }
  }
}

function keyOf(form: string, name: string, count: number): string {
  return `${form} ${name} ${count}`
}

/** True when the checker would refuse the second signature beside the first. */
function overlaps(a: Signature, b: Signature): boolean {
  return (
    a.form === b.form &&
    a.name === b.name &&
    a.parameters.length === b.parameters.length &&
    a.parameters.every((one, i) => sameType(one, b.parameters[i] as TypeSpec))
  )
}

function sameType(a: TypeSpec, b: TypeSpec): boolean {
  return a.name === 'any' || b.name === 'any' || engineType(a) === engineType(b)
}

function engineType(spec: TypeSpec): string {
  return engineSignature({ form: 'function', name: 'f', parameters: [spec], result: 'dyn' })
}

/**
 * One overload of a function of the expression language.
 *
 * `signature` is in the notation of the expression engine: `'string.charAt(int): string'` for a receiver call,
 * `'lists.range(int): list<int>'` for a namespaced one. `run` gets the engine's values (bigint for int, number for
 * double, Map or plain object for map) and answers one; it throws `EvaluationError` and nothing else. What is merely
 * absent it had better answer as an `EvaluationError`, because throwing costs a hundred times as much.
 */
export interface FunctionDefinition {
  readonly signature: string
  // biome-ignore lint/suspicious/noExplicitAny: the signature is the type of the arguments; the engine has checked them
  readonly run: (...args: any[]) => unknown
  /** Gives another value for the same arguments each time. */
  readonly varies?: true
  /** Walks lists and maps to the bottom: all that they hold is taken from the budget. */
  readonly deep?: true
  /** Steps that a call takes beyond those for the size of its arguments; see `BUDGET`. */
  // biome-ignore lint/suspicious/noExplicitAny: the signature is the type of the arguments
  readonly work?: (...args: any[]) => number
  /** The function of the first of two arguments, where the second one is known when it is compiled. */
  // biome-ignore lint/suspicious/noExplicitAny: the signature is the type of the arguments
  readonly prepare?: (second: any) => (first: any) => unknown
  /**
   * Why a call has no use whatever its other arguments are; undefined where it has one. Gets the arguments that stand in the source, and
   * undefined for those that are known at run time only.
   */
  // biome-ignore lint/suspicious/noExplicitAny: the signature is the type of the arguments
  readonly refuses?: (...args: any[]) => string | undefined
}

/** An overload that reads the flow; otherwise as `FunctionDefinition`. */
export interface FlowFunctionDefinition {
  readonly signature: string
  /**
   * Phases in which the function is available.
   * @default every phase
   */
  readonly phases?: 'http' | 'response'
  // biome-ignore lint/suspicious/noExplicitAny: the signature is the type of the arguments; the engine has checked them
  readonly runWith: (flow: Flow, ...args: any[]) => unknown
  /** The same where its one argument is known when it is compiled. */
  // biome-ignore lint/suspicious/noExplicitAny: the signature is the type of the arguments
  readonly prepareWith?: (argument: any) => (flow: Flow) => unknown
}
