import { shorten } from '../lib/printable.js'
import { forEachChild, literal, type Node } from './cel-parser.js'
import { boundBy, isBind } from './compile-macros.js'
import type { MisreadLiteral } from './expression.js'
import { textOfNode } from './source-span.js'
import {
  type Comparison,
  FUNCTION_TEXTS,
  HEADER_VALUE,
  isPossible,
  LOWER_FIELD_NAME,
  type NumberValues,
  SIZE,
  type TextValues,
  TIMESTAMP_NUMBERS,
  VARIABLE_NUMBERS,
  VARIABLE_TEXTS
} from './value-sets.js'
import type { VariableDefinition } from './variables/definition.js'

/** Possible values of a comprehension variable: a known set, or literals of the source. */
interface Bound {
  readonly texts?: TextValues | undefined
  readonly literals?: readonly Node[]
}

type Scope = ReadonlyMap<string, Bound>

const NOTHING: Scope = new Map()
const TIMESTAMP = 'google.protobuf.Timestamp'
/** Longest part of the source that a message repeats. */
const SHOWN = 120

/** Methods that compare a text with a part of it, and how a message says that they never do. */
const PARTS: ReadonlyMap<string, readonly [Comparison, string]> = new Map([
  ['startsWith', ['start', 'never begins with']],
  ['endsWith', ['end', 'never ends with']],
  ['contains', ['part', 'never contains']],
  ['matches', ['pattern', 'never matches']]
])
/** Functions whose argument is a key of a map, by the variable that the map is. */
const KEYS: Readonly<Record<string, string>> = {
  getReqHeader: 'req.headers',
  hasReqHeader: 'req.headers',
  getResHeader: 'res.headers',
  hasResHeader: 'res.headers',
  getReqCookie: 'req.cookies',
  hasReqCookie: 'req.cookies',
  getResCookie: 'res.cookies',
  hasResCookie: 'res.cookies'
}
const HEADER_LISTS = new Set(['getReqHeader', 'getResHeader'])
const HEADER_MAPS = new Set(['req.headers', 'res.headers', 'req.trailers', 'res.trailers'])
const MIRRORED: Readonly<Record<string, string>> = { '<': '>', '<=': '>=', '>': '<', '>=': '<=' }

/**
 * Finds literals of a resolved and checked tree that what they are compared with is in no exchange, such as `req.method == 'get'`: texts
 * and numbers beside `==`, `!=`, `in`, an order, `startsWith`, `endsWith`, `contains` or `matches`, and keys of maps. A wrong spelling
 * beside the right one does no harm and is left out.
 */
export function misreadLiterals(root: Node, source: string): readonly MisreadLiteral[] {
  const finder = new LiteralFinder(source)
  finder.visit(root, NOTHING)
  return finder.found
}

interface Finding extends MisreadLiteral {
  /** The same for two literals that are compared with the same value in the same way. */
  readonly beside: string
  readonly right: string | undefined
}

class LiteralFinder {
  readonly #source: string
  readonly #found: Finding[] = []
  /** Literals that are possible, by what they are compared with. */
  readonly #possible = new Set<string>()

  constructor(source: string) {
    this.#source = source
  }

  get found(): readonly MisreadLiteral[] {
    return this.#found.filter(({ beside, right }) => right === undefined || !this.#possible.has(`${beside}${right}`))
  }

  visit(node: Node, scope: Scope): void {
    switch (node.op) {
      case '==':
      case '!=':
      case '<':
      case '<=':
      case '>':
      case '>=': {
        const [left, right] = node.args as [Node, Node]
        this.#compare(left, node.op, right, scope)
        this.#compare(right, MIRRORED[node.op] ?? node.op, left, scope)
        break
      }
      case 'in':
        this.#membership(node.args as [Node, Node], scope)
        break
      case '[]':
        this.#index(node.args as [Node, Node | string], scope)
        break
      case 'call':
        this.#call(node, scope)
        break
      case 'rcall':
        if (boundBy(node) > 0) {
          this.#macro(node, scope)
          return
        }
        this.#method(node, scope)
    }
    forEachChild(node, (child) => this.visit(child, scope))
  }

  #compare(node: Node, operator: string, other: Node, scope: Scope): void {
    if (operator === '==' || operator === '!=') {
      this.#texts(this.#textsOf(node, scope), { node, says: 'is never', as: 'whole' }, this.#literals(other, scope))
    }
    const numbers = this.#numbersOf(node)
    const value = numberOf(other)
    if (numbers !== undefined && value !== undefined) this.#number(numbers, node, operator, value, other)
  }

  #membership([left, right]: [Node, Node], scope: Scope): void {
    const keys = mapKeys(right)
    const elements = right.op === 'list' ? (right.args as readonly Node[]) : keys
    if (elements !== undefined) {
      this.#texts(this.#textsOf(left, scope), { node: left, says: 'is never', as: 'whole' }, elements)
      const numbers = this.#numbersOf(left)
      for (const element of elements) {
        const value = numberOf(element)
        if (numbers !== undefined && value !== undefined) this.#number(numbers, left, '==', value, element)
      }
      return
    }
    const known = this.#keysOf(right) ?? this.#elementsOf(right, scope).texts
    this.#texts(known, { node: right, says: 'never has', as: 'whole' }, this.#literals(left, scope))
  }

  #index([container, key]: [Node, Node | string], scope: Scope): void {
    if (typeof key === 'string') return
    this.#texts(this.#textsOf(key, scope), { node: key, says: 'is never', as: 'whole' }, mapKeys(container) ?? [])
    const keys = this.#keysOf(container)
    this.#texts(keys, { node: container, says: 'never has', as: 'whole' }, this.#literals(key, scope))
  }

  #call(node: Node, scope: Scope): void {
    const [name, args] = node.args as [string, readonly Node[]]
    const [first, second] = args
    const map = Object.hasOwn(KEYS, name) ? KEYS[name] : undefined
    if (map !== undefined && first !== undefined) {
      this.#texts(VARIABLE_TEXTS[`${map}{}`], { of: map, says: 'never has', as: 'whole' }, this.#literals(first, scope))
    }
    if (name === 'matches' && first !== undefined && second !== undefined) {
      const compared = { node: first, says: 'never matches', as: 'pattern' } as const
      this.#texts(this.#textsOf(first, scope), compared, this.#literals(second, scope))
    }
  }

  #method(node: Node, scope: Scope): void {
    const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
    const [part] = args
    const [as, says] = PARTS.get(name) ?? []
    if (as === undefined || says === undefined || part === undefined || args.length !== 1) return
    this.#texts(this.#textsOf(receiver, scope), { node: receiver, says, as }, this.#literals(part, scope))
  }

  #macro(node: Node, scope: Scope): void {
    const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
    const inner = new Map(scope)
    if (isBind(name, receiver, args)) {
      const [variable, value, body] = args as [Node, Node, Node]
      this.visit(value, scope)
      const literals = this.#literals(value, scope)
      inner.set(String(variable.args), { texts: this.#textsOf(value, scope), literals })
      this.visit(body, inner)
      return
    }
    this.visit(receiver, scope)
    const count = boundBy(node)
    const elements = this.#elementsOf(receiver, scope)
    const isMap = receiver.op === 'map' || receiver.checkedType?.kind === 'map'
    for (const [i, variable] of args.slice(0, count).entries()) {
      // Of a map the first is the key, of a list with two the second is the element.
      inner.set(String(variable.args), count === 1 || isMap === (i === 0) ? elements : {})
    }
    for (const body of args.slice(count)) this.visit(body, inner)
  }

  /** The set of a value, where it is known. */
  #textsOf(node: Node, scope: Scope): TextValues | undefined {
    switch (node.op) {
      case 'variable':
        return VARIABLE_TEXTS[(node.args as VariableDefinition).path]
      case 'id':
        return scope.get(String(node.args))?.texts
      case '[]':
        return this.#elementsOf((node.args as [Node])[0], scope, 'values').texts
      case 'call': {
        const [name, args] = node.args as [string, readonly Node[]]
        return args.length === 1 ? ownOf(FUNCTION_TEXTS, name) : undefined
      }
      case 'rcall': {
        const [name, , args] = node.args as [string, Node, readonly Node[]]
        return args.length === 0 ? ownOf(FUNCTION_TEXTS, name) : undefined
      }
    }
    return undefined
  }

  /** Values that a comprehension iterates: elements of a list, keys of a map. `values`: results of an index, which are not keys. */
  #elementsOf(node: Node, scope: Scope, what: 'values' | 'walked' = 'walked'): Bound {
    if (isHeaderList(node)) return { texts: HEADER_VALUE }
    if (node.op === 'list') return { literals: (node.args as readonly Node[]).filter(isText) }
    if (node.op === 'id') return { literals: scope.get(String(node.args))?.literals ?? [] }
    const keys = what === 'walked' ? mapKeys(node) : undefined
    if (keys !== undefined) return { literals: keys.filter(isText) }
    if (node.op !== 'variable') return {}
    const { path } = node.args as VariableDefinition
    if (what === 'walked' && HEADER_MAPS.has(path)) return { texts: LOWER_FIELD_NAME }
    return { texts: VARIABLE_TEXTS[`${path}[]`] ?? (what === 'walked' ? VARIABLE_TEXTS[`${path}{}`] : undefined) }
  }

  #keysOf(node: Node): TextValues | undefined {
    return node.op === 'variable' ? VARIABLE_TEXTS[`${(node.args as VariableDefinition).path}{}`] : undefined
  }

  #literals(node: Node, scope: Scope): readonly Node[] {
    if (isText(node)) return [node]
    if (node.op === 'list') return (node.args as readonly Node[]).filter(isText)
    return (node.op === 'id' ? scope.get(String(node.args))?.literals : undefined) ?? []
  }

  #texts(
    values: TextValues | undefined,
    compared: {
      readonly says: string
      readonly as: Comparison
    } & ({ readonly node: Node } | { readonly of: string }),
    literals: readonly Node[]
  ): void {
    if (values === undefined) return
    const subject = 'of' in compared ? compared.of : textOfNode(compared.node, this.#source)
    const { as, says } = compared
    const beside = `${as} ${subject} `
    for (const node of literals.filter(isText)) {
      const text = node.args as string
      const never = !isPossible(values, as, text)
      if (!never && isPossible(values, as, text, true)) {
        this.#possible.add(`${beside}${text}`)
        continue
      }
      const right = this.#spelling(values, as, text)
      const advice = right === undefined ? '' : `; write ${quoted(right)}`
      const where = never ? '' : ' where path_form is strict, as by default'
      const message = `${short(subject)} ${says} ${this.#shown(node)}${where}: ${values.form}${advice}`
      this.#found.push({ ...spanOf(node), text, message, isCertain: never, beside, right })
    }
  }

  /** Returns the suggested spelling, or undefined without a better one. */
  #spelling(values: TextValues, as: Comparison, text: string): string | undefined {
    if (as === 'pattern' || text === '') return undefined
    const meant = values.spell?.(text)
    const lower = text.toLowerCase()
    // Of an end or a middle nothing is known but its case.
    const candidates = as === 'whole' || as === 'start' ? [meant] : []
    if (as !== 'whole') candidates.push(lower, text.toUpperCase())
    return candidates.find(
      (one) => one !== undefined && one !== text && one !== '' && isPossible(values, as, one, true)
    )
  }

  #numbersOf(node: Node): NumberValues | undefined {
    if (node.op === 'variable') return VARIABLE_NUMBERS[(node.args as VariableDefinition).path]
    if (node.op === 'call') {
      const [name, args] = node.args as [string, readonly Node[]]
      if (name === 'size') return SIZE
      if (name === 'rand__double') return { min: 0, max: 1, form: 'it is at least 0 and less than 1' }
      const [min, max] = args.map(numberOf)
      if (name !== 'rand__int' || min === undefined || max === undefined) return undefined
      return { min, max, form: `it is a number from ${min} to ${max}` }
    }
    if (node.op !== 'rcall') return undefined
    const [name, receiver] = node.args as [string, Node]
    if (name === 'size') return SIZE
    return receiver.checkedType?.name === TIMESTAMP ? ownOf(TIMESTAMP_NUMBERS, name) : undefined
  }

  #number(values: NumberValues, node: Node, operator: string, value: number, at: Node): void {
    const { min, max, form, spell } = values
    if (isMeant(operator, value, values)) return
    const subject = short(textOfNode(node, this.#source))
    const isOrder = operator in MIRRORED
    const right = isOrder ? undefined : spell?.(value)
    const advice = right === undefined || right < min || right > max ? '' : `; write ${right}`
    const holds = operator.startsWith('<') ? value > max : value < min
    const message = isOrder
      ? `${subject} ${operator} ${this.#shown(at)} is ${holds ? 'always' : 'never'} true: ${form}`
      : `${subject} is never ${this.#shown(at)}: ${form}${advice}`
    const text = String(value)
    this.#found.push({ ...spanOf(at), text, message, isCertain: true, beside: '', right: undefined })
  }

  #shown(node: Node): string {
    return short(this.#source.slice(node.start, node.end))
  }
}

/** True when the comparison tells values apart, or says with a bound beside them that there is no more. */
function isMeant(operator: string, value: number, { min, max }: NumberValues): boolean {
  switch (operator) {
    case '<':
      return value > min && value <= max + 1
    case '<=':
      return value >= min && value <= max
    case '>':
      return value >= min - 1 && value < max
    case '>=':
      return value >= min && value <= max
    default:
      return value >= min && value <= max
  }
}

/** Is it what a header field has been sent with? */
function isHeaderList(node: Node): boolean {
  if (node.op === 'call') return HEADER_LISTS.has((node.args as [string])[0])
  if (node.op !== '[]' && node.op !== '.') return false
  const [map] = node.args as [Node]
  return map.op === 'variable' && HEADER_MAPS.has((map.args as VariableDefinition).path)
}

function mapKeys(node: Node): readonly Node[] | undefined {
  return node.op === 'map' ? (node.args as readonly (readonly [Node, Node])[]).map(([key]) => key) : undefined
}

function isText(node: Node): boolean {
  return node.op === 'value' && typeof node.args === 'string'
}

function numberOf(node: Node): number | undefined {
  const value = literal(node)?.value
  return typeof value === 'bigint' || typeof value === 'number' ? Number(value) : undefined
}

function ownOf<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}

function spanOf({ start, end }: Node): { readonly start: number; readonly end: number } {
  return { start, end }
}

const short = (text: string): string => shorten(text, SHOWN)

function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}
