import { createSocket, type RemoteInfo, type Socket as UdpSocket } from 'node:dgram'
import { createServer, isIPv4, isIPv6, type Server, type Socket } from 'node:net'
import { ClientShares, clientKey } from '../../../lib/client-limits.js'
import {
  type Answer,
  nameBytes,
  type Query,
  RCODE,
  type ResourceData,
  readQuery,
  TYPE,
  writeAnswer
} from './message.js'

interface DnsListenerParts {
  readonly answer: (query: Query) => Answer
  readonly log: { warn(fields: object, message: string): void }
}

/** A bound name server. */
export interface DnsListener {
  /** The same port for UDP and TCP. */
  readonly address: { readonly host: string; readonly port: number }
  close(): Promise<void>
}

const MOST_CONNECTIONS = 100
/** Maximum number of connections per client. */
const MOST_OF_CLIENT = 10
/** Milliseconds that a connection may be silent. */
const IDLE = 10_000
/** Maximum number of queries per connection. */
const MOST_QUERIES = 100
/** Maximum size of a query (bytes). */
const LARGEST_QUERY = 1024
/** Maximum number of attempts to find a port that is free for UDP and TCP. */
const ATTEMPTS = 8

/** Responds to queries on UDP and TCP of one port; port 0 selects one that is free for both. Rejects with the system's error. */
export async function openDnsListener(
  { host, port }: { readonly host: string; readonly port: number },
  parts: DnsListenerParts
): Promise<DnsListener> {
  for (let attempt = 1; ; attempt++) {
    const udp = await bindUdp(host, port, parts)
    const bound = udp.address().port
    try {
      const tcp = await bindTcp(host, bound, parts)
      return { address: { host, port: bound }, close: () => close(udp, tcp) }
    } catch (error) {
      await closeUdp(udp)
      // A free port of the one may be taken in the other.
      if (port !== 0 || attempt === ATTEMPTS) throw error
    }
  }
}

interface Bound {
  readonly server: Server
  readonly open: Set<Socket>
}

async function bindUdp(host: string, port: number, parts: DnsListenerParts): Promise<UdpSocket> {
  const socket = createSocket({ type: isIPv6(host) ? 'udp6' : 'udp4' })
  socket.on('message', (message, peer) => answerDatagram(socket, message, peer, parts))
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.bind(port, host, () => {
      socket.off('error', reject)
      resolve()
    })
  })
  socket.on('error', (error) => parts.log.warn({ err: error }, 'the DNS listener failed to receive'))
  return socket
}

function answerDatagram(
  socket: UdpSocket,
  message: Uint8Array,
  { address, port }: RemoteInfo,
  parts: DnsListenerParts
) {
  const bytes = respond(message, 'udp', parts)
  // A datagram that the network refuses is lost like any other.
  if (bytes !== undefined) socket.send(bytes, port, address, () => undefined)
}

function respond(message: Uint8Array, transport: 'udp' | 'tcp', { answer }: DnsListenerParts): Uint8Array | undefined {
  if (message.length > LARGEST_QUERY) return undefined
  const reading = readQuery(message)
  if (reading === undefined) return undefined
  return reading.ok ? writeAnswer(reading.query, answer(reading.query), transport) : reading.refusal
}

async function bindTcp(host: string, port: number, parts: DnsListenerParts): Promise<Bound> {
  const open = new Set<Socket>()
  const shares = new ClientShares(() => MOST_OF_CLIENT)
  const server = createServer((socket) => {
    const client = clientKey(socket.remoteAddress ?? '')
    if (shares.exceeds(client, 1)) return void socket.destroy()
    shares.count(client, 1)
    open.add(socket)
    socket.on('close', () => {
      open.delete(socket)
      shares.count(client, -1)
    })
    serve(socket, parts)
  })
  server.maxConnections = MOST_CONNECTIONS
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  server.on('error', (error) => parts.log.warn({ err: error }, 'the DNS listener failed to accept'))
  return { server, open }
}

/** Queries with their length before them (RFC 1035 4.2.2), several on one connection (RFC 7766). */
function serve(socket: Socket, parts: DnsListenerParts): void {
  let rest: Uint8Array = Buffer.alloc(0)
  let queries = 0
  socket.setTimeout(IDLE, () => socket.destroy())
  // A client that disconnects is no error.
  socket.on('error', () => undefined)
  socket.on('data', (chunk: Buffer) => {
    let bytes = Buffer.concat([rest, chunk])
    while (bytes.length >= 2) {
      const length = bytes.readUInt16BE(0)
      if (length > LARGEST_QUERY || ++queries > MOST_QUERIES) return void socket.destroy()
      if (bytes.length < 2 + length) {
        queries--
        break
      }
      const answer = respond(bytes.subarray(2, 2 + length), 'tcp', parts)
      if (answer === undefined) return void socket.destroy()
      const framed = Buffer.alloc(2)
      framed.writeUInt16BE(answer.length)
      // A client that does not read its responses is disconnected.
      if (!socket.write(Buffer.concat([framed, answer]))) return void socket.destroy()
      bytes = bytes.subarray(2 + length)
    }
    rest = bytes
  })
}

async function close(udp: UdpSocket, { server, open }: Bound): Promise<void> {
  for (const socket of open) socket.destroy()
  await Promise.all([closeUdp(udp), new Promise<void>((resolve) => server.close(() => resolve()))])
}

function closeUdp(udp: UdpSocket): Promise<void> {
  return new Promise((resolve) => udp.close(() => resolve()))
}

/** Contents of the zones, read for each query. Names are lower-case. */
export interface ZoneContent {
  /** Domains that are delegated to this service beside the zone of the challenges. */
  domains(): Iterable<string>
  /** Values of the TXT records at a name. */
  texts(name: string): readonly string[]
  /** Is this an address for agents? */
  isAgentHost(name: string): boolean
}

interface ZoneParts {
  /** The zone of the challenges. */
  readonly apex: string
  /** Names of the name servers. */
  readonly servers: readonly string[]
  /** Addresses of this service, for its names in delegated domains; none: such names have no address here. */
  readonly addresses: readonly string[]
  readonly content: ZoneContent
}

/**
 * TTL of records of challenges (seconds). Short, because challenges change: no resolver should cache a response, or its absence, for a minute.
 */
const SHORT = 1
/** TTL of records that do not change (seconds). */
const LONG = 300

/** The records of the zones that are delegated to this service: SOA, NS, TXT of challenges and addresses for agents. */
export class Zones {
  readonly #parts: ZoneParts

  constructor(parts: ZoneParts) {
    this.#parts = parts
  }

  answer({ name, type, isInternet, edns }: Query): Answer {
    if (edns !== undefined && edns.version > 0) return { rcode: RCODE.BADVERS, authoritative: false, answers: [] }
    const zone = isInternet ? this.#zoneOf(name) : undefined
    if (zone === undefined) return { rcode: RCODE.REFUSED, authoritative: false, answers: [] }
    // RFC 8482: an ANY query gets one small record set, so that it cannot be used for amplification.
    const answers = this.#records(zone, name, type === TYPE.ANY ? TYPE.SOA : type)
    if (answers.length > 0) return { rcode: RCODE.NOERROR, authoritative: true, answers }
    // Never NXDOMAIN: a resolver that queries label by label (RFC 9156) would stop at a parent of existing names.
    const authority = { name: zone, data: this.#soa(zone) }
    return { rcode: RCODE.NOERROR, authoritative: true, answers: [], authority }
  }

  /** The longest zone that the name is in. */
  #zoneOf(name: string): string | undefined {
    let found: string | undefined
    const { apex, content } = this.#parts
    for (const zone of [apex, ...content.domains()]) {
      const within = name === zone || name.endsWith(`.${zone}`)
      if (within && zone.length > (found?.length ?? -1)) found = zone
    }
    return found
  }

  #records(zone: string, name: string, type: number): ResourceData[] {
    const { servers, addresses, content } = this.#parts
    if (type === TYPE.TXT) {
      return content.texts(name).map((value) => ({ type, ttl: SHORT, data: text(value) }))
    }
    if (name === zone && type === TYPE.SOA) return [this.#soa(zone)]
    if (name === zone && type === TYPE.NS) {
      return servers.map((server) => ({ type, ttl: LONG, data: nameBytes(server) }))
    }
    if (!content.isAgentHost(name)) return []
    if (type === TYPE.A) return addresses.filter(isIPv4).map((one) => ({ type, ttl: LONG, data: address4(one) }))
    if (type === TYPE.AAAA) return addresses.filter(isIPv6).map((one) => ({ type, ttl: LONG, data: address6(one) }))
    return []
  }

  #soa(zone: string): ResourceData {
    const numbers = Buffer.alloc(20)
    // These zones are never transferred, so that their serial number never has to change.
    for (const [index, seconds] of [1, 3600, 600, 86_400, SHORT].entries()) numbers.writeUInt32BE(seconds, index * 4)
    const server = nameBytes(this.#parts.servers[0] ?? zone)
    // No mailbox belongs to them either.
    return { type: TYPE.SOA, ttl: SHORT, data: Buffer.concat([server, nameBytes(''), numbers]) }
  }
}

/** A character string (RFC 1035 3.3.14); the values of challenges are far below 256 bytes. */
function text(value: string): Uint8Array {
  const bytes = Buffer.from(value.slice(0, 255), 'latin1')
  return Buffer.concat([Buffer.of(bytes.length), bytes])
}

function address4(address: string): Uint8Array {
  return Buffer.from(address.split('.').map(Number))
}

function address6(address: string): Uint8Array {
  const [head = '', tail = ''] = address.split('::')
  const groups = (part: string) => (part === '' ? [] : part.split(':').flatMap(group))
  const [left, right] = [groups(head), groups(tail)]
  const middle = address.includes('::') ? Array<number>(8 - left.length - right.length).fill(0) : []
  const bytes = Buffer.alloc(16)
  for (const [index, value] of [...left, ...middle, ...right].entries()) bytes.writeUInt16BE(value, index * 2)
  return bytes
}

function group(text: string): number[] {
  if (!text.includes('.')) return [Number.parseInt(text, 16)]
  const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number)
  return [a * 256 + b, c * 256 + d]
}
