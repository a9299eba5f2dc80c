import type { Clock } from '../../lib/clock.js'
import { Sweeper } from '../../lib/sweeper.js'
import type { Back } from '../contract.js'
import { requester } from './facades.js'
import { Forwarding, type Parts } from './forwarding.js'
import { UpstreamPool } from './upstream-pool.js'

const SWEEP_PERIOD = 50

/** HTTP/1.1 to upstreams, on http-proxy. */
export function httpProxyBack({ clock }: { clock: Clock }): Back {
  const pool = new UpstreamPool()
  const parts: Parts = { clock, pool, sweeper: new Sweeper(clock, SWEEP_PERIOD), request: requester() }
  return {
    forward(exchange, dialer, options) {
      const forwarding = new Forwarding(parts, exchange, dialer, options)
      forwarding.start()
      return forwarding.answer
    },
    retainUpstreams: (keys) => pool.retain(keys),
    close: () => pool.close()
  }
}
