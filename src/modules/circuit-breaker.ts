import { Circuit } from '../policy/circuit.js'
import { defineModule } from './contract.js'

const SECOND = 1_000

interface CircuitBreakerConfig {
  /** Seconds. */
  readonly tripped_duration: number
  /** Seconds. */
  readonly rolling_window: number
  readonly num_buckets: number
  readonly volume_threshold: number
  /** 0 to 1. */
  readonly error_threshold_percentage: number
}

/** Refuses requests while the upstream fails too often: 503 `CIRCUIT_OPEN` with `retry-after`. */
export const circuitBreakerModule = defineModule<CircuitBreakerConfig>('circuit_breaker', (config, scope) => {
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
  return { request: (flow) => circuit.admit(flow) }
})
