import { fraction, UINT32, whole as wholeField } from '../fields.js'
import { module } from '../objects.js'

/** Refuses while the upstream fails too often. */
export function circuitBreakerFields() {
  return module('Refuses requests while the upstream fails too often.', {
    tripped_duration: wholeField({
      description: 'Seconds that it stays open before the upstream is tried again.',
      min: 1,
      max: UINT32,
      default: 10
    }),
    rolling_window: wholeField({
      description: 'Seconds of the window of statistics.',
      min: 1,
      max: UINT32,
      default: 10
    }),
    num_buckets: wholeField({ description: 'Parts of the window.', min: 1, max: 128, default: 10 }),
    volume_threshold: wholeField({
      description: 'Requests in the window below which it never opens.',
      min: 0,
      max: UINT32,
      default: 10
    }),
    error_threshold_percentage: fraction({
      description: 'Share of failed requests that opens it, 0 to 1.',
      min: 0,
      max: 1,
      default: 0.5
    })
  })
}
