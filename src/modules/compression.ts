import { Compressor } from '../policy/actions/compressor.js'
import { usualCodings } from '../policy/actions/encoders.js'
import { decisionCounters } from '../policy/services.js'
import { defineModule } from './contract.js'

/**
 * Compresses responses for clients that accept it. Responses to requests with cookies stay as they are, because their
 * compressed length can give away a secret that they hold (BREACH); the action `compress-response` takes them when told so.
 */
export const compression = defineModule('compression', (_config, { owner, services }) => {
  const compressor = new Compressor(usualCodings, { withCookies: false })
  const counters = decisionCounters(services.meter, owner, 'compression', ['compressed', 'unchanged'])
  return {
    response: (flow) => {
      const outcome = compressor.compress(flow)
      if (outcome !== undefined) counters[outcome.coding === undefined ? 'unchanged' : 'compressed'].inc()
      return undefined
    }
  }
})
