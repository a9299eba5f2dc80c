/**
 * Messages of the DNS (RFC 1035 4) as far as an authoritative server for a handful of records needs them: one question, one
 * response. Reads any bytes without throwing.
 */
export const TYPE = { A: 1, NS: 2, SOA: 6, TXT: 16, AAAA: 28, OPT: 41, ANY: 255 } as const
/** Response codes (RFC 1035 4.1.1, RFC 6891 9). */
export const RCODE = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5, BADVERS: 16 } as const
/** Class of Internet records (RFC 1035 3.2.4). */
const CLASS_IN = 1
/** Bytes of a header (RFC 1035 4.1.1). */
const HEADER = 12
/** Maximum bytes of a name (RFC 1035 2.3.4). */
const LONGEST_NAME = 255
/** Maximum UDP response without EDNS (bytes). */
const PLAIN_BYTES = 512
/** Maximum UDP response with EDNS, which avoids fragments (bytes, RFC 9715). */
const EDNS_BYTES = 1232

export interface Query {
  readonly id: number
  readonly recursionDesired: boolean
  /** Header bytes and question as they came: a response repeats the letter case of the name. */
  readonly question: Uint8Array
  /** Lower-case, without the dot at the end. */
  readonly name: string
  readonly type: number
  readonly isInternet: boolean
  /** EDNS (RFC 6891); undefined if the query has none. */
  readonly edns: { readonly version: number; readonly bytes: number } | undefined
}

/** A query, or the response to an invalid one; undefined if no response is sent. */
export type Reading =
  | { readonly ok: true; readonly query: Query }
  | { readonly ok: false; readonly refusal: Uint8Array }
  | undefined

/** A record below the name of the question, or of the zone. */
export interface Answer {
  readonly rcode: number
  readonly authoritative: boolean
  readonly answers: readonly ResourceData[]
  /** SOA of the zone, in negative responses (RFC 2308). */
  readonly authority?: { readonly name: string; readonly data: ResourceData }
}

export interface ResourceData {
  readonly type: number
  readonly ttl: number
  readonly data: Uint8Array
}

/** Parses a query. Responses and messages without a full header are dropped; malformed queries are rejected with a header only. */
export function readQuery(bytes: Uint8Array): Reading {
  const message = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (message.length < HEADER || (message.readUInt8(2) & 0x80) !== 0) return undefined
  const opcode = (message.readUInt8(2) >> 3) & 0x0f
  if (opcode !== 0) return refused(message, RCODE.NOTIMP)
  const [questions, answers, authorities, additional] = [4, 6, 8, 10].map((at) => message.readUInt16BE(at)) as [
    number,
    number,
    number,
    number
  ]
  if (questions !== 1 || answers !== 0 || authorities !== 0 || additional > 2) return refused(message, RCODE.FORMERR)
  const name = readName(message, HEADER)
  if (name === undefined || name.end + 4 > message.length) return refused(message, RCODE.FORMERR)
  const end = name.end + 4
  const edns = readEdns(message, end, additional)
  if (edns === 'malformed') return refused(message, RCODE.FORMERR)
  return {
    ok: true,
    query: {
      id: message.readUInt16BE(0),
      recursionDesired: (message.readUInt8(2) & 1) !== 0,
      question: message.subarray(HEADER, end),
      name: name.text,
      type: message.readUInt16BE(name.end),
      isInternet: message.readUInt16BE(name.end + 2) === CLASS_IN,
      edns
    }
  }
}

/** Encodes a response; over UDP one that is too long is marked as truncated, so that the client retries over TCP. */
export function writeAnswer(query: Query, answer: Answer, transport: 'udp' | 'tcp'): Uint8Array {
  const limit = transport === 'tcp' ? 0xffff : largest(query)
  const { rcode, authoritative } = answer
  const whole = write(query, answer, false)
  return whole.length <= limit ? whole : write(query, { rcode, authoritative, answers: [] }, true)
}

function largest({ edns }: Query): number {
  return edns === undefined ? PLAIN_BYTES : Math.max(PLAIN_BYTES, Math.min(edns.bytes, EDNS_BYTES))
}

function write(query: Query, { rcode, authoritative, answers, authority }: Answer, cut: boolean): Uint8Array {
  const header = Buffer.alloc(HEADER)
  header.writeUInt16BE(query.id, 0)
  header.writeUInt8(0x80 | (authoritative ? 0x04 : 0) | (cut ? 0x02 : 0) | (query.recursionDesired ? 1 : 0), 2)
  header.writeUInt8(rcode & 0x0f, 3)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(answers.length, 6)
  header.writeUInt16BE(authority === undefined ? 0 : 1, 8)
  header.writeUInt16BE(query.edns === undefined ? 0 : 1, 10)
  const parts: Uint8Array[] = [header, query.question]
  // Pointer to the name of the question, which follows the header.
  for (const one of answers) parts.push(Buffer.from([0xc0, HEADER]), record(one))
  if (authority !== undefined) parts.push(suffix(query, authority.name), record(authority.data))
  if (query.edns !== undefined) parts.push(ednsRecord(rcode))
  return Buffer.concat(parts)
}

/** A name that the name of the question ends with, as a pointer to there: characters before it are bytes before it. */
function suffix({ name }: Query, end: string): Uint8Array {
  return Buffer.of(0xc0, HEADER + name.length - end.length)
}

function record({ type, ttl, data }: ResourceData): Uint8Array {
  const head = Buffer.alloc(10)
  head.writeUInt16BE(type, 0)
  head.writeUInt16BE(CLASS_IN, 2)
  head.writeUInt32BE(ttl, 4)
  head.writeUInt16BE(data.length, 8)
  return Buffer.concat([head, data])
}

function ednsRecord(rcode: number): Uint8Array {
  const bytes = Buffer.alloc(11)
  bytes.writeUInt16BE(TYPE.OPT, 1)
  bytes.writeUInt16BE(EDNS_BYTES, 3)
  bytes.writeUInt8(rcode >> 4, 5)
  return bytes
}

/** A header that refuses. No byte more than came. */
function refused(message: Buffer, rcode: number): Reading {
  const header = Buffer.alloc(HEADER)
  message.copy(header, 0, 0, 4)
  header.writeUInt8(0x80 | (message.readUInt8(2) & 0x79), 2)
  header.writeUInt8(rcode, 3)
  return { ok: false, refusal: header }
}

/** Parses a name. The question is the first section, so that a pointer there is malformed. */
function readName(message: Buffer, start: number): { text: string; end: number } | undefined {
  const labels: string[] = []
  let at = start
  while (at < message.length) {
    const length = message.readUInt8(at)
    if (length === 0) return { text: labels.join('.').toLowerCase(), end: at + 1 }
    if (length > 63 || at + 1 + length > message.length || at + 1 + length - start >= LONGEST_NAME) return undefined
    const label = message.toString('latin1', at + 1, at + 1 + length)
    // No name of ours has a dot within a label, and none shall look like it.
    if (label.includes('.')) return undefined
    labels.push(label)
    at += 1 + length
  }
  return undefined
}

function readEdns(message: Buffer, start: number, records: number): Query['edns'] | 'malformed' {
  let edns: Query['edns']
  let at = start
  for (let i = 0; i < records; i++) {
    const name = readName(message, at)
    if (name === undefined || name.end + 10 > message.length) return 'malformed'
    const type = message.readUInt16BE(name.end)
    const end = name.end + 10 + message.readUInt16BE(name.end + 8)
    if (end > message.length) return 'malformed'
    if (type === TYPE.OPT) {
      if (edns !== undefined || name.text !== '') return 'malformed'
      edns = { bytes: message.readUInt16BE(name.end + 2), version: message.readUInt8(name.end + 5) }
    }
    at = end
  }
  return edns
}

/** A name in the form of the wire, not compressed. Labels are those of host names. */
export function nameBytes(name: string): Uint8Array {
  const labels = name === '' ? [] : name.split('.')
  return Buffer.concat([
    ...labels.map((label) => Buffer.concat([Buffer.of(label.length), Buffer.from(label, 'latin1')])),
    Buffer.of(0)
  ])
}
