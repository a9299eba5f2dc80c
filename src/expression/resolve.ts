import type { Phase } from '../flow/flow.js'
import { type CelEngine, forEachChild, literal, type Node, type StaticType } from './cel-parser.js'
import { secretNamed } from './compile-calls.js'
import { boundBy, isBind, MACRO_NAMES } from './compile-macros.js'
import { canonical, type Environment, TYPE_NAMES } from './environment.js'
import type { ExpressionProblem, SecretName } from './expression.js'
import { BINARY, isCondition, typeOperation } from './operators.js'
import { type ExpressionCode, functionHint, macroMeant, methodHint, pathHint, problem } from './problems.js'
import { flatName, typeLabel } from './signatures.js'
import { isAvailable, phasesText, type VariableDefinition } from './variables/definition.js'

/** Variables, functions and problems of a tree after name resolution. */
export interface Resolved {
  readonly problems: ExpressionProblem[]
  readonly variables: Set<string>
  readonly secrets: readonly SecretName[]
}

/**
 * Gives names their meaning: chains become variables (the longest documented path wins), calls of namespaces become
 * calls, `has` becomes a node of ours. Names that a comprehension binds hide variables and namespaces.
 */
export function resolve(
  root: Node,
  source: string,
  phase: Phase,
  environment: Environment,
  engine: CelEngine
): Resolved {
  const resolver = new Resolver(source, phase, environment, engine)
  resolver.visit(root, new Set())
  return { problems: resolver.problems, variables: resolver.variables, secrets: resolver.secrets }
}

interface Chain {
  readonly names: readonly string[]
  /** The node of each prefix: `nodes[i]` stands for the first `i + 1` names. */
  readonly nodes: readonly Node[]
}

class Resolver {
  readonly problems: ExpressionProblem[] = []
  readonly variables = new Set<string>()
  readonly secrets: SecretName[] = []
  readonly #source: string
  readonly #phase: Phase
  readonly #environment: Environment
  readonly #engine: CelEngine

  constructor(source: string, phase: Phase, environment: Environment, engine: CelEngine) {
    this.#source = source
    this.#phase = phase
    this.#environment = environment
    this.#engine = engine
  }

  visit(node: Node, bound: ReadonlySet<string>): void {
    switch (node.op) {
      case 'id':
      case '.':
        this.#visitChain(node, bound)
        return
      case 'call':
        this.#visitCall(node, bound)
        return
      case 'rcall':
        this.#visitMethod(node, bound)
        return
      case 'value':
        this.#checkLiteral(node, node.args)
        return
      case '-_': {
        const operand = node.args as Node
        if (operand.op === 'value' && typeof operand.args === 'bigint') {
          this.#checkLiteral(node, -operand.args)
          return
        }
        this.visit(operand, bound)
        return
      }
      case '!_':
        this.#engine.typeNot(node, (operand) => this.#checkNot(node, operand))
        this.visit(node.args as Node, bound)
        return
      case '?:':
        this.#engine.typeTernary(node, (condition) => this.#checkCondition(node, condition))
        forEachChild(node, (child) => this.visit(child, bound))
        return
      default:
        if (node.op in BINARY) this.#engine.typeBinary(node, (left, right) => this.#typeOf(node, left, right))
        forEachChild(node, (child) => this.visit(child, bound))
    }
  }

  #checkNot(node: Node, operand: StaticType): void {
    if (operand.name === 'bool' || operand.kind === 'dyn' || operand.kind === 'param') return
    const message = `! is not defined for ${typeLabel(operand)}: this fails when it runs; for a negated comparison write !(a in b)`
    this.#report('EXPRESSION_TYPE', message, node, 'warning')
  }

  #checkCondition(node: Node, condition: StaticType): void {
    if (isCondition(condition)) return
    const [test] = node.args as [Node]
    this.#report('EXPRESSION_TYPE', `the condition of ? : is a bool, not ${typeLabel(condition)}`, test)
  }

  #typeOf(node: Node, left: StaticType, right: StaticType): string {
    const typed = typeOperation(node.op, left, right)
    if (typed.type === undefined) this.#report('EXPRESSION_TYPE', typed.error, node)
    else if (typed.warning !== undefined) {
      // Beside null it asks whether a value is there, of which RULE_FAILS_OPEN says more.
      const isNeverMet = typeLabel(left) !== 'null' && typeLabel(right) !== 'null'
      this.problems.push({ ...problem('EXPRESSION_TYPE', typed.warning, node, 'warning'), isNeverMet })
    }
    return typed.type ?? 'dyn'
  }

  #report(code: ExpressionCode, message: string, at: Node, severity: 'error' | 'warning' = 'error'): void {
    this.problems.push(problem(code, message, at, severity))
  }

  #checkLiteral(node: Node, value: unknown): void {
    if (typeof value === 'bigint' && BigInt.asIntN(64, value) !== value) {
      this.#report('EXPRESSION_SYNTAX', 'this integer does not fit into 64 bits', node)
    }
    // The parser would take such a character for one byte.
    if (value instanceof Uint8Array && /[^\0-\x7f]/.test(this.#source.slice(node.start, node.end))) {
      this.#report('EXPRESSION_SYNTAX', 'bytes hold ASCII; write other bytes with \\x', node)
    }
  }

  #visitChain(node: Node, bound: ReadonlySet<string>): void {
    const chain = chainOf(node)
    if (chain === undefined) {
      this.visit((node.args as [Node])[0], bound)
      return
    }
    const [root] = chain.names as [string]
    if (bound.has(root) || TYPE_NAMES.includes(root) || root === 'google') return
    if (this.#environment.isRoot(root)) this.#resolveChain(chain)
    else this.#unknown(chain)
  }

  #resolveChain({ names, nodes }: Chain): void {
    const wanted = canonical(names)
    const found = this.#environment.resolve(wanted)
    if (found === undefined) {
      this.#unknown({ names: wanted, nodes })
      return
    }
    const { variable, length } = found
    const rest = wanted.slice(length)
    if (rest.length > 0 && (variable.closed === true || !/^(?:dyn|map|list)/.test(variable.type))) {
      this.#unknown({ names: wanted, nodes })
      return
    }
    const node = nodes[length - 1] as Node
    if (!isAvailable(variable.phases, this.#phase)) {
      const where = phasesText(variable.phases as 'http' | 'response')
      this.#report('EXPRESSION_PHASE', `${variable.path} is known in ${where} only`, node)
      return
    }
    this.#use(node, variable)
  }

  #use(node: Node, variable: VariableDefinition): void {
    if (variable.missing !== undefined) {
      const message = `${variable.path} needs ${variable.missing}, which is not configured: it is always empty`
      this.#report('DATA_UNAVAILABLE', message, node, 'warning')
    }
    variable.prepare?.()
    this.variables.add(variable.path)
    this.#engine.becomeLeaf(node, 'variable', variable, engineType(variable.type))
  }

  #unknown({ names, nodes }: Chain): void {
    const path = names.join('.')
    const node = nodes.at(-1) as Node
    if (this.#environment.isNamespace(path)) {
      this.#report('EXPRESSION_UNKNOWN', `${path} is no value; name one of its members`, node)
      return
    }
    if (this.#environment.functions.functionNames.has(path)) {
      this.#report('EXPRESSION_UNKNOWN', `${path} is a function; write ${path}(…)`, node)
      return
    }
    const hint = pathHint(path, this.#environment.paths(this.#phase))
    const quotes =
      hint === '' && names.length === 1 && this.#source.trim() !== path ? `; a text stands in quotes: '${path}'` : hint
    this.#report('EXPRESSION_UNKNOWN', `there is no variable ${path}${quotes}`, node)
  }

  #visitCall(node: Node, bound: ReadonlySet<string>): void {
    const [name, args] = node.args as [string, readonly Node[]]
    if (name === 'has') {
      this.#visitPresence(node, args, bound)
      return
    }
    if (this.#environment.isRoot(name) && this.#isVariableCalled(node, name, args, bound)) return
    this.#checkFunction(node, 'function', name)
    if (name === 'secrets__get') this.secrets.push(secretNamed(args))
    for (const arg of args) this.visit(arg, bound)
  }

  #visitPresence(node: Node, args: readonly Node[], bound: ReadonlySet<string>): void {
    const [target] = args
    if (target === undefined || args.length !== 1 || (target.op !== '.' && target.op !== '[]')) {
      this.#report('EXPRESSION_SYNTAX', "has() takes one member: has(a.b) or has(a['b'])", node)
      return
    }
    const result = this.#resultNamed(target, bound)
    if (result === undefined) this.visit(target, bound)
    else this.#use(target, result)
    this.#engine.becomeParent(node, 'has', target, [target], 'bool')
  }

  /** The result of an action that is named with brackets: `actions.service.oauth['error']` is asked as with a dot. */
  #resultNamed(target: Node, bound: ReadonlySet<string>): VariableDefinition | undefined {
    const names = namesOf(target)
    if (names?.[0] !== 'actions' || bound.has('actions') || target.op === '.') return undefined
    const found = this.#environment.resolve(canonical(names))
    return found?.length === names.length ? found.variable : undefined
  }

  #visitMethod(node: Node, bound: ReadonlySet<string>): void {
    const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
    const chain = chainOf(receiver)
    const full = chain === undefined ? undefined : `${chain.names.join('.')}.${name}`
    if (chain !== undefined && full !== undefined && !bound.has(chain.names[0] as string)) {
      const { functions } = this.#environment
      if (functions.functionNames.has(full)) {
        this.#engine.becomeCall(node, flatName(full), args)
        this.#visitCall(node, bound)
        return
      }
      if (chain.names.length === 1 && functions.namespaces.has(chain.names[0] as string)) {
        const hint = functionHint(full, functions.functionNames)
        this.#report('EXPRESSION_UNKNOWN', `there is no function ${full}()${hint}`, node)
        return
      }
    }
    if (full !== undefined && this.#isVariableCalled(node, full, args, bound)) return
    const count = boundBy(node)
    if (count > 0) {
      this.#visitMacro(node, count, bound)
      return
    }
    const namespace = chain !== undefined && !bound.has(chain.names[0] as string) ? chain.names.join('.') : undefined
    if (namespace !== undefined && full !== undefined && this.#environment.isNamespace(namespace)) {
      const hint = pathHint(full, this.#environment.paths(this.#phase))
      this.#report('EXPRESSION_UNKNOWN', `there is no function ${full}()${hint}`, node)
      return
    }
    this.visit(receiver, bound)
    const [first] = args
    if (args.length === 2 && first?.op === 'id' && macroMeant(name) !== undefined) {
      this.#report('EXPRESSION_UNKNOWN', `${name}() takes no variable; did you mean ${macroMeant(name)}?`, node)
      this.visit(args[1] as Node, new Set([...bound, String(first.args)]))
      return
    }
    this.#checkFunction(node, 'method', name)
    for (const arg of args) this.visit(arg, bound)
  }

  /** Reports a variable that is written as a function, as other languages read a header: `req.headers('X')`. */
  #isVariableCalled(node: Node, name: string, args: readonly Node[], bound: ReadonlySet<string>): boolean {
    const names = canonical(name.split('.'))
    const found = bound.has(names[0] as string) ? undefined : this.#environment.resolve(names)
    if (found === undefined || found.length !== names.length) return false
    const [key] = args
    const isMap = found.variable.type.startsWith('map')
    const right = isMap && key !== undefined ? `${name}[${this.#source.slice(key.start, key.end)}]` : name
    this.#report('EXPRESSION_UNKNOWN', `${name} is a value and no function; write ${right}`, node)
    return true
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
      this.visit(args[2] as Node, inner)
      return
    }
    this.visit(receiver, bound)
    for (const body of args.slice(count)) this.visit(body, inner)
  }

  #checkFunction(node: Node, form: 'method' | 'function', name: string): void {
    const { functions } = this.#environment
    const overloads = functions.named(form, name)
    const shown = name.replaceAll('__', '.')
    if (overloads.length === 0) {
      const hint =
        form === 'method'
          ? methodHint(shown, [...functions.methodNames, ...MACRO_NAMES])
          : functionHint(shown, functions.functionNames)
      this.#report('EXPRESSION_UNKNOWN', `there is no function ${shown}()${hint}`, node)
      return
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

/** The names of `a.b['c']`; undefined when a key is no text that stands in the source. */
function namesOf(node: Node): readonly string[] | undefined {
  if (node.op === 'id') return [node.args as string]
  if (node.op !== '.' && node.op !== '[]') return undefined
  const [left, key] = node.args as [Node, Node | string]
  const name = typeof key === 'string' ? key : literal(key)?.value
  const names = namesOf(left)
  return names === undefined || typeof name !== 'string' ? undefined : [...names, name]
}

function engineType(type: string): string {
  return type
    .replace(/\btimestamp\b/g, 'google.protobuf.Timestamp')
    .replace(/\bduration\b/g, 'google.protobuf.Duration')
}
