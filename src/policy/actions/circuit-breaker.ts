import Type from 'typebox'
import { defineUnavailable } from '../action.js'
import { config, duration, enforce, whole } from '../fields.js'

const SECOND = 1_000
const span = (description: string) =>
  Type.Optional(duration({ description, min: SECOND, max: 120 * SECOND, default: '10s' }))

/** Refuses while the upstream fails too often. */
export const circuitBreaker = defineUnavailable({
  type: 'circuit-breaker',
  phases: ['on_http_request'],
  config: config({
    error_threshold: Type.Optional(
      Type.Number({
        description: 'Share of failed requests that opens the circuit, 0.0 to 1.0.',
        minimum: 0,
        maximum: 1,
        default: 0.5
      })
    ),
    volume_threshold: Type.Optional(
      whole({
        description: 'Requests in the window below which it never opens.',
        min: 1,
        max: 2_000_000_000,
        default: 10
      })
    ),
    window_duration: span('Length of the window'),
    tripped_duration: span('How long it stays open before it probes'),
    num_buckets: Type.Optional(whole({ description: 'Parts of the window.', min: 1, max: 128, default: 10 })),
    enforce: enforce()
  }),
  configOptional: true,
  terminates: 'sometimes'
})
