import { EvaluationError } from '../expression.js'
import { MAX_LIST, MAX_TEXT } from '../values.js'

/** Maximum nesting of lists and maps that a function walks. */
export const MAX_DEPTH = 128

/** One error per message: creating one costs microseconds, and a client may be the cause. */
const ERRORS = { failed: new Map<string, EvaluationError>(), absent: new Map<string, EvaluationError>() } as const

function errorOf(kind: 'failed' | 'absent', message: string): EvaluationError {
  const known = ERRORS[kind].get(message) ?? new EvaluationError(kind, message)
  ERRORS[kind].set(message, known)
  return known
}

/** Returns the error of a failed call. `message` is one of few, without data. */
export function failed(message: string): EvaluationError {
  return errorOf('failed', message)
}

/** Returns whether a call fails with `samples` in place of unknown arguments, like a function's `refuses`. */
export function failsWith(
  run: (...args: never[]) => unknown,
  samples: readonly unknown[]
): (...args: readonly unknown[]) => string | undefined {
  return (...args) => {
    try {
      const result: unknown = run(...(samples.map((sample, i) => args[i] ?? sample) as never[]))
      return result instanceof EvaluationError ? result.message : undefined
    } catch (error) {
      if (error instanceof EvaluationError) return error.message
      throw error
    }
  }
}

/** Returns the error of a call with a missing index or key. `message` is one of few, without data. */
export function absent(message: string): EvaluationError {
  return errorOf('absent', message)
}

/** Work of a function that takes `times` as long for a character of its text as what a step for eight of them pays. */
export function weighing(times: number): (text: string) => number {
  return (text) => (text.length > 256 ? (text.length >> 3) * (times - 1) : 0)
}

/** Throws `failed` if a string of `length` UTF-16 units is too long. */
export function checkLength(length: number): void {
  if (length > MAX_TEXT) throw failed(`a string would be longer than ${MAX_TEXT} characters`)
}

/** Returns `text`, or throws if it is too long. */
export function bounded(text: string): string {
  checkLength(text.length)
  return text
}

/** Throws `failed` if a list or map of `count` items is too large. */
export function checkCount(count: number): void {
  if (count > MAX_LIST) throw failed(`a list or map would have more than ${MAX_LIST} items`)
}

/** Throws `failed` if a function would compare values of more than `length` UTF-16 units in total. */
export function checkWork(length: number): void {
  if (length > 4 * MAX_TEXT) throw failed('the values of a list hold too much text to compare')
}

/** Throws `failed` if values are nested too deeply. */
export function checkDepth(depth: number): void {
  if (depth > MAX_DEPTH) throw failed(`a value is nested deeper than ${MAX_DEPTH} levels`)
}

/** Collects pieces of a string and stops as soon as it exceeds the limit. */
export class BoundedText {
  #text = ''

  add(piece: string): void {
    checkLength(this.#text.length + piece.length)
    this.#text += piece
  }

  toString(): string {
    return this.#text
  }
}
