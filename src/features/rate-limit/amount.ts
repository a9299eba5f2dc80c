import { EvaluationError, type Expressions } from '../../expression/expression.js'
import { expressionErrors } from '../../expression/problems.js'
import type { Flow } from '../../flow/flow.js'
import type { Scope } from '../../policy/action.js'
import { policyErrors } from '../../policy/problems.js'

/** Integer of a limit: constant, or from an expression for each request. */
export interface Amount {
  /** Text in the document. */
  readonly source: string
  /** The amount of every request; undefined if it differs by request. */
  readonly constant: number | undefined
  /** Returns the value for a request, or a text why there is none. */
  of(flow: Flow): number | string
}

interface Bounds {
  readonly min: number
  readonly max: number
}

/** CEL types that can be integers. */
const NUMBERS: readonly string[] = ['int', 'uint', 'double', 'dyn']

/** Compiles the amount in the member `name`; reports problems that are visible in its text. */
export function amountOf(written: number | string, name: string, bounds: Bounds, scope: Scope): Amount {
  if (typeof written === 'number') return fixed(String(written), written)
  const expression = scope.expression(written, [name])
  const { source, type, constant } = expression
  if (!NUMBERS.includes(type)) {
    scope.problem(
      [name],
      expressionErrors.EXPRESSION_TYPE,
      `\`${name}\` must be a whole number; this is of type ${type}`
    )
    return fixed(source, bounds.max)
  }
  const { expressions } = scope.services
  if (constant === undefined)
    return { source, constant, of: (flow) => read(expression.outcome(flow), bounds, expressions) }
  const known = read(constant.value, bounds, expressions)
  if (typeof known === 'string')
    scope.problem(
      [name],
      policyErrors.CONFIG_INVALID,
      `\`${name}\` ${known}${constant.value === undefined ? '' : `, not ${expressions.textOf(constant.value)}`}`
    )
  return fixed(source, typeof known === 'string' ? bounds.max : known)
}

/** Reports a cost that exceeds the capacity. */
export function mustFit(cost: Amount, capacity: Amount, scope: Scope): void {
  if (cost.constant === undefined || capacity.constant === undefined || cost.constant <= capacity.constant) return
  const message = `\`cost\` is ${cost.constant}, more than \`capacity\` (${capacity.constant}): no request would ever pass`
  scope.problem(['cost'], policyErrors.CONFIG_INVALID, message)
}

function fixed(source: string, value: number): Amount {
  return { source, constant: value, of: () => value }
}

function read(value: unknown, { min, max }: Bounds, expressions: Expressions): number | string {
  if (value instanceof EvaluationError) return value.message
  const number =
    typeof value === 'bigint' ? Number(value) : typeof value === 'number' ? value : dataOf(value, expressions)
  if (typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max) return number
  return `must be a whole number from ${min} to ${max}`
}

function dataOf(value: unknown, expressions: Expressions): unknown {
  try {
    return expressions.dataOf(value)
  } catch (error) {
    if (error instanceof EvaluationError) return undefined
    throw error
  }
}
