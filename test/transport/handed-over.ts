import type { Socket } from 'node:net'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { acceptingSockets, httpKey, markOf } from '../../src/capabilities/workers/sockets/accepting.js'
import { type ServingThread, SocketDealer } from '../../src/capabilities/workers/sockets/dealer.js'
import { SocketInlet } from '../../src/capabilities/workers/sockets/inlet.js'
import type { FromServing, ToServing } from '../../src/capabilities/workers/sockets/protocol.js'
import type { Clock } from '../../src/lib/clock.js'
import { InheritedSockets } from '../../src/lib/inherited-sockets.js'
import type { SocketParts } from '../../src/proxy/data-plane.js'
import type { ListenerUnit } from '../../src/runtime/plan.js'
import type {
  Handler,
  Listening,
  ListenOptions,
  ServerTransport,
  SocketTransport
} from '../../src/transport/contract.js'

/**
 * A transport whose connections are accepted as a process with threads accepts them: dealt out, held to their limits, and handed over by
 * messages to `count` places that serve them. These are in one thread here, so that a test sees what they do.
 */
export function handedOver(transport: SocketTransport, clock: Clock, count = 2): ServerTransport {
  return {
    async listen(at, options, handler) {
      if ('fd' in at) throw new TypeError('these ports are bound, and not inherited')
      const dealer = new SocketDealer({ enter: async () => () => undefined })
      const unit = unitOf(at, options)
      const port = await acceptingSockets(
        dealer,
        new InheritedSockets()
      )(partsOf(options, handler, clock)).openHttp(unit)
      const serving = Array.from({ length: count }, () => new Serving(dealer, transport, { unit, options, handler }))
      port.accept()
      return listeningOf(port, serving)
    }
  }
}

interface Served {
  readonly unit: ListenerUnit
  readonly options: ListenOptions
  readonly handler: Handler
}

/** A place that serves connections, as a thread does. */
class Serving implements ServingThread {
  readonly listening: Listening
  readonly #near: MessagePort
  readonly #far: MessagePort

  constructor(dealer: SocketDealer, transport: SocketTransport, { unit, options, handler }: Served) {
    const { port1, port2 } = new MessageChannel()
    this.#near = port1
    this.#far = port2
    const inlet = new SocketInlet((message) => port2.postMessage(message))
    const { name, limits, ...rest } = options
    // The accepting side holds the limits of connections.
    const unlimited = { name, limits: { ...limits, connections: 0 }, ...rest }
    const adopting = transport.adopting({ host: unit.host, port: unit.port }, unlimited, handler)
    inlet.serves(httpKey(unit), markOf(unit), adopting)
    this.listening = adopting
    port1.on('message', (message: FromServing) => dealer.receive(this, message))
    port2.on('message', (message: ToServing) => inlet.receive(message))
    dealer.begins(this)
    dealer.serves(this)
  }

  post(message: ToServing, socket?: Socket): boolean {
    try {
      this.#near.postMessage(message, socket === undefined ? [] : [socket as never])
      return true
    } catch {
      return false
    }
  }

  close(): void {
    this.#near.close()
    this.#far.close()
  }
}

function listeningOf(
  port: { readonly address: Listening['address']; drain: Listening['drain'] },
  serving: readonly Serving[]
): Listening {
  return {
    address: port.address,
    get open() {
      return serving.reduce((sum, { listening }) => sum + listening.open, 0)
    },
    async drain(deadline) {
      const drained = await Promise.all(
        [port, ...serving.map(({ listening }) => listening)].map((one) => one.drain(deadline))
      )
      for (const one of serving) one.close()
      const [, ...served] = drained
      return served.reduce((sum, { ended, cut }) => ({ ended: sum.ended + ended, cut: sum.cut + cut }))
    }
  }
}

function unitOf(
  { host, port }: { readonly host: string; readonly port: number },
  { name, tls }: ListenOptions
): ListenerUnit {
  return { kind: 'listener', name, host, port, tls: tls !== undefined, proxyProtocol: false, pathForm: 'lenient' }
}

/** What accepting takes of the parts of a data plane. */
function partsOf({ limits, exempt = () => false }: ListenOptions, handler: Handler, clock: Clock): SocketParts {
  const http = {
    limits,
    clock,
    forwarding: { isTrusted: exempt },
    metrics: {
      handshakeFailed: () => undefined,
      malformed: (status: number, why: string) => handler.refused(undefined as never, status, why as never)
    },
    turnedAway: { report: () => undefined, filled: () => undefined }
  }
  return { http, tcp: undefined } as unknown as SocketParts
}
