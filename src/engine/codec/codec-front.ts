import type { Clock } from '../../lib/clock.js'
import type { Front } from '../contract.js'
import { CodecListener } from './codec-listener.js'

/** HTTP/1.x for clients, on raw sockets. */
export function codecFront({ clock }: { clock: Clock }): Front {
  return {
    listen: (at, options, handler) => CodecListener.open(clock, at, options, handler)
  }
}
