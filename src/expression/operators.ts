import { Duration, type StaticType, UnsignedInt } from './cel-parser.js'
import { EvaluationError } from './expression.js'
import { isNumericType, typeLabel } from './signatures.js'
import { charge, type State } from './state.js'
import { compare, durationOf, equals, keyOf, MAX_LIST, MAX_TEXT, nanosOf, timestampOf, typeOf } from './values.js'

/** One operator over two values. */
type Binary = (left: unknown, right: unknown, state: State) => unknown

const MAX_INT = 9_223_372_036_854_775_807n
const MIN_INT = -9_223_372_036_854_775_808n
const MAX_UINT = 18_446_744_073_709_551_615n

const OVERFLOW = new EvaluationError('failed', 'integer out of range')
const ZERO = new EvaluationError('failed', 'division by zero')
const TOO_LONG = new EvaluationError('failed', `a text would be longer than ${MAX_TEXT} characters`)
const TOO_MANY = new EvaluationError('failed', `a list would have more than ${MAX_LIST} items`)

/** `value` when it is a 64-bit integer. */
export function int64(value: bigint): bigint {
  if (value > MAX_INT || value < MIN_INT) throw OVERFLOW
  return value
}

/** A `uint` of CEL. Throws `EvaluationError` when the value has no place in 64 bits. */
export function uint64(value: bigint): UnsignedInt {
  if (value < 0n || value > MAX_UINT) throw OVERFLOW
  return new UnsignedInt(value)
}

export function concatText(left: string, right: string, state: State): string {
  const length = left.length + right.length
  if (length > MAX_TEXT) throw TOO_LONG
  if (length > 64) charge(state, length >> 6)
  return left + right
}

function concatLists(left: readonly unknown[], right: readonly unknown[], state: State): unknown[] {
  const length = left.length + right.length
  if (length > MAX_LIST) throw TOO_MANY
  charge(state, length >> 2)
  return left.concat(right)
}

function concatBytes(left: Uint8Array, right: Uint8Array, state: State): Uint8Array {
  const length = left.length + right.length
  if (length > MAX_TEXT) throw TOO_LONG
  charge(state, length >> 6)
  const joined = new Uint8Array(length)
  joined.set(left)
  joined.set(right, left.length)
  return joined
}

function add(left: unknown, right: unknown, state: State): unknown {
  const type = typeOf(left)
  const other = typeOf(right)
  if (type === other) {
    switch (type) {
      case 'int':
        return int64((left as bigint) + (right as bigint))
      case 'uint':
        return uint64((left as UnsignedInt).value + (right as UnsignedInt).value)
      case 'double':
        return (left as number) + (right as number)
      case 'string':
        return concatText(left as string, right as string, state)
      case 'bytes':
        return concatBytes(left as Uint8Array, right as Uint8Array, state)
      case 'list':
        return concatLists(left as readonly unknown[], right as readonly unknown[], state)
      case 'duration':
        return durationOf(nanosOf(left as Duration) + nanosOf(right as Duration))
    }
  }
  if (left instanceof Date && right instanceof Duration) return shift(left, nanosOf(right))
  if (right instanceof Date && left instanceof Duration) return shift(right, nanosOf(left))
  throw noOverload('+')
}

function subtract(left: unknown, right: unknown): unknown {
  const type = typeOf(left)
  if (type === typeOf(right)) {
    switch (type) {
      case 'int':
        return int64((left as bigint) - (right as bigint))
      case 'uint':
        return uint64((left as UnsignedInt).value - (right as UnsignedInt).value)
      case 'double':
        return (left as number) - (right as number)
      case 'duration':
        return durationOf(nanosOf(left as Duration) - nanosOf(right as Duration))
      case 'timestamp':
        return durationOf(BigInt((left as Date).getTime() - (right as Date).getTime()) * 1_000_000n)
    }
  }
  if (left instanceof Date && right instanceof Duration) return shift(left, -nanosOf(right))
  throw noOverload('-')
}

/** Timestamps are kept in milliseconds; a finer shift is rounded down. */
function shift(from: Date, nanos: bigint): Date {
  const milliseconds = nanos / 1_000_000n
  const rest = nanos % 1_000_000n
  return timestampOf(from.getTime() + Number(rest < 0n ? milliseconds - 1n : milliseconds))
}

function multiply(left: unknown, right: unknown): unknown {
  if (typeof left === 'bigint' && typeof right === 'bigint') return int64(left * right)
  if (typeof left === 'number' && typeof right === 'number') return left * right
  if (left instanceof UnsignedInt && right instanceof UnsignedInt) return uint64(left.value * right.value)
  throw noOverload('*')
}

function divide(left: unknown, right: unknown): unknown {
  if (typeof left === 'number' && typeof right === 'number') return left / right
  if (typeof left === 'bigint' && typeof right === 'bigint') {
    if (right === 0n) throw ZERO
    return int64(left / right)
  }
  if (left instanceof UnsignedInt && right instanceof UnsignedInt) {
    if (right.value === 0n) throw ZERO
    return uint64(left.value / right.value)
  }
  throw noOverload('/')
}

function modulo(left: unknown, right: unknown): unknown {
  if (typeof left === 'bigint' && typeof right === 'bigint') {
    if (right === 0n) throw ZERO
    return left % right
  }
  if (left instanceof UnsignedInt && right instanceof UnsignedInt) {
    if (right.value === 0n) throw ZERO
    return uint64(left.value % right.value)
  }
  throw noOverload('%')
}

/** Membership in a list, or a key of a map. */
function isIn(value: unknown, container: unknown, state: State): boolean {
  if (Array.isArray(container)) {
    charge(state, container.length >> 1)
    if (typeof value === 'string' && value.length <= 256) return container.includes(value)
    for (const item of container) if (equals(value, item, state)) return true
    return false
  }
  if (container instanceof Map) return container.has(keyOf(value))
  throw noOverload('in')
}

/** Equality with the cost of what it walks taken from the budget. */
function equal(left: unknown, right: unknown, state: State): boolean {
  return equals(left, right, state)
}

function ordered(operator: string, holds: (order: number) => boolean): Binary {
  return (left, right, state) => {
    const order = compare(left, right, state)
    if (order === undefined) throw noOverload(operator)
    return holds(order)
  }
}

export const BINARY: Readonly<Record<string, Binary>> = {
  '==': equal,
  '!=': (left, right, state) => !equal(left, right, state),
  '<': ordered('<', (order) => order < 0),
  '<=': ordered('<=', (order) => order <= 0),
  '>': ordered('>', (order) => order > 0),
  '>=': ordered('>=', (order) => order >= 0),
  in: isIn,
  '+': add,
  '-': subtract,
  '*': multiply,
  '/': divide,
  '%': modulo
}

export function negate(value: unknown): unknown {
  if (typeof value === 'bigint') return int64(-value)
  if (typeof value === 'number') return -value
  throw noOverload('-')
}

export function not(value: unknown): boolean {
  if (typeof value === 'boolean') return !value
  throw noOverload('!')
}

function noOverload(operator: string): EvaluationError {
  return new EvaluationError('failed', `operator ${operator} is not defined for these values`)
}

/** The type of an operation, or what is wrong with it. A warning is for what is decided when it runs. */
type OperationType =
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
        ...(comparable(left, right)
          ? {}
          : {
              warning: `${mismatch(operator, left, right)}: they are never equal${listAdvice(left, right) || conversion(left, right)}`
            })
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

/** Returns advice for comparing a list with one of its elements: header fields and query parameters are lists of values. */
function listAdvice(left: StaticType, right: StaticType): string {
  const [list, other] = left.kind === 'list' ? [left, right] : [right, left]
  const holds = list.kind === 'list' && other.kind !== 'list' && typeLabel(list) === `list<${typeLabel(other)}>`
  return holds ? '; compare an element, such as [0], or write: element in list' : ''
}

/** Returns advice for converting both sides to one type, if possible. */
function conversion(left: StaticType, right: StaticType): string {
  const texts = [left, right].filter(({ name }) => name === 'string')
  return texts.length === 1 && [left, right].some(isNumericType)
    ? '; write the number without quotes, or int(…) around the text'
    : ''
}

function mismatch(operator: string, left: StaticType, right: StaticType): string {
  return `${operator} is not defined for ${typeLabel(left)} and ${typeLabel(right)}`
}
