import { createSocket, type RemoteInfo, type Socket as UdpSocket } from 'node:dgram'
import { createServer, isIPv6, type Server, type Socket } from 'node:net'
import { ClientShares, clientKey } from '../../lib/client-shares.js'
import { type Answer, type Query, readQuery, writeAnswer } from './message.js'

export interface DnsListenerParts {
  readonly answer: (query: Query) => Answer
  readonly log: { warn(fields: object, message: string): void }
}

export interface DnsListener {
  /** The same port for UDP and TCP. */
  readonly address: { readonly host: string; readonly port: number }
  close(): Promise<void>
}

const MOST_CONNECTIONS = 100
/** Of which one client may hold so many. */
const MOST_OF_CLIENT = 10
/** Milliseconds that a connection may be silent. */
const IDLE = 10_000
const MOST_QUERIES = 100
const LARGEST_QUERY = 1024
const ATTEMPTS = 8

/** Answers queries on UDP and TCP of one port; port 0 takes one that is free for both. Rejects with the system's error. */
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
  // Nobody waits for a datagram: what the network refuses is lost as any other.
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
  const shares = new ClientShares(MOST_OF_CLIENT)
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
  // A client that goes away is nobody's fault.
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
      // Who asks and does not read gets no more.
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
