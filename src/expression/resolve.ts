import type { Phase } from '../exchange/flow.js'
import { forEachChild } from './compile.js'
import { boundBy, isBind, MACRO_NAMES } from './compile-macro.js'
import type { CelEngine, Node } from './engine.js'
import { canonical, type Environment, TYPE_NAMES } from './environment.js'
import type { ExpressionProblem } from './expression.js'
import { methodHint, pathHint } from './hints.js'
import { problem } from './problems.js'
import { flatName } from './signature.js'
import { isAvailable, phasesText, type VariableDefinition } from './variables/definition.js'

/** What a tree names, once its names are resolved. */
export interface Resolved {
  readonly problems: ExpressionProblem[]
  readonly variables: Set<string>
}

/**
 * Gives names their meaning: chains become variables (the longest documented path wins), calls of namespaces become
 * calls, `has` becomes a node of ours. Names that a comprehension binds hide variables and namespaces.
 */
export function resolve(root: Node, phase: Phase, environment: Environment, engine: CelEngine): Resolved {
  const resolver = new Resolver(phase, environment, engine)
  resolver.visit(root, new Set())
  return { problems: resolver.problems, variables: resolver.variables }
}

interface Chain {
  readonly names: readonly string[]
  /** The node of each prefix: `nodes[i]` stands for the first `i + 1` names. */
  readonly nodes: readonly Node[]
}

class Resolver {
  readonly problems: ExpressionProblem[] = []
  readonly variables = new Set<string>()
  readonly #phase: Phase
  readonly #environment: Environment
  readonly #engine: CelEngine

  constructor(phase: Phase, environment: Environment, engine: CelEngine) {
    this.#phase = phase
    this.#environment = environment
    this.#engine = engine
  }

  visit(node: Node, bound: ReadonlySet<string>): void {
    switch (node.op) {
      case 'id':
      case '.':
        return this.#visitChain(node, bound)
      case 'call':
        return this.#visitCall(node, bound)
      case 'rcall':
        return this.#visitMethod(node, bound)
      case 'value':
        return this.#checkInteger(node, node.args)
      case '-_': {
        const operand = node.args as Node
        if (operand.op === 'value' && typeof operand.args === 'bigint') return this.#checkInteger(node, -operand.args)
        return this.visit(operand, bound)
      }
      default:
        forEachChild(node, (child) => this.visit(child, bound))
    }
  }

  #report(code: string, message: string, at: Node, severity: 'error' | 'warning' = 'error'): void {
    this.problems.push(problem(code, message, at, severity))
  }

  #checkInteger(node: Node, value: unknown): void {
    if (typeof value === 'bigint' && BigInt.asIntN(64, value) !== value) {
      this.#report('EXPRESSION_SYNTAX', 'this integer does not fit into 64 bits', node)
    }
  }

  #visitChain(node: Node, bound: ReadonlySet<string>): void {
    const chain = chainOf(node)
    if (chain === undefined) return this.visit((node.args as [Node])[0], bound)
    const [root] = chain.names as [string]
    if (bound.has(root) || TYPE_NAMES.includes(root) || root === 'google') return
    if (!this.#environment.isRoot(root)) return this.#unknown(chain)
    this.#resolveChain(chain)
  }

  #resolveChain({ names, nodes }: Chain): void {
    const wanted = canonical(names)
    const found = this.#environment.resolve(wanted)
    if (found === undefined) return this.#unknown({ names: wanted, nodes })
    const { variable, length } = found
    const rest = wanted.slice(length)
    if (rest.length > 0 && (variable.closed === true || !/^(?:dyn|map|list)/.test(variable.type))) {
      return this.#unknown({ names: wanted, nodes })
    }
    const node = nodes[length - 1] as Node
    if (!isAvailable(variable.phases, this.#phase)) {
      const where = phasesText(variable.phases as 'http' | 'response')
      return this.#report('EXPRESSION_PHASE', `${variable.path} is known in ${where} only`, node)
    }
    this.#use(node, variable)
  }

  #use(node: Node, variable: VariableDefinition): void {
    if (variable.missing !== undefined) {
      const message = `${variable.path} needs ${variable.missing}, which is not configured: it is always empty`
      this.#report('DATA_UNAVAILABLE', message, node, 'warning')
    }
    this.variables.add(variable.path)
    this.#engine.becomeLeaf(node, 'variable', variable, engineType(variable.type))
  }

  #unknown({ names, nodes }: Chain): void {
    const path = names.join('.')
    const node = nodes.at(-1) as Node
    if (this.#environment.isNamespace(path)) {
      return this.#report('EXPRESSION_UNKNOWN', `${path} is no value; name one of its members`, node)
    }
    const hint = pathHint(path, this.#environment.paths(this.#phase))
    this.#report('EXPRESSION_UNKNOWN', `there is no variable ${path}${hint}`, node)
  }

  #visitCall(node: Node, bound: ReadonlySet<string>): void {
    const [name, args] = node.args as [string, readonly Node[]]
    if (name === 'has') return this.#visitPresence(node, args, bound)
    this.#checkFunction(node, 'function', name)
    for (const arg of args) this.visit(arg, bound)
  }

  #visitPresence(node: Node, args: readonly Node[], bound: ReadonlySet<string>): void {
    const [target] = args
    if (target === undefined || args.length !== 1 || (target.op !== '.' && target.op !== '[]')) {
      return this.#report('EXPRESSION_SYNTAX', "has() takes one member: has(a.b) or has(a['b'])", node)
    }
    this.visit(target, bound)
    this.#engine.becomeParent(node, 'has', target, [target], 'bool')
  }

  #visitMethod(node: Node, bound: ReadonlySet<string>): void {
    const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
    const chain = chainOf(receiver)
    const full = chain === undefined ? undefined : `${chain.names.join('.')}.${name}`
    if (chain !== undefined && full !== undefined && !bound.has(chain.names[0] as string)) {
      const { functions } = this.#environment
      if (functions.functionNames.has(full)) {
        this.#engine.becomeCall(node, flatName(full), args)
        return this.#visitCall(node, bound)
      }
      if (chain.names.length === 1 && functions.namespaces.has(chain.names[0] as string)) {
        const hint = methodHint(full, functions.functionNames)
        return this.#report('EXPRESSION_UNKNOWN', `there is no function ${full}()${hint}`, node)
      }
    }
    const count = boundBy(node)
    if (count > 0) return this.#visitMacro(node, count, bound)
    this.visit(receiver, bound)
    this.#checkFunction(node, 'method', name)
    for (const arg of args) this.visit(arg, bound)
  }

  #visitMacro(node: Node, count: number, bound: ReadonlySet<string>): void {
    const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
    const names = args.slice(0, count)
    for (const one of names) {
      if (one.op !== 'id') this.#report('EXPRESSION_SYNTAX', `${name}() begins with the name of a variable`, one)
    }
    const inner = new Set([...bound, ...names.map((one) => String(one.args))])
    if (isBind(name, receiver, args)) {
      this.visit(args[1] as Node, bound)
      return this.visit(args[2] as Node, inner)
    }
    this.visit(receiver, bound)
    for (const body of args.slice(count)) this.visit(body, inner)
  }

  #checkFunction(node: Node, form: 'method' | 'function', name: string): void {
    const { functions } = this.#environment
    const overloads = functions.named(form, name)
    const shown = name.replaceAll('__', '.')
    if (overloads.length === 0) {
      const known = form === 'method' ? [...functions.methodNames, ...MACRO_NAMES] : functions.functionNames
      return this.#report('EXPRESSION_UNKNOWN', `there is no function ${shown}()${methodHint(shown, known)}`, node)
    }
    const phases = overloads[0]?.phases
    if (!isAvailable(phases, this.#phase)) {
      const where = phasesText(phases as 'http' | 'response')
      this.#report('EXPRESSION_PHASE', `${shown}() can be used in ${where} only`, node)
    }
  }
}

/** `a.b.c` as names and nodes; undefined when it does not begin with a name. */
function chainOf(node: Node): Chain | undefined {
  const names: string[] = []
  const nodes: Node[] = []
  let current = node
  while (current.op === '.') {
    const [left, name] = current.args as [Node, string]
    names.unshift(name)
    nodes.unshift(current)
    current = left
  }
  if (current.op !== 'id') return undefined
  return { names: [current.args as string, ...names], nodes: [current, ...nodes] }
}

function engineType(type: string): string {
  return type.replace(/\btimestamp\b/g, 'google.protobuf.Timestamp').replace(/\bduration\b/g, 'google.protobuf.Duration')
}
