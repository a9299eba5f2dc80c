import type { CelEngine } from './engine.js'
import type { FunctionDefinition } from './function-definition.js'
import type { FlowFunctionDefinition } from './functions/flow-function.js'
import {
  engineSignature,
  flatName,
  parseSignature,
  readableSignature,
  type Signature,
  type TypeSpec
} from './signature.js'

/** One overload, ready to be chosen and run. */
export interface Overload {
  readonly signature: Signature
  readonly phases: 'http' | 'response' | undefined
  readonly readsFlow: boolean
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
        run: readsFlow ? definition.runWith : definition.run
      }
      push(this.#overloads, keyOf(form, flatName(name), parameters.length), overload)
      push(this.#byName, `${form} ${flatName(name)}`, overload)
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

  /** How the overloads of a name are written, for a message. */
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

function push<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [value])
  else list.push(value)
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
