import type { Clock } from '../../lib/clock.js'
import { DeadlineTimer } from '../../lib/deadline-timer.js'
import type { Answer, ClientTransport, Dialer } from '../contract.js'
import { READ_BYTES } from '../http1/wire.js'
import type { ClientHost } from './client-connection.js'
import { Http2Forwarding } from './client-forwarding.js'
import { ClientPool } from './client-pool.js'
import type { WindowBudget } from './receive-window.js'

const CHECK_PERIOD = 50

/**
 * Client transport for HTTP/2 (RFC 9113). The dialers must open HTTP/2 connections: by ALPN, or by prior knowledge without TLS. `windows` bounds the
 * growth of receive windows. `http1` sends the requests that a server accepts over HTTP/1.1 only: WebSockets without extended CONNECT (RFC 8441),
 * and HTTP_1_1_REQUIRED (RFC 9113 7).
 */
export function http2Back({
  clock,
  http1,
  windows
}: {
  clock: Clock
  http1?: ClientTransport
  windows?: WindowBudget
}): ClientTransport {
  const host: ClientHost = {
    windows,
    shared: Buffer.allocUnsafeSlow(READ_BYTES),
    deadlineTimer: new DeadlineTimer(clock, CHECK_PERIOD),
    now: () => clock.monotonic()
  }
  const pool = new ClientPool(host)
  return {
    forward(exchange, dialer, options, answered) {
      // The promise settles only after the current frame has been read.
      const answer = new Promise<Answer | 'http1'>((resolve) => {
        new Http2Forwarding(host, exchange, options, resolve).start(pool, dialer)
      })
      void answer.then((found) => {
        if (found !== 'http1') answered(found)
        else if (http1 === undefined) answered(HTTP1_ONLY)
        else http1.forward(exchange, withHttp1(dialer), options, answered)
      })
    },
    retainUpstreams: (keys) => pool.retain(keys),
    endUpstream: (key) => pool.end(key),
    close: () => pool.close()
  }
}

const HTTP1_ONLY: Answer = {
  kind: 'failed',
  failure: 'upstream-malformed',
  retry: 'never',
  detail: 'the server takes the request over HTTP/1.1 only'
}

/** Returns a dialer for HTTP/1.1 to the same server. No set of retained keys has its key, so idle connections are soon closed. */
function withHttp1(dialer: Dialer): Dialer {
  return {
    key: `${dialer.key} http/1.1`,
    reusable: dialer.reusable,
    open: (why) => dialer.open({ ...why, bytes: true })
  }
}

/** Uses `http2` for dialers with `http2`, and `back` for all others. */
export function byVersion(back: ClientTransport, http2: ClientTransport): ClientTransport {
  return {
    forward(exchange, dialer, options, answered) {
      if (dialer.answers !== undefined) return dialer.answers(exchange, dialer, options, answered)
      const transport = dialer.http2 === true ? http2 : back
      return transport.forward(exchange, dialer, options, answered)
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
