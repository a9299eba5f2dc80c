import type { StaticType } from './engine.js'
import { isNumericType, typeLabel } from './signature.js'

/** The type of an operation, or what is wrong with it. A warning is for what is decided when it runs. */
export type OperationType =
  | { readonly type: string; readonly warning?: string }
  | { readonly type: undefined; readonly error: string }

const TIMESTAMP = 'google.protobuf.Timestamp'
const DURATION = 'google.protobuf.Duration'
const ORDERED: readonly string[] = ['string', 'bool', 'bytes', TIMESTAMP, DURATION]

/** Types that an arithmetic operator takes on both sides and gives. */
const ARITHMETIC: Readonly<Record<string, readonly string[]>> = {
  '+': ['int', 'uint', 'double', 'string', 'bytes', DURATION],
  '-': ['int', 'uint', 'double', DURATION],
  '*': ['int', 'uint', 'double'],
  '/': ['int', 'uint', 'double'],
  '%': ['int', 'uint']
}

/** `left type, operator, right type` → result, where the sides differ. */
const MIXED: Readonly<Record<string, string>> = {
  [`${TIMESTAMP} + ${DURATION}`]: TIMESTAMP,
  [`${DURATION} + ${TIMESTAMP}`]: TIMESTAMP,
  [`${TIMESTAMP} - ${DURATION}`]: TIMESTAMP,
  [`${TIMESTAMP} - ${TIMESTAMP}`]: DURATION
}

/** Types a binary operator that is neither `&&` nor `||`. */
export function typeOperation(operator: string, left: StaticType, right: StaticType): OperationType {
  switch (operator) {
    case '==':
    case '!=':
      return {
        type: 'bool',
        ...(comparable(left, right) ? {} : { warning: `${mismatch(operator, left, right)}: they are never equal` })
      }
    case '<':
    case '<=':
    case '>':
    case '>=':
      return orderable(left, right)
        ? { type: 'bool' }
        : { type: undefined, error: mismatch(operator, left, right) + conversion(left, right) }
    case 'in':
      if (isOpen(right) || right.kind === 'list' || right.kind === 'map') return { type: 'bool' }
      return {
        type: undefined,
        error: `in takes a list or a map on its right${right.name === 'string' ? '; for a part of a text write contains(…)' : ''}`
      }
    default:
      return arithmetic(operator, left, right)
  }
}

/** True when a condition of this type can be true or false. */
export function isCondition(type: StaticType): boolean {
  return isOpen(type) || type.name === 'bool'
}

function arithmetic(operator: string, left: StaticType, right: StaticType): OperationType {
  const types = ARITHMETIC[operator] ?? []
  const possible = (type: StaticType) =>
    isOpen(type) || types.includes(type.name) || type.name === TIMESTAMP || (operator === '+' && type.kind === 'list')
  if (isOpen(left) || isOpen(right)) {
    if (possible(left) && possible(right)) return { type: 'dyn' }
  } else if (left.name === right.name && types.includes(left.name)) return { type: left.name }
  else if (operator === '+' && left.kind === 'list' && right.kind === 'list') {
    return { type: left.name === right.name ? left.name : 'list' }
  }
  const mixed = MIXED[`${left.name} ${operator} ${right.name}`]
  return mixed === undefined ? { type: undefined, error: mismatch(operator, left, right) } : { type: mixed }
}

/** Known only when it runs. */
function isOpen(type: StaticType): boolean {
  return type.kind === 'dyn' || type.kind === 'param' || type.kind === 'optional'
}

function comparable(left: StaticType, right: StaticType): boolean {
  if (isOpen(left) || isOpen(right)) return true
  if (isNumericType(left) && isNumericType(right)) return true
  return left.kind === 'list' || left.kind === 'map' ? left.kind === right.kind : left.name === right.name
}

function orderable(left: StaticType, right: StaticType): boolean {
  if (isOpen(left) || isOpen(right)) return true
  return (isNumericType(left) && isNumericType(right)) || (left.name === right.name && ORDERED.includes(left.name))
}

/** How to make both sides of one type, where it can be said. */
function conversion(left: StaticType, right: StaticType): string {
  const texts = [left, right].filter(({ name }) => name === 'string')
  return texts.length === 1 && [left, right].some(isNumericType)
    ? '; write the number without quotes, or int(…) around the text'
    : ''
}

function mismatch(operator: string, left: StaticType, right: StaticType): string {
  return `${operator} is not defined for ${typeLabel(left)} and ${typeLabel(right)}`
}
