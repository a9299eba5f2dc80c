import { forEachChild, literal, type Node, type StaticType } from './cel-parser.js'
import type { Absence, MaybeAbsent, OpenComparison } from './expression.js'
import { BINARY } from './operators.js'
import { spanOf, textOfNode } from './source-span.js'
import type { State } from './state.js'
import type { VariableDefinition } from './variables/definition.js'

/** Functions that read one entry of a map variable, with the variable's path. */
const READERS: Readonly<Record<string, string>> = {
  getReqHeader: 'req.headers',
  getResHeader: 'res.headers',
  getQueryParam: 'req.url.query_params',
  getReqCookie: 'req.cookies',
  getResCookie: 'res.cookies'
}
/** Comparisons of numbers do not read the state. */
const NO_STATE = undefined as unknown as State
/** Operators that compare by order. */
const ORDERS = ['<', '<=', '>', '>=']

/** Finds the comparisons of a resolved and checked tree whose meaning changes when a value is absent. */
export function absenceIn(root: Node, source: string): Absence {
  const finder = new AbsenceFinder(source)
  finder.condition(root, false, root)
  return { asked: finder.asked, open: finder.open, values: finder.values(root) }
}

/**
 * Returns whether the expression checks the value's presence. A check of a variable covers the paths below and above it; a check of data
 * does not.
 */
export function isAskedFor({ key }: MaybeAbsent, asked: ReadonlySet<string>): boolean {
  if (asked.has(key)) return true
  const list = key.startsWith('size:') ? key.slice('size:'.length) : undefined
  for (const other of asked) {
    if (list !== undefined && other.startsWith(`${list}[`)) return true
    if (isVariable(key) && isVariable(other) && (isBelow(key, other) || isBelow(other, key))) return true
  }
  return false
}

function isVariable(key: string): boolean {
  return !/[[:]/.test(key)
}

function isBelow(key: string, above: string): boolean {
  return key.startsWith(`${above}.`)
}

class AbsenceFinder {
  readonly asked = new Set<string>()
  readonly #open = new Map<string, OpenComparison>()
  readonly #source: string

  constructor(source: string) {
    this.#source = source
  }

  get open(): readonly OpenComparison[] {
    return [...this.#open.values()]
  }

  values(root: Node): readonly MaybeAbsent[] {
    const reader = readerOf(root)
    if (reader === undefined) return this.#absences(root)
    // An empty list, which is a value.
    return [this.#absent(root, `!${reader.name.replace('get', 'has')}(${this.#text(reader.argument)})`)]
  }

  /** Examines a condition. `negated`: under an odd number of `!`. `whole`: the node including a preceding `!`. */
  condition(node: Node, negated: boolean, whole: Node): void {
    switch (node.op) {
      case '&&':
      case '||':
        for (const side of node.args as readonly Node[]) this.condition(side, negated, negated ? whole : side)
        return
      case '!_':
        this.condition(node.args as Node, !negated, whole)
        return
      case '?:': {
        const [test, yes, no] = node.args as [Node, Node, Node]
        this.#ask(test)
        this.condition(yes, negated, negated ? whole : yes)
        this.condition(no, negated, negated ? whole : no)
        return
      }
      case '==':
      case '!=':
        this.#equality(node, negated, whole)
        return
      default:
        this.#ask(node)
        if (ORDERS.includes(node.op) ? this.#isOpenOrder(node, negated) : negated) this.#report(whole, node)
    }
  }

  #equality(node: Node, negated: boolean, whole: Node): void {
    const [left, right] = node.args as [Node, Node]
    const wanted = (node.op === '==') !== negated
    for (const [side, other] of [
      [left, right],
      [right, left]
    ] as const) {
      const value = literal(other)?.value
      if (typeof value === 'boolean') {
        this.condition(side, value ? !wanted : wanted, whole)
        return
      }
    }
    this.#ask(node)
    const size = this.#isOpenSize(node, negated)
    if (size ?? (!wanted || isNothing(left) || isNothing(right))) this.#report(whole, node)
  }

  /** Missing values count as size 0; other ordered comparisons have no absent case. */
  #isOpenOrder(node: Node, negated: boolean): boolean {
    return this.#isOpenSize(node, negated) ?? true
  }

  /** Returns whether the comparison of a size with a number is true for size 0; undefined for other nodes. */
  #isOpenSize(node: Node, negated: boolean): boolean | undefined {
    const sides = node.args as readonly Node[]
    const [left, right] = sides.map((side) => (sized(side) === undefined ? literal(side)?.value : 0n))
    if (typeof left !== 'bigint' || typeof right !== 'bigint' || !sides.some(sized)) return undefined
    return (BINARY[node.op]?.(left, right, NO_STATE) === true) !== negated
  }

  #report(whole: Node, node: Node): void {
    const span = spanOf(whole, this.#source)
    const at = `${span.start} ${span.end}`
    const values = [...(this.#open.get(at)?.values ?? []), ...this.#absences(node)]
    if (values.length === 0) return
    const distinct = values.filter(({ key }, i) => values.findIndex((one) => one.key === key) === i)
    this.#open.set(at, { source: this.#text(whole), ...span, values: distinct })
  }

  /** Returns the values below a node that may be absent, each chain from its start. */
  #absences(node: Node): MaybeAbsent[] {
    switch (node.op) {
      case 'variable': {
        const { optional } = node.args as VariableDefinition
        return optional === true ? [this.#absent(node, `!has(${this.#text(node)})`)] : []
      }
      case 'has':
      case 'id':
        return []
      case '.':
      case '[]':
        return this.#absencesOfMember(node)
      case 'in': {
        const [key, map] = node.args as [Node, Node]
        return [...this.#absences(key), ...this.#absences(map)]
      }
      case 'call': {
        const [name, [first]] = node.args as [string, readonly Node[]]
        if (/^getRe[qs]Cookie$/.test(name) && first !== undefined) {
          return [this.#absent(node, `!${name.replace('get', 'has')}(${this.#text(first)})`)]
        }
      }
    }
    const below: MaybeAbsent[] = []
    forEachChild(node, (child) => below.push(...this.#absences(child)))
    return below
  }

  #absencesOfMember(node: Node): MaybeAbsent[] {
    const [left, right] = node.args as [Node, Node | string]
    const above = this.#absences(left)
    // Variables of a comprehension are judged with its list.
    if (rootOf(left).op === 'id') return above
    const type = left.checkedType
    if (typeof right !== 'string' && isIndex(right.checkedType, type)) {
      if (isEntryOfLists(left)) return above
      const reader = readerOf(left)
      if (reader !== undefined) {
        const missing = `!${reader.name.replace('get', 'has')}(${this.#text(reader.argument)})`
        return [...above, { key: this.#key(left), shown: this.#text(node), missing }]
      }
      const list = this.#text(left)
      const index = this.#text(right)
      const missing = index === '0' ? `size(${list}) == 0` : `size(${list}) <= ${index}`
      return [...above, { key: `size:${this.#key(left)}`, shown: this.#text(node), missing }]
    }
    const isHeaders = left.op === 'variable' && type?.kind === 'map' && typeof right !== 'string'
    const missing = isHeaders ? `!(${this.#text(right)} in ${this.#text(left)})` : `!has(${this.#text(node)})`
    return [...above, this.#absent(node, missing)]
  }

  #absent(node: Node, missing: string): MaybeAbsent {
    return { key: this.#key(node), shown: this.#text(node), missing }
  }

  /** Records everything below a node whose presence is checked. */
  #ask(node: Node): void {
    if (node.op === 'has') this.asked.add(this.#key(node.args as Node))
    if (node.op === 'in') {
      const [key, map] = node.args as [Node, Node]
      const name = literal(key)?.value
      if (typeof name === 'string') this.asked.add(this.#entry(map, name))
    }
    if (node.op === 'call') {
      const [name, [first]] = node.args as [string, readonly Node[]]
      const map = READERS[name.replace(/^has/, 'get')]
      const entry = first === undefined ? undefined : literal(first)?.value
      if (name.startsWith('has') && map !== undefined && typeof entry === 'string') this.asked.add(entryKey(map, entry))
    }
    const list = sized(node) ?? comparedWithNothing(node)
    if (list !== undefined) {
      this.asked.add(`size:${this.#key(list)}`)
      if (readerOf(list) !== undefined) this.asked.add(this.#key(list))
    }
    forEachChild(node, (child) => this.#ask(child))
  }

  #key(node: Node): string {
    if (node.op === 'variable') return (node.args as VariableDefinition).path
    if (node.op === '.' || node.op === '[]') {
      const [left, right] = node.args as [Node, Node | string]
      const name = typeof right === 'string' ? right : literal(right)?.value
      if (typeof name === 'string') return this.#entry(left, name)
      return `${this.#key(left)}[${typeof right === 'string' ? right : this.#text(right)}]`
    }
    const reader = readerOf(node)
    const entry = reader === undefined ? undefined : literal(reader.argument)?.value
    if (reader !== undefined && typeof entry === 'string') return entryKey(reader.map, entry)
    return this.#text(node)
  }

  #entry(map: Node, name: string): string {
    return entryKey(this.#key(map), name)
  }

  #text(node: Node): string {
    return textOfNode(node, this.#source)
  }
}

/** Names of header fields are case-insensitive. */
function entryKey(map: string, name: string): string {
  if (map === 'vars') return `vars.${name}`
  return `${map}[${JSON.stringify(/^re[qs]\.headers$/.test(map) ? name.toLowerCase() : name)}]`
}

function rootOf(node: Node): Node {
  return node.op === '.' || node.op === '[]' ? rootOf((node.args as [Node])[0]) : node
}

function isIndex(key: StaticType | undefined, container: StaticType | undefined): boolean {
  return container?.kind === 'list' || (container?.kind !== 'map' && key?.name === 'int')
}

/** Returns whether the node is an entry of a map of lists, such as headers: it has at least one value. */
function isEntryOfLists(node: Node): boolean {
  if (node.op !== '.' && node.op !== '[]') return false
  const [map] = node.args as [Node]
  return map.op === 'variable' && /^map<string, list</.test((map.args as VariableDefinition).type)
}

function readerOf(node: Node): { readonly name: string; readonly map: string; readonly argument: Node } | undefined {
  if (node.op !== 'call') return undefined
  const [name, [argument]] = node.args as [string, readonly Node[]]
  const map = READERS[name]
  return map === undefined || argument === undefined ? undefined : { name, map, argument }
}

/** Returns the operand of `size(x)` or `x.size()`. */
function sized(node: Node): Node | undefined {
  if (node.op === 'call') {
    const [name, args] = node.args as [string, readonly Node[]]
    return name === 'size' ? args[0] : undefined
  }
  if (node.op !== 'rcall') return undefined
  const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
  return name === 'size' && args.length === 0 ? receiver : undefined
}

/** Returns the list in `x == []` or `x != []`. */
function comparedWithNothing(node: Node): Node | undefined {
  if (node.op !== '==' && node.op !== '!=') return undefined
  const [left, right] = node.args as [Node, Node]
  const isEmpty = (side: Node) => side.op === 'list' && (side.args as readonly Node[]).length === 0
  return isEmpty(right) ? left : isEmpty(left) ? right : undefined
}

/** Literals written for "absent": null, an empty text, an empty list. */
function isNothing(node: Node): boolean {
  const known = literal(node)
  if (known === undefined) return false
  return known.value === null || known.value === '' || (Array.isArray(known.value) && known.value.length === 0)
}
