import { CelEngine, forEachChild, isFault, literal, type Node } from './cel-parser.js'
import type { Expressions } from './expression.js'
import { flatName } from './signatures.js'
import { compileTemplate } from './template.js'

const FUNCTION = 'secrets.get'
const engine = new CelEngine()

/**
 * `expressions`; `named` is called with the vault of each `secrets.get` of what is compiled: its name, undefined when it is
 * known only at run time.
 */
export function reportingVaults(expressions: Expressions, named: (vault: string | undefined) => void): Expressions {
  const expression: Expressions['expression'] = (source, phase, ...more) => {
    const compiled = expressions.expression(source, phase, ...more)
    if (compiled.ok) for (const vault of vaultsIn(source)) named(vault)
    return compiled
  }
  return {
    textOf: expressions.textOf,
    dataOf: expressions.dataOf,
    expression,
    template: (source, phase) => compileTemplate(source, (part) => expression(part, phase))
  }
}

/** The vaults that an expression reads, which has compiled. */
function vaultsIn(source: string): (string | undefined)[] {
  const parsed = engine.parse(source)
  if (isFault(parsed)) return [undefined]
  const vaults: (string | undefined)[] = []
  const visit = (node: Node) => {
    const args = argumentsOf(node)
    if (args !== undefined) {
      const [vault] = args
      const value = vault === undefined ? undefined : literal(vault)?.value
      vaults.push(typeof value === 'string' ? value : undefined)
    }
    forEachChild(node, visit)
  }
  visit(parsed.root)
  return vaults
}

/** Arguments of a call of the function, by its name or by the one that it has in resolved trees; undefined for others. */
function argumentsOf(node: Node): readonly Node[] | undefined {
  if (node.op === 'call') {
    const [name, args] = node.args as [string, readonly Node[]]
    return name === flatName(FUNCTION) ? args : undefined
  }
  if (node.op !== 'rcall') return undefined
  const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
  return receiver.op === 'id' && `${receiver.args}.${name}` === FUNCTION ? args : undefined
}
