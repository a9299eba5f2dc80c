import { EvaluationError, type Expressions } from '../../expression/expression.js'
import { expressionErrors } from '../../expression/problems.js'
import type { Flow } from '../../flow/flow.js'
import type { Scope } from '../../policy/action.js'
import { policyErrors } from '../../policy/problems.js'

/** A whole number of a limit: the same for all requests, or what an expression says of each. */
export interface Amount {
  /** As the document has it. */
  readonly source: string
  /** Undefined: it is another one from request to request. */
  readonly constant: number | undefined
  /** What it is for a request; text: why it has none. */
  of(flow: Flow): number | string
}

interface Bounds {
  readonly min: number
  readonly max: number
}

/** Types of CEL that can be whole numbers. */
const NUMBERS: readonly string[] = ['int', 'uint', 'double', 'dyn']

/** The amount that the member `name` of the config gives. What is wrong with it is reported, as far as its text shows it. */
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

/** Reports a request that weighs more than all that may ever pass. */
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
