/** Collections of ModSecurity that bodies fill. */
export type BodyCollection = 'ARGS_POST' | 'FILES' | 'FILES_NAMES' | 'MULTIPART_PART_HEADERS' | 'XML'

/** A member of a collection; both texts are Latin-1, one code unit a byte. */
export interface BodyValue {
  readonly collection: BodyCollection
  readonly name: string
  readonly value: string
}

/** Limits for reading a body. */
export interface BodyOptions {
  /** True if the body continues after the given bytes, so that a missing end is no error. @default false */
  readonly truncated?: boolean
  /** Greatest number of values. @default 10000 */
  readonly maxValues?: number
  /** Greatest number of bytes of all names and values together. @default 1048576 */
  readonly maxBytes?: number
}

/** Values of a body, also those before an error, because an attack can precede a malformed part. */
export interface BodyResult {
  readonly values: readonly BodyValue[]
  /** Reason why the body or its rest could not be read. */
  readonly error?: string
}

/** Default of `maxValues`. */
const MAX_VALUES = 10_000
/** Default of `maxBytes`. */
const MAX_BYTES = 1_048_576

/** Ends the reading of a body; the message is the `error` of the result. */
export class BodyError extends Error {}

/** Collects values within the limits. */
export class BodyValues {
  readonly values: BodyValue[] = []
  readonly #maxValues: number
  readonly #maxBytes: number
  #bytes = 0

  constructor({ maxValues = MAX_VALUES, maxBytes = MAX_BYTES }: BodyOptions) {
    this.#maxValues = maxValues
    this.#maxBytes = maxBytes
  }

  /** Adds a value. Throws a `BodyError` if a limit would be exceeded. */
  add(collection: BodyCollection, name: string, value: string): void {
    if (this.values.length >= this.#maxValues) throw new BodyError(`the body has more than ${this.#maxValues} value(s)`)
    this.#bytes += name.length + value.length
    if (this.#bytes > this.#maxBytes) throw new BodyError(`names and values have more than ${this.#maxBytes} byte(s)`)
    this.values.push({ collection, name, value })
  }
}

/** Runs a reader and turns its `BodyError` into the `error` of the result. */
export function collectValues(options: BodyOptions, read: (values: BodyValues) => void): BodyResult {
  const values = new BodyValues(options)
  try {
    read(values)
    return { values: values.values }
  } catch (error) {
    if (!(error instanceof BodyError)) throw error
    return { values: values.values, error: error.message }
  }
}

/** Returns the UTF-8 bytes of a code point as Latin-1 text; U+FFFD for a surrogate and beyond U+10FFFF. */
export function utf8Text(point: number): string {
  if (point < 0x80) return String.fromCharCode(point)
  const valid = point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff)
  return Buffer.from(String.fromCodePoint(valid ? point : 0xfffd), 'utf8').toString('latin1')
}
