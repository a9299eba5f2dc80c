import type { Flow } from '../flow/flow.js'
import type { Outcome } from './breaker.js'

/** Codes of answers of our own that say that an upstream was asked and did not answer as it must. */
const UPSTREAM_FAILURES = new Set([
  'UPSTREAM_REFUSED',
  'UPSTREAM_CONNECT_TIMEOUT',
  'UPSTREAM_TLS',
  'UPSTREAM_MALFORMED',
  'UPSTREAM_TIMEOUT',
  'UPSTREAM_GONE'
])

/**
 * How the upstream did in this exchange. It failed when it did not answer, and when it answered with a status of 500 or above.
 * Answers of modules and policies say nothing about it, nor does a group without tunnels, where nobody was asked: those are
 * made here, and the field that tells them from failures of the upstream cannot be written by an upstream, a client or a
 * policy.
 */
export function upstreamOutcome({ response }: Flow): Outcome {
  if (response === undefined) return 'unknown'
  if (!response.local) return response.status >= 500 ? 'failed' : 'succeeded'
  return UPSTREAM_FAILURES.has(response.headers.get('sluice-error-code') ?? '') ? 'failed' : 'unknown'
}
