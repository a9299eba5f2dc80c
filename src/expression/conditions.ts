import { forEachChild, literal, type Node } from './cel-parser.js'
import type { Condition, TextCondition } from './expression.js'
import type { FunctionTable } from './signatures.js'
import { spanOf, textOfNode } from './source-span.js'
import { holdsAll, isEmpty, isEverything, type PartPlace, sharesNone, type TextSet, union } from './text-set.js'
import type { VariableDefinition } from './variables/definition.js'

/** Variables that have one value for all rules of a phase, unless an action declares a change. */
const FIXED = /^(?:req\.(?:host|method|version|url)(?:\.|$)|conn\.(?!bytes_)|endpoint\.)/

/** Methods that search a part of a text, with the position of the search. */
const PLACES: ReadonlyMap<string, PartPlace> = new Map([
  ['startsWith', 'start'],
  ['endsWith', 'end'],
  ['contains', 'anywhere']
])

/** Truth of a condition for every request; `ifThere` and `untrue` are true and false for conditions that may also have no value. */
type Truth = 'true' | 'false' | 'ifThere' | 'untrue'

/** Maximum number of operands of one operator that are compared with each other. */
const MOST = 100

/** The negation of a condition without a value has no value, either. */
const OPPOSITES: Readonly<Record<Truth, Truth>> = { true: 'false', false: 'true', ifThere: 'untrue', untrue: 'ifThere' }

/** Effect on a rule, for which no value counts as false. */
const ALWAYS: Readonly<Record<Truth, Pick<Condition, 'always' | 'isTrueIfThere'>>> = {
  true: { always: true },
  ifThere: { isTrueIfThere: true },
  false: { always: false },
  untrue: { always: false }
}

/** Further data about the tree. */
export interface ConditionParts {
  readonly functions: FunctionTable
  /** Returns the value of a node that reads nothing, or undefined without one. */
  readonly constant: (node: Node) => unknown
}

/** Returns the operands of the `&&` chain of a resolved and checked tree: the expression is true if all of them are. */
export function conditionsIn(root: Node, source: string, parts: ConditionParts): readonly Condition[] {
  const finder = new ConditionFinder(source, parts)
  return operandsOf(root, '&&').map((node) => finder.condition(node))
}

function operandsOf(node: Node, operator: string): readonly Node[] {
  if (node.op !== operator) return [node]
  return (node.args as readonly Node[]).flatMap((side) => operandsOf(side, operator))
}

class ConditionFinder {
  readonly #source: string
  readonly #parts: ConditionParts

  constructor(source: string, parts: ConditionParts) {
    this.#source = source
    this.#parts = parts
  }

  condition(node: Node): Condition {
    const { start, end } = spanOf(node, this.#source)
    const text = this.#texts(node)
    const variables = variablesIn(node)
    const isSteady = [...variables].every((name) => FIXED.test(name)) && this.#givesTheSame(node, false)
    const truth = this.#truth(node)
    return {
      source: this.#source.slice(start, end),
      start,
      end,
      variables,
      isSteady,
      ...(truth === undefined ? {} : ALWAYS[truth]),
      ...(text === undefined ? { anyOf: this.#textsOf(operandsOf(node, '||')) } : { text })
    }
  }

  /** Returns the truth of a node for every request; undefined if it varies. */
  #truth(node: Node): Truth | undefined {
    switch (node.op) {
      case '&&':
        return this.#truthOfAll(operandsOf(node, '&&'))
      case '||':
        return this.#truthOfAny(operandsOf(node, '||'))
      case '!_': {
        const truth = this.#truth(node.args as Node)
        return truth === undefined ? undefined : OPPOSITES[truth]
      }
    }
    const text = this.#texts(node)
    if (text !== undefined && takesNone(text)) return text.isAlwaysThere ? 'false' : 'untrue'
    if (text !== undefined && takesNone(inverse(text))) return text.isAlwaysThere ? 'true' : 'ifThere'
    if (variablesIn(node).size > 0 || !this.#givesTheSame(node, false)) return undefined
    const value = this.#parts.constant(node)
    return value === true ? 'true' : value === false ? 'false' : undefined
  }

  #truthOfAll(operands: readonly Node[]): Truth | undefined {
    const truths = operands.map((operand) => this.#truth(operand))
    if (truths.includes('false')) return 'false'
    if (truths.includes('untrue')) return 'untrue'
    if (truths.every((truth) => truth === 'true')) return 'true'
    if (truths.every((truth) => truth !== undefined)) return 'ifThere'
    const pair = pairAmong(this.#textsOf(operands), excludes)
    return pair === undefined ? undefined : pair.isAlwaysThere ? 'false' : 'untrue'
  }

  #truthOfAny(operands: readonly Node[]): Truth | undefined {
    const truths = operands.map((operand) => this.#truth(operand))
    if (truths.includes('true')) return 'true'
    if (truths.includes('ifThere')) return 'ifThere'
    if (truths.every((truth) => truth === 'false')) return 'false'
    if (truths.every((truth) => truth === 'false' || truth === 'untrue')) return 'untrue'
    const pair = pairAmong(this.#textsOf(operands), (one, other) => excludes(inverse(one), inverse(other)))
    return pair === undefined ? undefined : pair.isAlwaysThere ? 'true' : 'ifThere'
  }

  #textsOf(operands: readonly Node[]): readonly TextCondition[] {
    return operands.flatMap((operand) => this.#texts(operand) ?? []).slice(0, MOST)
  }

  /** Returns the texts that the condition requires or excludes. */
  #texts(node: Node): TextCondition | undefined {
    switch (node.op) {
      case '==':
      case '!=':
      case 'in':
      case 'rcall':
        return this.#comparison(node)
      case '!_': {
        const inner = this.#texts(node.args as Node)
        return inner === undefined ? undefined : { ...inner, among: inner.among === 'some' ? 'none' : 'some' }
      }
      case '||':
      case '&&': {
        const [left, right] = (node.args as readonly Node[]).map((side) => this.#texts(side))
        const among = node.op === '||' ? 'some' : 'none'
        if (left?.among !== among || right?.among !== among || left.of !== right.of) return undefined
        return { ...left, set: union(left.set, right.set) }
      }
    }
    return undefined
  }

  #comparison(node: Node): TextCondition | undefined {
    if (node.op === 'rcall') {
      const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
      const part = args.length === 1 ? literal(args[0] as Node)?.value : undefined
      const place = PLACES.get(name)
      if (place === undefined || typeof part !== 'string') return undefined
      return this.#of(receiver, 'some', { exact: new Set(), patterns: [{ place, part }] })
    }
    const [left, right] = node.args as [Node, Node]
    const value = literal(right)?.value
    if (node.op === 'in') {
      if (!Array.isArray(value) || !value.every((item) => typeof item === 'string')) return undefined
      return this.#of(left, 'some', { exact: new Set(value as string[]), patterns: [] })
    }
    const among = node.op === '==' ? 'some' : 'none'
    if (typeof value === 'string') return this.#of(left, among, { exact: new Set([value]), patterns: [] })
    const other = literal(left)?.value
    return typeof other === 'string' ? this.#of(right, among, { exact: new Set([other]), patterns: [] }) : undefined
  }

  #of(node: Node, among: TextCondition['among'], set: TextSet): TextCondition | undefined {
    if (literal(node) !== undefined || !this.#givesTheSame(node, true)) return undefined
    const isText = node.op === 'variable' && (node.args as VariableDefinition).type === 'string'
    const isAlwaysThere = isText && (node.args as VariableDefinition).optional !== true
    return { of: textOfNode(node, this.#source), among, set, isAlwaysThere }
  }

  /** Returns whether repeated evaluations yield the same value. `flow`: whether its functions may read the exchange. */
  #givesTheSame(node: Node, flow: boolean): boolean {
    if (node.op === 'call' || node.op === 'rcall') {
      const [name] = node.args as [string]
      const overloads = this.#parts.functions.named(node.op === 'call' ? 'function' : 'method', name)
      if (overloads.some(({ varies, readsFlow }) => varies || (readsFlow && !flow))) return false
    }
    let same = true
    forEachChild(node, (child) => {
      same &&= this.#givesTheSame(child, flow)
    })
    return same
  }
}

/** Returns the first pair for which `so` is true. */
function pairAmong(
  texts: readonly TextCondition[],
  so: (one: TextCondition, other: TextCondition) => boolean
): TextCondition | undefined {
  return texts.find((one, i) => texts.slice(i + 1).some((other) => so(one, other)))
}

/** Returns whether no text satisfies the condition. */
function takesNone({ among, set }: TextCondition): boolean {
  return among === 'some' ? isEmpty(set) : isEverything(set)
}

function inverse(one: TextCondition): TextCondition {
  return { ...one, among: one.among === 'some' ? 'none' : 'some' }
}

/** Returns whether no value satisfies both conditions. */
export function excludes(one: TextCondition, other: TextCondition): boolean {
  if (one.of !== other.of) return false
  if (one.among === 'some' && other.among === 'some') return sharesNone(one.set, other.set)
  if (one.among === 'some' && other.among === 'none') return holdsAll(other.set, one.set)
  return one.among === 'none' && other.among === 'some' && holdsAll(one.set, other.set)
}

/** Returns whether every value that satisfies `narrow` satisfies `wide`. */
export function implies(narrow: TextCondition, wide: TextCondition): boolean {
  if (narrow.of !== wide.of) return false
  if (wide.among === 'some') return narrow.among === 'some' && holdsAll(wide.set, narrow.set)
  return narrow.among === 'some' ? sharesNone(wide.set, narrow.set) : holdsAll(narrow.set, wide.set)
}

function variablesIn(node: Node): ReadonlySet<string> {
  const found = new Set<string>()
  const visit = (one: Node) => {
    if (one.op === 'variable') found.add((one.args as VariableDefinition).path)
    forEachChild(one, visit)
  }
  visit(node)
  return found
}
