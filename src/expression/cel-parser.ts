import { TypeError as CheckError, Environment as Engine, ParseError } from 'cel-js'
import { Duration, UnsignedInt } from 'cel-js/evaluator'

/**
 * Adapter of the CEL package's parser and type checker, and the only file that imports it. Evaluation is ours (`compile.ts`): the package
 * has no cost limit, a backtracking `matches`, and creates an error with a stack for every absent header.
 */
export { Duration, UnsignedInt }

/** Static type of a node; `name` is in the engine's notation, such as `list<string>` or `google.protobuf.Timestamp`. */
export interface StaticType {
  readonly kind: 'dyn' | 'list' | 'map' | 'primitive' | 'message' | 'optional' | 'param'
  readonly name: string
  readonly keyType?: StaticType
  readonly valueType?: StaticType
}

/** A node of the syntax tree. `args` depends on `op`; the resolver rewrites nodes in place, so positions stay valid. */
export interface Node {
  op: string
  args: unknown
  readonly start: number
  readonly end: number
  readonly checkedType?: StaticType
  readonly meta: { readonly alternate?: Node; readonly macro?: unknown; readonly check: NodeCheck }
  setMeta(key: string, value: unknown): Node
}

/** Fault found by parser or checker: the engine's code, never its text. */
export interface EngineFault {
  readonly code: string
  readonly start: number
  readonly end: number
  /** The faulty node, if the checker found the fault. */
  readonly node: Node | undefined
}

interface Checker {
  readonly registry: unknown
  check(node: Node, context: CheckContext): StaticType
  getType(name: string): StaticType
}
/** A static type of the package, with a method for the common type of two types, or null without one. */
interface Unifiable extends StaticType {
  unify(registry: unknown, other: StaticType): StaticType | null
}
interface CheckContext {
  forkWithVariable(name: string, type: StaticType): CheckContext
}
type NodeCheck = (checker: Checker, node: Node, context: CheckContext) => StaticType

export interface Parsed {
  readonly root: Node
  /** Returns the type of the whole expression, or the fault. */
  check(): StaticType | EngineFault
}

/** Signature of one of our macros: `names` are its leading identifier arguments, which it binds, `bodies` the rest. */
export interface MacroShape {
  readonly signature: string
  readonly variables: number
  /** Static type of the result, derived from the receiver and the last body. */
  readonly result: 'receiver' | 'bool' | 'list' | 'map'
}

export const LIMITS = {
  maxAstNodes: 2_000,
  maxDepth: 100,
  maxListElements: 1_000,
  maxMapEntries: 1_000,
  maxCallArguments: 32
} as const

/** Parser and checker over a fixed set of function signatures. */
export class CelEngine {
  readonly #engine: Engine
  readonly #callCheck: NodeCheck
  /** Signatures that the engine predefines. */
  readonly known: readonly { name: string; receiverType: string | null; params: readonly string[] }[]

  constructor() {
    this.#engine = new Engine({ homogeneousAggregateLiterals: false, limits: LIMITS })
    // Uses another instance: an instance that has listed its functions adds new ones to all instances.
    this.known = new Engine().getDefinitions().functions.map((one) => ({
      name: one.name,
      receiverType: one.receiverType,
      params: one.params.map((param) => param.type)
    }))
    this.#callCheck = asNode(this.#engine.parse('size([])').ast).meta.check
  }

  /** Declares an overload for the checker. */
  declare(signature: string): void {
    this.#engine.registerFunction(signature, neverRuns, { async: false } as never)
  }

  declareMacro({ signature, variables, result }: MacroShape): void {
    const expand = ({ args, receiver }: { args: Node[]; receiver: Node }) => ({
      evaluate: neverRuns,
      typeCheck: (checker: Checker, _macro: unknown, context: CheckContext) => {
        const range = checker.check(receiver, context)
        let inner = context
        const names = args.slice(0, variables)
        for (const [i, name] of names.entries()) {
          inner = inner.forkWithVariable(String(name.args), elementType(checker, range, names.length === 2 ? i : -1))
        }
        for (const body of args.slice(variables)) checker.check(body, inner)
        return result === 'receiver' ? range : checker.getType(result)
      }
    })
    this.#engine.registerFunction(signature, expand as never)
  }

  /** Returns the tree of `source`, or the first fault. */
  parse(source: string): Parsed | EngineFault {
    try {
      const parsed = this.#engine.parse(source)
      const root = asNode(parsed.ast)
      return { root, check: () => this.#check(root, parsed.check) }
    } catch (error) {
      return faultOf(error)
    }
  }

  #check(root: Node, check: () => { valid: boolean; error?: unknown }): StaticType | EngineFault {
    const checked = check()
    return checked.valid ? (root.checkedType as StaticType) : faultOf(checked.error)
  }

  /** Returns the value of a type name such as `int`. */
  typeValue(name: string): unknown {
    return this.#engine.evaluate(name)
  }

  /** Turns `node` into a call of a global function. */
  becomeCall(node: Node, name: string, args: readonly Node[]): void {
    this.#become(node, 'call', [name, args], this.#callCheck)
  }

  /** Turns `node` into a leaf of a known type; we define `args`. */
  becomeLeaf(node: Node, op: string, args: unknown, type: string): void {
    this.#become(node, op, args, (checker) => checker.getType(type))
  }

  /** Turns `node` into a node of a known type whose children are checked. */
  becomeParent(node: Node, op: string, args: unknown, children: readonly Node[], type: string): void {
    this.#become(node, op, args, (checker, _node, context) => {
      for (const child of children) checker.check(child, context)
      return checker.getType(type)
    })
  }

  #become(node: Node, op: string, args: unknown, check: NodeCheck): void {
    node.op = op
    node.args = args
    node.setMeta('alternate', undefined).setMeta('macro', undefined).setMeta('check', check)
  }

  /** Types `!` as bool for every operand; calls `rule` with the operand's type. */
  typeNot(node: Node, rule: (operand: StaticType) => void): void {
    node.setMeta('check', (checker: Checker, self: Node, context: CheckContext) => {
      rule(checker.check(self.args as Node, context))
      return checker.getType('bool')
    })
  }

  /**
   * Types `c ? a : b`: the type of both results if equal, otherwise dynamic, which the package would reject. Calls `condition` with the
   * type of the condition.
   */
  typeTernary(node: Node, condition: (type: StaticType) => void): void {
    node.setMeta('check', (checker: Checker, self: Node, context: CheckContext) => {
      const [test, a, b] = self.args as [Node, Node, Node]
      condition(checker.check(test, context))
      const first = checker.check(a, context) as Unifiable
      return first.unify(checker.registry, checker.check(b, context)) ?? checker.getType('dyn')
    })
  }

  /** Types a binary operator by `rule`: the package's own rule throws on operand types that it cannot distinguish. */
  typeBinary(node: Node, rule: (left: StaticType, right: StaticType) => string): void {
    node.setMeta('check', (checker: Checker, self: Node, context: CheckContext) => {
      const [left, right] = self.args as [Node, Node]
      return checker.getType(rule(checker.check(left, context), checker.check(right, context)))
    })
  }
}

export function isFault(result: object): result is EngineFault {
  return 'code' in result && 'start' in result
}

function neverRuns(): never {
  throw new Error('The engine evaluates nothing')
}

/** `position` 0 and 1 are index and value of a list, key and value of a map; -1 is the variable of a one-variable macro. */
function elementType(checker: Checker, range: StaticType, position: number): StaticType {
  if (range.kind === 'list') return position === 0 ? checker.getType('int') : (range.valueType as StaticType)
  if (range.kind === 'map') return position === 1 ? (range.valueType as StaticType) : (range.keyType as StaticType)
  return checker.getType('dyn')
}

function asNode(ast: unknown): Node {
  return ast as Node
}

function faultOf(error: unknown): EngineFault {
  if (error instanceof ParseError || error instanceof CheckError) {
    const node = error.node as unknown as Node | undefined
    const range = error.range ?? { start: 0, end: 0 }
    return {
      code: error.code,
      start: range.start,
      end: range.end,
      node: node?.setMeta === undefined ? undefined : node
    }
  }
  // Deep nesting of one operator exhausts the parser's stack before a limit applies.
  if (error instanceof RangeError) return { code: 'limit_exceeded', start: 0, end: 0, node: undefined }
  // Any other failure of the package rejects the source.
  return { code: 'unknown', start: 0, end: 0, node: undefined }
}

/** Returns the value of a node known at compile time: a literal, its negation, or a list of them. */
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

/** Returns the number of nodes in a tree: the maximum cost of one run, without comprehensions and functions. */
export function weightOf(node: Node): number {
  let weight = 1
  forEachChild(node, (child) => {
    weight += weightOf(child)
  })
  return weight
}

/** Calls `visit` for every node below `node`. */
export function forEachChild(node: Node, visit: (child: Node) => void): void {
  eachNode(node.args, visit)
}

function eachNode(part: unknown, visit: (child: Node) => void): void {
  if (typeof part !== 'object' || part === null) return
  if (Array.isArray(part)) for (const one of part) eachNode(one, visit)
  else if ('op' in part && 'setMeta' in part) visit(part as Node)
}
