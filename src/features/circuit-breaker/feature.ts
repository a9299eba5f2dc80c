import { parseDuration } from '../../lib/units.js'
import { defineAction } from '../../policy/action.js'
import { config, enforce } from '../../policy/fields.js'
import * as field from '../../schema/fields.js'
import { duration, fraction, integer, optional } from '../../schema/values.js'
import { defineFeature, defineModule, lastResults } from '../contract.js'
import { CIRCUIT_RESULTS, Circuit, circuitErrors } from './circuit.js'

const SECOND = 1_000
const span = (description: string) =>
  optional(duration({ description, min: SECOND, max: 120 * SECOND, default: '10s' }))

/**
 * Refuses with 503 and `retry-after` while the upstream fails too often: no response, or a status from 500. Only requests that reach the
 * action count. A named rule keeps its breaker when other rules are added or removed.
 */
const action = defineAction({
  type: 'circuit-breaker',
  summary: 'Refuses requests while the upstream fails too often.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: circuit-breaker
        config:
          error_threshold: 0.3
          volume_threshold: 20
          tripped_duration: 30s
`,
    request: 'GET /',
    status: 200
  },
  phases: ['on_http_request'],
  config: config({
    error_threshold: optional(
      fraction({ description: 'Share of failed requests that opens the circuit, 0.0 to 1.0.', default: 0.5 })
    ),
    volume_threshold: optional(
      integer({
        description: 'Requests in the window below which it never opens.',
        min: 1,
        max: 2_000_000_000,
        default: 10
      })
    ),
    window_duration: span('Length of the window'),
    tripped_duration: span('How long it stays open before it probes'),
    num_buckets: optional(integer({ description: 'Parts of the window.', min: 1, max: 128, default: 10 })),
    enforce: enforce()
  }),
  configOptional: true,
  terminates: 'sometimes',
  results: CIRCUIT_RESULTS,
  compile(
    {
      error_threshold: threshold = 0.5,
      volume_threshold: volume = 10,
      window_duration = '10s',
      tripped_duration = '10s',
      num_buckets: buckets = 10,
      enforce = true
    },
    scope
  ) {
    const circuit = new Circuit(
      {
        window: milliseconds(window_duration),
        tripped: milliseconds(tripped_duration),
        buckets,
        volume,
        threshold,
        enforce,
        // A rule without a name is identified by its place alone, which must not reset the breaker when it changes.
        identity: [scope.rule.startsWith('#') ? '' : scope.rule]
      },
      scope
    )
    return (flow) => circuit.admit(flow)
  }
})

/** Parses a duration; the schema has rejected invalid ones. */
function milliseconds(text: string): number {
  return parseDuration(text) ?? 10 * SECOND
}

/** Refuses with 503 `CIRCUIT_OPEN` and `retry-after` while the upstream fails too often. */
const routeModule = defineModule({
  name: 'circuit_breaker',
  description: 'Refuses requests while the upstream fails too often.',
  on: ['https'],
  fields: {
    tripped_duration: field.integer({
      description: 'Seconds that it stays open before the upstream is tried again.',
      min: 1,
      max: field.UINT32,
      default: 10,
      unit: 'seconds'
    }),
    rolling_window: field.integer({
      description: 'Seconds of the window of statistics.',
      min: 1,
      max: field.UINT32,
      default: 10,
      unit: 'seconds'
    }),
    num_buckets: field.integer({ description: 'Parts of the window.', min: 1, max: 128, default: 10 }),
    volume_threshold: field.integer({
      description: 'Requests in the window below which it never opens.',
      min: 0,
      max: field.UINT32,
      default: 10
    }),
    error_threshold_percentage: field.fraction({
      description: 'Share of failed requests that opens it, 0 to 1.',
      default: 0.5
    })
  },
  compile(config, scope) {
    const circuit = new Circuit(
      {
        window: config.rolling_window * SECOND,
        buckets: config.num_buckets,
        tripped: config.tripped_duration * SECOND,
        volume: config.volume_threshold,
        threshold: config.error_threshold_percentage,
        enforce: true,
        identity: []
      },
      scope
    )
    return { request: (flow) => circuit.admit(flow), unjudged: 'its state is that of real traffic' }
  }
})

/** Feature: circuit breaker. */
export const circuitBreaker = defineFeature({
  name: 'circuit-breaker',
  summary: 'Refuses requests for a while when the upstream fails too often.',
  actions: [action],
  modules: [routeModule],
  eventFields: {
    http: {
      'circuit_breaker.decision': {
        type: 'string',
        description: 'allow, block or allow_while_open (not enforced), by module or action; null when neither ran.',
        read: ({ flow }) => lastResults(flow, 'circuit_breaker')?.decision ?? null
      }
    }
  },
  errors: [circuitErrors]
})
