import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { connect, isIP } from 'node:net'
import { codeOf } from '../errors.js'
import { parseAuthority } from '../host.js'

/** A server of a service (RFC 2782). */
export interface Service {
  /** In lower case, without a trailing dot. */
  readonly host: string
  readonly port: number
  /** The lowest is tried first. */
  readonly priority: number
  /** Share of the traffic within its priority. */
  readonly weight: number
}

interface Found {
  readonly services: readonly Service[]
  /** In seconds. */
  readonly ttl: number
}

const HEADER = 12
const TYPE = { SRV: 33, OPT: 41 }
const IN = 1
const PORT = 53
const LARGEST = 65_535
/** Maximum size of a UDP response in bytes, to avoid fragments (RFC 9715). */
const UDP_BYTES = 1232
const RCODE: Readonly<Record<number, string>> = {
  1: 'EFORMERR',
  2: 'ESERVFAIL',
  3: 'ENOTFOUND',
  4: 'ENOTIMP',
  5: 'EREFUSED'
}

/**
 * Queries DNS servers for the SRV records of a name, one after the other, and over TCP if a datagram is too small; node's resolver does not
 * return their lifetime. `servers`: `address` or `address:port`. Rejects with an Error with `code`: `ENOTFOUND` for a missing service,
 * `ETIMEOUT` without a response, else the last server's code.
 */
export async function askServices(
  servers: readonly string[],
  name: string,
  { timeout, tries }: { readonly timeout: number; readonly tries: number }
): Promise<Found> {
  let last: Error = failure('ENOTFOUND', name)
  const plain = name.toLowerCase().replace(/\.$/, '')
  if (!/^(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}$/.test(plain) || plain.length > 253) throw last
  for (let round = 0; round < tries; round++) {
    for (const server of servers) {
      const at = placeOf(server)
      const id = randomInt(0x10000)
      const query = questionOf(id, plain)
      try {
        const short = await overUdp(at, query, timeout * (round + 1))
        const truncated = (short.readUInt8(2) & 0x02) !== 0
        return servicesOf(truncated ? await overTcp(at, query, timeout) : short, plain)
      } catch (error) {
        last = error as Error
        // The service does not exist, and other servers would respond alike.
        if (codeOf(error) === 'ENOTFOUND') throw error
      }
    }
  }
  throw last
}

interface Place {
  readonly host: string
  readonly port: number
}

function placeOf(server: string): Place {
  if (isIP(server) !== 0) return { host: server, port: PORT }
  const { host = server, port = PORT } = parseAuthority(server) ?? {}
  return { host, port }
}

function questionOf(id: number, name: string): Buffer {
  const header = Buffer.alloc(HEADER)
  header.writeUInt16BE(id, 0)
  // Recursion desired.
  header.writeUInt8(0x01, 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(1, 10)
  const labels = name.split('.').map((label) => Buffer.concat([Buffer.of(label.length), Buffer.from(label, 'latin1')]))
  const edns = Buffer.alloc(11)
  edns.writeUInt16BE(TYPE.OPT, 1)
  edns.writeUInt16BE(UDP_BYTES, 3)
  return Buffer.concat([header, ...labels, Buffer.of(0, 0, TYPE.SRV, 0, IN), edns])
}

/** Returns whether the message is the response to the query. Its name has the same case. */
function answers(message: Buffer, query: Buffer): boolean {
  if (message.length < HEADER || message.readUInt16BE(0) !== query.readUInt16BE(0)) return false
  if ((message.readUInt8(2) & 0x80) === 0) return false
  const end = query.length - 11
  // A server that cannot read the query may omit it.
  if (message.readUInt16BE(4) === 0) return (message.readUInt8(3) & 0x0f) !== 0
  return message.subarray(HEADER, end).equals(query.subarray(HEADER, end))
}

function overUdp({ host, port }: Place, query: Buffer, timeout: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = createSocket(isIP(host) === 6 ? 'udp6' : 'udp4')
    const end = (then: () => void): void => {
      clearTimeout(timer)
      socket.removeAllListeners()
      socket.on('error', () => undefined)
      socket.close()
      then()
    }
    const timer = setTimeout(() => end(() => reject(failure('ETIMEOUT', host))), timeout)
    socket.on('error', (error) => end(() => reject(error)))
    socket.on('message', (message) => {
      if (answers(message, query)) end(() => resolve(message))
    })
    // A connected socket drops datagrams of others.
    socket.connect(port, host, () => socket.send(query))
  })
}

function overTcp({ host, port }: Place, query: Buffer, timeout: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port })
    const end = (then: () => void): void => {
      clearTimeout(timer)
      socket.removeAllListeners()
      socket.on('error', () => undefined)
      socket.destroy()
      then()
    }
    const timer = setTimeout(() => end(() => reject(failure('ETIMEOUT', host))), timeout)
    let read = Buffer.alloc(0)
    socket.on('connect', () => {
      const length = Buffer.alloc(2)
      length.writeUInt16BE(query.length, 0)
      socket.write(Buffer.concat([length, query]))
    })
    socket.on('data', (chunk) => {
      read = Buffer.concat([read, chunk])
      if (read.length < 2 || read.length < 2 + read.readUInt16BE(0)) {
        if (read.length > LARGEST + 2) end(() => reject(failure('EBADRESP', host)))
        return
      }
      const message = read.subarray(2, 2 + read.readUInt16BE(0))
      end(() => (answers(message, query) ? resolve(message) : reject(failure('EBADRESP', host))))
    })
    socket.on('error', (error) => end(() => reject(error)))
    socket.on('close', () => end(() => reject(failure('EBADRESP', host))))
  })
}

/** Throws an Error with `code`, also for invalid messages. */
function servicesOf(message: Buffer, name: string): Found {
  const rcode = message.readUInt8(3) & 0x0f
  if (rcode !== 0) throw failure(RCODE[rcode] ?? 'EBADRESP', name)
  try {
    let at = HEADER
    for (let left = message.readUInt16BE(4); left > 0; left--) at = nameAt(message, at).end + 4
    const services: Service[] = []
    let ttl = 0x7fffffff
    for (let left = message.readUInt16BE(6); left > 0; left--) {
      const { end } = nameAt(message, at)
      const data = end + 10
      ttl = Math.min(ttl, message.readUInt32BE(end + 4))
      if (message.readUInt16BE(end) === TYPE.SRV) {
        const [priority, weight, port] = [0, 2, 4].map((by) => message.readUInt16BE(data + by)) as [
          number,
          number,
          number
        ]
        const host = nameAt(message, data + 6).text
        // The root as target: the service is explicitly unavailable.
        if (host !== '') services.push({ host, port, priority, weight })
      }
      at = data + message.readUInt16BE(end + 8)
    }
    if (services.length > 0) return { services, ttl }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw failure('EBADRESP', name)
  }
  throw failure('ENOTFOUND', name)
}

/** Follows pointers (RFC 1035 4.1.4), which must point backwards. Throws a RangeError. */
function nameAt(message: Buffer, start: number): { readonly text: string; readonly end: number } {
  const labels: string[] = []
  let end: number | undefined
  let at = start
  let length = 0
  for (;;) {
    const size = message.readUInt8(at)
    if (size === 0) return { text: labels.join('.').toLowerCase(), end: end ?? at + 1 }
    if (size >= 0xc0) {
      const target = message.readUInt16BE(at) & 0x3fff
      if (target >= at) throw new RangeError('a pointer leads forwards')
      end ??= at + 2
      at = target
    } else {
      length += size + 1
      if (size > 63 || length > 255 || at + 1 + size > message.length) throw new RangeError('no name')
      labels.push(message.toString('latin1', at + 1, at + 1 + size))
      at += 1 + size
    }
  }
}

function failure(code: string, name: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: the service could not be looked up: ${name}`), { code })
}
