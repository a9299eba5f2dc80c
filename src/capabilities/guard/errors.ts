import { defineErrors } from '../../lib/errors.js'

/** Codes of writes whose guard is rejected. */
export const guardErrors = defineErrors({
  GUARD_INVALID: {
    status: 400,
    text: 'The guard of a write is not well formed.',
    help: 'Write it as in `bake=30s; error-rate=+2%; refusal-rate=+5%`; the message names the part that is wrong.'
  },
  GUARD_UNSUPPORTED: {
    status: 400,
    text: 'The process that answers cannot judge a condition of the guard.',
    help: 'Leave the condition out; the message says what it lacks.'
  },
  GUARD_IMPOSSIBLE: {
    status: 409,
    text: 'A write with a guard changes what no revert could bring back, such as secrets.',
    help: 'Make that part of the change in a write of its own, without a guard.'
  }
})
