import { defineErrors } from '../../lib/errors.js'

/** Error codes of the action rate-limit. */
export const rateLimitErrors = defineErrors({
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
  },
  LIMIT_CAPACITY_FAILED: {
    status: 500,
    text: 'The capacity of a limit has no value for the request, which is refused: how many may pass is not known.',
    help: 'Use an expression that is a whole number from 1 to 2000000000 for every request.'
  },
  LIMIT_COST_FAILED: {
    status: 500,
    text: 'The cost of a request has no value, and the request is refused: what it weighs is not known.',
    help: 'Use an expression that is a whole number from 0 to 2000000000 for every request, such as has(vars.weight) ? vars.weight : 1.'
  }
})
