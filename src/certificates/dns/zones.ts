import { isIPv4, isIPv6 } from 'node:net'
import { type Answer, nameBytes, type Query, RCODE, type ResourceData, TYPE } from './message.js'

/** What the zones hold, asked for each query. Names are lower-case. */
export interface ZoneContent {
  /** Domains that are delegated to this service beside the zone of the challenges. */
  domains(): Iterable<string>
  /** Values of the TXT records at a name. */
  texts(name: string): readonly string[]
  /** Is this an address for agents? */
  isAgentHost(name: string): boolean
}

export interface ZoneParts {
  /** The zone of the challenges. */
  readonly apex: string
  /** Names of the name servers. */
  readonly servers: readonly string[]
  /** Addresses of this service, for its names in delegated domains; none: such names have no address here. */
  readonly addresses: readonly string[]
  readonly content: ZoneContent
}

/** Seconds. Challenges come and go: nobody shall remember what was, or was not, a minute ago. */
const SHORT = 1
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
    // RFC 8482: asking for everything gets one small record set, so that nobody sends it elsewhere for its size.
    const answers = this.#records(zone, name, type === TYPE.ANY ? TYPE.SOA : type)
    if (answers.length > 0) return { rcode: RCODE.NOERROR, authoritative: true, answers }
    // Never NXDOMAIN: a resolver that asks label by label (RFC 9156) would stop at a name that is only a part of others.
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
    // Nobody transfers these zones, so that their serial number never has to change.
    for (const [index, seconds] of [1, 3600, 600, 86_400, SHORT].entries()) numbers.writeUInt32BE(seconds, index * 4)
    const server = nameBytes(this.#parts.servers[0] ?? zone)
    // Nobody reads mail about them either.
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
