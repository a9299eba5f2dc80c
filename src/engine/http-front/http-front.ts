import type { Clock } from '../../lib/clock.js'
import type { Front } from '../contract.js'
import { HttpListener } from './http-listener.js'

/** HTTP/1.x for clients, on node:http. */
export function httpFront(parts: { clock: Clock }): Front {
  return {
    listen: (at, options, handler) => HttpListener.open(parts.clock, at, options, handler)
  }
}
