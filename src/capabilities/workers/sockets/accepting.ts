import { createServer, type Socket } from 'node:net'
import type { InheritedSockets } from '../../../lib/inherited-sockets.js'
import { canonicalAddress } from '../../../lib/ip.js'
import type { SocketParts } from '../../../proxy/data-plane.js'
import type { Address, OpenPort, PortsParts } from '../../../proxy/ports.js'
import { TcpListener, type TcpServing, turnAwayFromEdge } from '../../../proxy/tcp-listener.js'
import type { HostPort, ListenerUnit } from '../../../runtime/plan.js'
import { bind, EarlySockets } from '../../../transport/bind.js'
import type { Place } from '../../../transport/contract.js'
import { keepAlive } from '../../../transport/pipes.js'
import { ListenerPlaces, turnAway } from '../../../transport/places.js'
import type { DealtPort, SocketDealer } from './dealer.js'

type AcceptingParts = SocketParts['http']
type AcceptingTcpParts = SocketParts['tcp']

/** Sockets that this thread accepts, holds to their limits, and gives to other threads. */
export function acceptingSockets(dealer: SocketDealer, inherited: InheritedSockets) {
  return ({ http, tcp }: SocketParts): Pick<PortsParts, 'openHttp' | 'openTcp'> => ({
    openHttp: (unit) => acceptHttp(unit, http, { dealer, inherited }),
    openTcp: (edge, _at, address) => TcpListener.open(edge, new DealtTcp(edge, address, tcp, dealer), address, tcp)
  })
}

/** Returns a key for the state of a listener, independent of its address. */
export function markOf({ tls, publicPort, proxyProtocol, pathForm }: ListenerUnit): string {
  return JSON.stringify([tls, publicPort ?? null, proxyProtocol ?? null, pathForm ?? null])
}

/** The key of what serves a listener, and of what serves a port of TCP edges. */
export const httpKey = ({ name }: Pick<ListenerUnit, 'name'>): string => `http ${name}`
export const tcpKey = ({ port }: Pick<HostPort, 'port'>): string => `tcp ${port}`

/** Listens. Until `accept` connections wait. Rejects with the system's error. */
async function acceptHttp(
  unit: ListenerUnit,
  parts: AcceptingParts,
  { dealer, inherited }: { readonly dealer: SocketDealer; readonly inherited: InheritedSockets }
): Promise<OpenPort> {
  const { name, host, port, tls, proxyProtocol = false } = unit
  const { limits, forwarding, clock, metrics, turnedAway } = parts
  const exempt = (address: string) => forwarding.isTrusted(canonicalAddress(address))
  const places = new ListenerPlaces({
    limits,
    exempt,
    tls,
    arrives: tls || proxyProtocol,
    filled: (full) => turnedAway.filled(name, full)
  })
  let dealt: DealtPort | undefined
  let count = 0
  const refuse = (socket: Socket, why: Parameters<typeof turnedAway.report>[1], plain: boolean): void => {
    const address = socket.remoteAddress ?? ''
    turnAway(socket, plain)
    if (why === 'handshakes' || why === 'address-handshakes') metrics.handshakeFailed('overloaded')
    else metrics.malformed(503, 'overloaded')
    turnedAway.report(name, why, canonicalAddress(address))
  }
  const take = (socket: Socket): void => {
    keepAlive(socket, limits.tcpKeepAlive)
    if (dealt === undefined) {
      socket.on('error', () => undefined)
      socket.destroy()
      return
    }
    const id = ++count
    const place = places.enter()
    if (typeof place === 'string') {
      refuse(socket, place, (place === 'connections' || place === 'descriptors') && !tls && !proxyProtocol)
      return
    }
    // Behind a PROXY header, the client address is not known yet.
    const full = proxyProtocol ? undefined : place.of(socket.remoteAddress ?? '')
    if (typeof full === 'string') {
      place.left()
      refuse(socket, full, full === 'address-connections' && !tls)
    } else dealt.deal(socket, { id, startedAt: clock.wall(), named: !proxyProtocol }, place)
  }
  let open: (served: boolean) => void = () => undefined
  const early = new EarlySockets(
    new Promise<boolean>((resolve) => {
      open = resolve
    }),
    limits,
    take
  )
  const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }, (socket) => {
    if (!early.holds(socket)) take(socket)
  })
  const address = await bind(server, inherited.at({ host, port }))
  return {
    address,
    accept() {
      dealt = dealer.open(httpKey(unit), markOf(unit), address)
      open(true)
    },
    async drain(deadline) {
      open(false)
      server.close()
      const port = dealt
      dealt = undefined
      port?.close()
      return (await port?.drained(deadline)) ?? { ended: 0, cut: 0 }
    }
  }
}

/** The connections of one port of TCP edges, which other threads serve. */
class DealtTcp implements TcpServing {
  readonly #address: Address
  readonly #parts: AcceptingTcpParts
  readonly #dealer: SocketDealer
  #edge: string
  #port: DealtPort | undefined
  readonly #before: DealtPort[] = []

  constructor(edge: string, address: Address, parts: AcceptingTcpParts, dealer: SocketDealer) {
    this.#edge = edge
    this.#address = address
    this.#parts = parts
    this.#dealer = dealer
  }

  adopt(socket: Socket, { id, startedAt }: { readonly id: number; readonly startedAt: number }, place: Place): void {
    const { proxyProtocol, forwarding } = this.#parts
    const peer = socket.remoteAddress ?? ''
    const named = !proxyProtocol || !forwarding.isTrusted(canonicalAddress(peer))
    const full = named ? place.of(peer) : undefined
    if (typeof full === 'string') {
      place.left()
      turnAwayFromEdge(socket, { edge: this.#edge, peer }, full, this.#parts)
      return
    }
    this.#port ??= this.#dealer.open(tcpKey(this.#address), this.#edge, this.#address)
    this.#port.deal(socket, { id, startedAt, named }, place)
  }

  /** The handlers of connections that are drained end them themselves. */
  hand(edge: string): void {
    if (edge === this.#edge) return
    this.#edge = edge
    const before = this.#port
    this.#port = undefined
    if (before === undefined) return
    before.close()
    this.#before.push(before)
    void before.drained(this.#parts.timeouts.drain).then(() => this.#before.splice(this.#before.indexOf(before), 1))
  }

  async drain(deadline: number) {
    this.#port?.close()
    const all = [...this.#before, ...(this.#port === undefined ? [] : [this.#port])]
    const drained = await Promise.all(all.map((port) => port.drained(deadline)))
    const sum = (of: 'ended' | 'cut') => drained.reduce((total, one) => total + one[of], 0)
    return { ended: sum('ended'), cut: sum('cut') }
  }
}
