import { EvaluationError, type Expression, type Expressions } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import type { Coded } from '../../lib/errors.js'
import { rateLimitErrors } from './errors.js'
import { encodeKey } from './limiter/layout.js'
import { KEY_MARKS } from './limits.js'

/** Bucket of one request. */
export class BucketOfRequest {
  readonly key: string
  /** Values of the tuple; undefined for a failed one. */
  readonly values: readonly unknown[]
  errorCode: string
  errorMessage: string
  readonly #expressions: Expressions

  constructor(keys: readonly Expression[], flow: Flow, expressions: Expressions) {
    const parts: string[] = []
    const values: unknown[] = []
    let errorCode = ''
    let errorMessage = ''
    for (let i = 0; i < keys.length; i++) {
      const value = (keys[i] as Expression).outcome(flow)
      const part = value instanceof EvaluationError ? value : partOf(value, expressions)
      if (typeof part === 'string') {
        parts.push(part)
        values.push(value)
        continue
      }
      parts.push(KEY_MARKS.failed)
      values.push(undefined)
      if (errorCode === '') {
        const error = part.kind === 'absent' ? rateLimitErrors.BUCKET_KEY_ABSENT : rateLimitErrors.BUCKET_KEY_FAILED
        errorCode = error.code
        errorMessage = `bucket_key[${i}]: ${part.message}`
      }
    }
    this.key = encodeKey(parts)
    this.values = values
    this.errorCode = errorCode
    this.errorMessage = errorMessage
    this.#expressions = expressions
  }

  /** Records why the request cannot be decided. */
  fails({ code }: Coded, message: string): void {
    this.errorCode = code
    this.errorMessage = message
  }

  /** Returns the values as a JSON list; null for a failed one. */
  text(): string {
    return JSON.stringify(this.values.map((value) => (value === undefined ? null : this.#expressions.dataOf(value))))
  }
}

function partOf(value: unknown, expressions: Expressions): string | EvaluationError {
  if (typeof value === 'string') return `${KEY_MARKS.text}${value}`
  try {
    return `${KEY_MARKS.data}${JSON.stringify(expressions.dataOf(value))}`
  } catch (error) {
    if (error instanceof EvaluationError) return error
    throw error
  }
}
