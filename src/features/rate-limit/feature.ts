import Type from 'typebox'
import { EvaluationError, type Expression, type Expressions } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import { refuse } from '../../flow/verdict.js'
import { defineErrors } from '../../lib/errors.js'
import { parseDuration } from '../../lib/units.js'
import { defineAction } from '../../policy/action.js'
import { choice, config, duration, enforce, expression, text, whole } from '../../policy/fields.js'
import { defineFeature } from '../contract.js'
import { encodeKey } from './limiter/layout.js'
import { type LimiterTable, SlidingWindow } from './limiter/table.js'

/** Codes of the action rate-limit. */
const rateLimitErrors = defineErrors({
  RATE_LIMITED: {
    status: 429,
    text: 'The bucket of the request is used up.',
    help: 'Wait as many seconds as retry-after says, or raise capacity.'
  },
  BUCKET_KEY_ABSENT: {
    text: 'A value that the key of the bucket is made of is absent; the request counts in a common bucket.',
    help: 'Use an expression that always has a value.'
  },
  BUCKET_KEY_FAILED: {
    text: 'An expression of the key of the bucket failed; the request counts in a common bucket.',
    help: 'Correct the expression.'
  }
})

declare module '../../policy/services.js' {
  interface PolicyServices {
    readonly limiter: LimiterTable
    /** `draft` adds `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10) to answers. */
    readonly rateLimitHeaders: 'none' | 'draft'
  }
}

/**
 * `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10: the quota of the window, what is left
 * of it, and the seconds until all of it is. Several limits give several members of the same list.
 */
function rateLimitFields(
  name: string,
  capacity: number,
  seconds: number
): (flow: Flow, remaining: number, resetSeconds: number) => void {
  const member = structuredString(name)
  const policy = `${member};q=${capacity};w=${seconds}`
  return (flow, remaining, resetSeconds) => {
    flow.responseFields ??= []
    flow.responseFields.push('RateLimit-Policy', policy, 'RateLimit', `${member};r=${remaining};t=${resetSeconds}`)
  }
}

/** A String of RFC 9651 3.3.3; it holds printable ASCII only, so other characters are percent-encoded. */
function structuredString(text: string): string {
  const printable = Array.from(text, (character) =>
    /[\x20-\x7e]/.test(character) ? character : percent(character)
  ).join('')
  return `"${printable.replace(/["\\]/g, '\\$&')}"`
}

function percent(character: string): string {
  return Array.from(
    Buffer.from(character, 'utf8'),
    (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  ).join('')
}

const SECOND = 1_000
const DAY = 86_400_000

/**
 * Lets at most `capacity` requests of one bucket through in any `rate`; what is over gets 429 with `retry-after`.
 *
 * Refused requests do not count. The bucket is the tuple of the `bucket_key` values; a key whose expression fails puts
 * the request into a bucket for such requests, which is limited like any other.
 */
const action = defineAction({
  type: 'rate-limit',
  summary: 'Refuses requests beyond a number within a sliding window.',
  phases: ['on_http_request'],
  config: config({
    name: text({
      description: 'Name of the limit; part of the identity of its buckets.',
      minLength: 1,
      maxLength: 1023,
      exact: true
    }),
    enforce: enforce(),
    algorithm: choice(['sliding_window'], { description: 'How requests are counted.' }),
    capacity: whole({
      description: 'Requests of one bucket that may pass in any span of `rate`.',
      min: 1,
      max: 2_000_000_000
    }),
    rate: duration({ description: 'Length of the window', min: 60 * SECOND, max: DAY, multiple: 10 * SECOND }),
    bucket_key: Type.Array(expression({ description: 'A part of the key of the bucket.' }), {
      description: 'CEL expressions; each distinct tuple of their values is a bucket of its own.',
      minItems: 1,
      maxItems: 10
    })
  }),
  configOptional: false,
  terminates: 'sometimes',
  denies: ({ enforce = true }) => enforce,
  results: {
    name: 'rate_limit',
    fields: {
      bucket_key: 'string',
      limited: 'bool',
      remaining: 'int',
      reset_seconds: 'int',
      'error.code': 'string',
      'error.message': 'string'
    }
  },
  compile({ name, enforce = true, capacity, rate, bucket_key }, scope) {
    const { services, owner } = scope
    const keys = bucket_key.map((source, i) => scope.expression(source, ['bucket_key', i]))
    const seconds = (parseDuration(rate) ?? DAY) / SECOND
    const window = scope.keep(
      ['rate-limit', name, seconds, ...bucket_key],
      (identity) => new SlidingWindow(services.limiter, identity, seconds)
    )
    const meter = services.meter.limit(owner, name)
    const fields =
      enforce && services.rateLimitHeaders === 'draft' ? rateLimitFields(name, capacity, seconds) : undefined
    return (flow) => {
      const bucket = bucketOf(keys, flow, services.expressions)
      const decision = window.take(bucket.key, capacity)
      fields?.(flow, decision.remaining, decision.resetSeconds)
      flow.publish('rate_limit', {
        bucket_key: tupleText(bucket.values, services.expressions),
        limited: !decision.admitted,
        remaining: decision.remaining,
        reset_seconds: decision.resetSeconds,
        'error.code': bucket.errorCode,
        'error.message': bucket.errorMessage
      })
      if (decision.admitted) {
        meter.admitted.inc()
        return undefined
      }
      if (!enforce) {
        meter.wouldRefuse.inc()
        return undefined
      }
      meter.refused.inc()
      return refuse(rateLimitErrors.RATE_LIMITED, ['retry-after', String(decision.retryAfterSeconds)])
    }
  }
})

interface Bucket {
  readonly key: string
  /** The values of the tuple; one that failed is undefined. */
  readonly values: readonly unknown[]
  readonly errorCode: string
  readonly errorMessage: string
}

function bucketOf(keys: readonly Expression[], flow: Flow, expressions: Expressions): Bucket {
  const parts: string[] = []
  const values: unknown[] = []
  let errorCode = ''
  let errorMessage = ''
  for (let i = 0; i < keys.length; i++) {
    try {
      const value = (keys[i] as Expression).evaluate(flow)
      // Marked by kind: bytes are written as text in JSON, and must not meet a string that reads the same.
      parts.push(typeof value === 'string' ? `s${value}` : `j${JSON.stringify(expressions.dataOf(value))}`)
      values.push(value)
    } catch (error) {
      if (!(error instanceof EvaluationError)) throw error
      parts.push('e')
      values.push(undefined)
      if (errorCode === '') {
        errorCode = (error.kind === 'absent' ? rateLimitErrors.BUCKET_KEY_ABSENT : rateLimitErrors.BUCKET_KEY_FAILED)
          .code
        errorMessage = `bucket_key[${i}]: ${error.message}`
      }
    }
  }
  return { key: encodeKey(parts), values, errorCode, errorMessage }
}

/** The tuple as JSON, for people. */
function tupleText(values: readonly unknown[], expressions: Expressions): string {
  return JSON.stringify(values.map((value) => (value === undefined ? '<error>' : expressions.dataOf(value))))
}

export const rateLimit = defineFeature({ name: 'rate-limit', actions: [action], errors: [rateLimitErrors] })
