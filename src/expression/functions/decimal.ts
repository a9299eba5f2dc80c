/** A number as a fraction, so that rounding sees its exact value; the denominator is positive. */
export interface Exact {
  readonly negative: boolean
  readonly numerator: bigint
  readonly denominator: bigint
}

/** The exact value of a finite double (IEEE 754 binary64). */
export function exactDouble(value: number): Exact {
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, value)
  const bits = view.getBigUint64(0)
  const field = Number((bits >> 52n) & 0x7ffn)
  const fraction = bits & 0xf_ffff_ffff_ffffn
  const mantissa = field === 0 ? fraction : fraction | 0x10_0000_0000_0000n
  const exponent = (field === 0 ? 1 : field) - 1075
  const negative = bits >> 63n === 1n
  if (exponent >= 0) return { negative, numerator: mantissa << BigInt(exponent), denominator: 1n }
  return { negative, numerator: mantissa, denominator: 1n << BigInt(-exponent) }
}

/** An integer as a fraction. */
export function exactInteger(value: bigint): Exact {
  return { negative: value < 0n, numerator: value < 0n ? -value : value, denominator: 1n }
}

/** `value` with `precision` digits after the point; halves go to the even digit. */
export function fixedText(value: Exact, precision: number): string {
  const digits = String(scaled(value, precision)).padStart(precision + 1, '0')
  return signed(value, withPoint(digits, digits.length - precision))
}

/** `value` as `d.ddde±dd` with `precision` digits after the point; halves go to the even digit. */
export function scientificText(value: Exact, precision: number): string {
  let exponent = value.numerator === 0n ? 0 : decimalExponent(value)
  let digits = String(scaled(value, precision - exponent)).padStart(precision + 1, '0')
  // Rounding may carry into one more digit, which is then a one followed by zeros.
  if (digits.length > precision + 1) {
    exponent++
    digits = digits.slice(0, -1)
  }
  const power = `${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
  return signed(value, `${withPoint(digits, 1)}e${power}`)
}

/** The shortest decimal text that reads back as `value`, without an exponent; `NaN`, `Infinity`, `-Infinity`. */
export function plainText(value: number): string {
  const text = Object.is(value, -0) ? '-0' : String(value)
  const match = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(text)
  if (match === null) return text
  const [, sign = '', whole = '', fraction = '', power] = match
  const digits = whole + fraction
  const point = 1 + Number(power)
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`
  return sign + digits.padEnd(point, '0')
}

/** Power of ten of the first digit of a value that is not zero. */
function decimalExponent({ numerator, denominator }: Exact): number {
  // The difference of the lengths is the exponent or one more.
  const guess = String(numerator).length - String(denominator).length
  const size = 10n ** BigInt(Math.abs(guess))
  const below = guess >= 0 ? numerator < denominator * size : numerator * size < denominator
  return below ? guess - 1 : guess
}

/** The integer nearest to the value times ten to the power of `power`. */
function scaled({ numerator, denominator }: Exact, power: number): bigint {
  const top = power > 0 ? numerator * 10n ** BigInt(power) : numerator
  const bottom = power < 0 ? denominator * 10n ** BigInt(-power) : denominator
  const quotient = top / bottom
  const twice = (top % bottom) * 2n
  const up = twice > bottom || (twice === bottom && quotient % 2n === 1n)
  return up ? quotient + 1n : quotient
}

function withPoint(digits: string, point: number): string {
  return point === digits.length ? digits : `${digits.slice(0, point)}.${digits.slice(point)}`
}

function signed(value: Exact, text: string): string {
  return value.negative ? `-${text}` : text
}
