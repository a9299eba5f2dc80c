import { createSocket } from 'node:dgram'
import { isIP } from 'node:net'
import { nameBytes, RCODE, readQuery, TYPE, writeAnswer } from '../../src/capabilities/certificates/dns/message.js'

interface Test {
  teardown(run: () => Promise<void> | void): void
}

/** What a name server answers: addresses, no such name (a name that is missing), a failure, or nothing at all. */
export type NameAnswer = readonly string[] | 'fails' | 'silent'

/** A DNS server on UDP. */
export interface NameServer {
  /** As the option `dns.servers` has it. */
  readonly address: string
  /** Names in lower case. */
  readonly names: Map<string, NameAnswer>
  /** Seconds that addresses may be remembered. */
  ttl: number
  /** Records SRV by the name of their service, as in zone files: `priority weight port target`. */
  readonly services: Map<string, readonly string[]>
  /** What was asked: `name A`, `name AAAA` and `name SRV`. */
  readonly asked: string[]
  /** Answers nothing from now on. */
  close(): Promise<void>
}

export async function startNameServer(
  t: Test,
  names: Readonly<Record<string, NameAnswer>> = {},
  port = 0
): Promise<NameServer> {
  const socket = createSocket('udp4')
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= new Promise<void>((resolve) => socket.close(() => resolve()))
    return closed
  }
  const state = {
    address: '',
    names: new Map(Object.entries(names)),
    services: new Map<string, readonly string[]>(),
    ttl: 60,
    asked: [] as string[],
    close
  }
  socket.on('message', (bytes, peer) => {
    const reading = readQuery(bytes)
    if (reading === undefined || !reading.ok) return
    const { query } = reading
    state.asked.push(`${query.name} ${query.type === TYPE.AAAA ? 'AAAA' : query.type === SRV ? 'SRV' : 'A'}`)
    if (query.type === SRV) {
      const records = state.services.get(query.name)
      const rcode = records === undefined ? RCODE.NXDOMAIN : RCODE.NOERROR
      const answers = (records ?? []).map((one) => ({ type: SRV, ttl: state.ttl, data: serviceBytes(one) }))
      socket.send(writeAnswer(query, { rcode, authoritative: false, answers }, 'udp'), peer.port, peer.address)
      return
    }
    const known = state.names.get(query.name)
    if (known === 'silent') return
    const rcode = known === undefined ? RCODE.NXDOMAIN : known === 'fails' ? RCODE.SERVFAIL : RCODE.NOERROR
    const wanted = query.type === TYPE.AAAA ? 6 : 4
    const addresses = Array.isArray(known) ? (known as string[]).filter((address) => isIP(address) === wanted) : []
    const answers = addresses.map((address) => ({ type: query.type, ttl: state.ttl, data: bytesOf(address) }))
    socket.send(writeAnswer(query, { rcode, authoritative: false, answers }, 'udp'), peer.port, peer.address)
  })
  await new Promise<void>((resolve) => socket.bind(port, '127.0.0.1', resolve))
  state.address = `127.0.0.1:${socket.address().port}`
  t.teardown(close)
  return state
}

const SRV = 33

function serviceBytes(record: string): Buffer {
  const [priority, weight, port, target = ''] = record.split(' ')
  const numbers = Buffer.alloc(6)
  for (const [index, value] of [priority, weight, port].entries()) numbers.writeUInt16BE(Number(value), 2 * index)
  return Buffer.concat([numbers, nameBytes(target)])
}

/** IPv6 addresses are `2001:db8::` with one last group. */
function bytesOf(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split('.').map(Number))
  const bytes = Buffer.from('20010db8000000000000000000000000', 'hex')
  bytes.writeUInt16BE(Number.parseInt(address.slice(address.lastIndexOf(':') + 1), 16), 14)
  return bytes
}
