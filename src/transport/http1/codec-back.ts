import type { Clock } from '../../lib/clock.js'
import { Sweeper } from '../../lib/sweeper.js'
import type { Answer, Back } from '../contract.js'
import { Forwarding } from './forwarding.js'
import { FieldNames } from './names.js'
import { DateLine, Serialiser } from './serialise.js'
import type { UpstreamHost } from './upstream-connection.js'
import { UpstreamPool } from './upstream-pool.js'
import { READ_BYTES } from './wire.js'

const SWEEP_PERIOD = 50
/** Idle connections that are kept for one upstream. */
const MOST_IDLE = 1024

/** HTTP/1.1 to upstreams, on raw sockets; keeps up to `mostIdle` idle connections for each. */
export function codecBack({ clock, mostIdle = MOST_IDLE }: { clock: Clock; mostIdle?: number }): Back {
  const pool = new UpstreamPool(clock, mostIdle)
  const names = new FieldNames()
  const host: UpstreamHost = {
    names,
    serialiser: new Serialiser(names, new DateLine(clock)),
    shared: Buffer.allocUnsafeSlow(READ_BYTES),
    pool,
    sweeper: new Sweeper(clock, SWEEP_PERIOD)
  }
  return {
    forward: (exchange, dialer, options) =>
      new Promise<Answer>((resolve) => {
        new Forwarding(host, exchange, dialer, options, resolve).start()
      }),
    retainUpstreams: (keys) => pool.retain(keys),
    close: () => pool.close()
  }
}
