import type { Clock } from '../../lib/clock.js'
import type { Front } from '../contract.js'
import { Http2Protocol } from '../http2/http2-protocol.js'
import { ClientListener } from '../listener.js'
import { HttpProtocol } from './http-protocol.js'

/** HTTP/1.x for clients, on node:http; HTTP/2 for those that choose it over TLS. */
export function httpFront({ clock }: { clock: Clock }): Front {
  return {
    listen: (at, options, handler) =>
      ClientListener.open(clock, at, options, handler, (host) => ({
        http1: new HttpProtocol(host),
        h2: new Http2Protocol(host)
      }))
  }
}
