import type { Clock } from '../../lib/clock.js'
import { DeadlineTimer } from '../../lib/deadline-timer.js'
import type { Answer, ClientTransport } from '../contract.js'
import { READ_BYTES } from '../http1/wire.js'
import type { ClientHost } from './client-connection.js'
import { Http2Forwarding } from './client-forwarding.js'
import { ClientPool } from './client-pool.js'

const CHECK_PERIOD = 50

/** HTTP/2 to upstreams (RFC 9113), which their dialers must lead to: by ALPN, or by prior knowledge in clear text. */
export function http2Back({ clock }: { clock: Clock }): ClientTransport {
  const host: ClientHost = {
    shared: Buffer.allocUnsafeSlow(READ_BYTES),
    deadlineTimer: new DeadlineTimer(clock, CHECK_PERIOD),
    now: () => clock.monotonic()
  }
  const pool = new ClientPool(host)
  return {
    forward(exchange, dialer, options, answered) {
      // A frame is read to its end before what it brings is acted on.
      const answer = new Promise<Answer>((resolve) => {
        new Http2Forwarding(host, exchange, options, resolve).start(pool, dialer)
      })
      void answer.then(answered)
    },
    retainUpstreams: (keys) => pool.retain(keys),
    endUpstream: (key) => pool.end(key),
    close: () => pool.close()
  }
}

/** Takes `http2` for the dialers that ask for it, and `back` for all others. */
export function byVersion(back: ClientTransport, http2: ClientTransport): ClientTransport {
  return {
    forward(exchange, dialer, options, answered) {
      const transport = dialer.http2 === true ? http2 : back
      transport.forward(exchange, dialer, options, answered)
    },
    retainUpstreams(keys) {
      back.retainUpstreams(keys)
      http2.retainUpstreams(keys)
    },
    endUpstream(key) {
      back.endUpstream(key)
      http2.endUpstream(key)
    },
    close() {
      back.close()
      http2.close()
    }
  }
}
