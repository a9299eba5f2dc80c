import { EvaluationError } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import type { Scope } from '../action.js'
import type { NodePath } from '../problem.js'
import { refusalToWrite, wireValue } from './header-rules.js'

/** Header fields of a config, compiled. Names are lower-case. */
export interface HeaderWriting {
  readonly names: readonly string[]
  /** Values in the order of `names`. Throws `EvaluationError` when one cannot stand in a header. */
  values(flow: Flow): readonly string[]
}

/** Compiles name → value pairs; `reserved` are names that this action refuses besides those no policy may write. */
export function compileHeaders(
  headers: Readonly<Record<string, string>>,
  at: NodePath,
  scope: Scope,
  reserved: Readonly<Record<string, string>> = {}
): HeaderWriting {
  const names: string[] = []
  const values: ((flow: Flow) => string)[] = []
  for (const [written, source] of Object.entries(headers)) {
    const name = written.toLowerCase()
    const refusal = Object.hasOwn(reserved, name) ? reserved[name] : refusalToWrite(written)
    if (refusal !== undefined) scope.problem([...at, written], 'CONFIG_INVALID', refusal)
    if (names.includes(name)) {
      scope.problem(
        [...at, written],
        'CONFIG_INVALID',
        `"${name}" stands here twice; the case of a name does not count`
      )
    }
    names.push(name)
    values.push(compileHeaderValue(name, source, [...at, written], scope))
  }
  return { names, values: (flow) => values.map((value) => value(flow)) }
}

/** The fields as name and value by turns. */
export function headerList(writing: HeaderWriting, flow: Flow): string[] {
  const values = writing.values(flow)
  return writing.names.flatMap((name, i) => [name, values[i] as string])
}

function compileHeaderValue(name: string, source: string, at: NodePath, scope: Scope): (flow: Flow) => string {
  const template = scope.template(source, at)
  if (template.constant === undefined) return (flow) => onWire(name, template.text(flow))
  const value = wireValue(template.constant)
  if (value === undefined) {
    scope.problem(at, 'CONFIG_INVALID', 'a header value holds no line break and no other control character')
  }
  return () => value ?? ''
}

/** What was interpolated may come from a client: a line break in it must not become another header. */
function onWire(name: string, text: string): string {
  const value = wireValue(text)
  if (value === undefined)
    throw new EvaluationError('failed', `the value for the header "${name}" cannot stand in a header`)
  return value
}
