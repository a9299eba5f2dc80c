import { parentPort, workerData } from 'node:worker_threads'
import { systemClock } from '../clock.js'
import type { Lookup } from '../names/lookups.js'
import { createNames } from '../names/names.js'
import { type OutboundRequest, outboundError } from './answer.js'
import { createOutbound } from './outbound.js'
import type { OutboundOrder, OutboundReply, OutboundThreadData } from './thread-protocol.js'

/** Thread that sends outbound requests concurrently. */
function serve(): void {
  const port = parentPort
  if (port === null) return
  const { names, ...rules } = workerData as OutboundThreadData
  const looked = (lookup: Lookup) => port.postMessage({ looked: lookup } satisfies OutboundReply)
  const { lookup } = createNames(names, systemClock, looked)
  const outbound = createOutbound({ clock: systemClock, ...rules, lookup })
  const under = new Map<number, AbortController>()
  const run = async (number: number, request: OutboundRequest): Promise<OutboundReply> => {
    const ending = new AbortController()
    under.set(number, ending)
    try {
      return { number, answer: await outbound.request({ ...request, signal: ending.signal }) }
    } catch {
      // Only invalid authorities make it throw, and without them there is no handshake.
      return { number, answer: outboundError('TLS_FAILED', 0) }
    } finally {
      under.delete(number)
    }
  }
  port.on('message', ({ number, request }: OutboundOrder) => {
    if (request === undefined) under.get(number)?.abort()
    else void run(number, request).then((reply) => port.postMessage(reply))
  })
}

serve()
