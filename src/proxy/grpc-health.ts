import type { Answer } from '../transport/contract.js'

/** Health method of gRPC servers (grpc/health/v1/health.proto). */
export const HEALTH_METHOD = '/grpc.health.v1.Health/Check'

/** Maximum bytes read of a response; a valid one has seven. */
const MOST_BYTES = 1024
/** Length of the compression flag and message length ("Length-Prefixed-Message" of gRPC over HTTP/2) in bytes. */
const PREFIX = 5
/** Wire types of Protocol Buffers. */
const WIRE = { varint: 0, eight: 1, bytes: 2, four: 5 } as const
/** Value of the serving status. */
const SERVING = 1
/** Names of the statuses by value. */
const STATUSES: readonly string[] = ['UNKNOWN', 'SERVING', 'NOT SERVING', 'SERVICE UNKNOWN']
/** Texts for gRPC status codes of a failed check. */
const CODES: ReadonlyMap<string, string> = new Map([
  ['5', 'it does not know the service (NOT_FOUND)'],
  ['12', 'it does not offer grpc.health.v1.Health (UNIMPLEMENTED)']
])

/** Encodes `HealthCheckRequest { string service = 1 }` with its prefix. An empty `service` checks the whole server. */
export function healthRequest(service: string): Uint8Array {
  const name = Buffer.from(service, 'utf8')
  const field = name.length === 0 ? [] : [(1 << 3) | WIRE.bytes, ...varint(name.length)]
  const head = Buffer.alloc(PREFIX)
  head.writeUInt32BE(field.length + name.length, 1)
  return Buffer.concat([head, Buffer.from(field), name])
}

/** Reads the result of a check and a text for people. Rejects if the message is aborted. */
export async function healthOf(
  answer: Extract<Answer, { kind: 'response' }>
): Promise<{ readonly ok: boolean; readonly reason: string }> {
  const { head, body } = answer
  const bad = (reason: string) => ({ ok: false, reason })
  if (head.status !== 200) {
    body.discard()
    return bad(`status ${head.status}`)
  }
  const content = await body.buffer(MOST_BYTES)
  if (content === 'too-large') {
    body.discard()
    return bad('its answer is too long for a health check')
  }
  const code = fieldOf(body.trailers ?? [], 'grpc-status') ?? fieldOf(head.headers, 'grpc-status')
  if (code === undefined) return bad('it does not answer as gRPC does (no grpc-status)')
  if (code !== '0') return bad(CODES.get(code) ?? `grpc-status ${code}`)
  const status = readStatus(content)
  if (status === undefined) return bad('its answer is no HealthCheckResponse')
  return { ok: status === SERVING, reason: STATUSES[status] ?? `status ${status} of gRPC health` }
}

/** Decodes `HealthCheckResponse { ServingStatus status = 1 }` after its prefix; undefined if invalid. Other fields are ignored. */
function readStatus(content: Uint8Array): number | undefined {
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.length)
  if (bytes.length < PREFIX || bytes[0] !== 0 || bytes.readUInt32BE(1) !== bytes.length - PREFIX) return undefined
  const reader = new Reader(bytes, PREFIX)
  let status = 0
  while (reader.left > 0) {
    const key = reader.varint()
    if (key === undefined) return undefined
    const [field, type] = [key >>> 3, key & 7]
    if (field === 1 && type === WIRE.varint) {
      const value = reader.varint()
      if (value === undefined) return undefined
      status = value
    } else if (!reader.skip(type)) return undefined
  }
  return status
}

/** Reads Protocol Buffers; undefined or false for truncated or invalid data. */
class Reader {
  readonly #bytes: Uint8Array
  #at: number

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes
    this.#at = at
  }

  get left(): number {
    return this.#bytes.length - this.#at
  }

  /** Reads the low 32 bits of a number of up to ten bytes. */
  varint(): number | undefined {
    let value = 0
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#bytes[this.#at++]
      if (byte === undefined) return undefined
      if (shift < 32) value = (value | ((byte & 0x7f) << shift)) >>> 0
      if (byte < 0x80) return value
    }
    return undefined
  }

  skip(type: number): boolean {
    if (type === WIRE.varint) return this.varint() !== undefined
    const size = type === WIRE.bytes ? this.varint() : type === WIRE.eight ? 8 : type === WIRE.four ? 4 : undefined
    if (size === undefined || size > this.left) return false
    this.#at += size
    return true
  }
}

function varint(value: number): number[] {
  const bytes: number[] = []
  let left = value
  for (; left > 0x7f; left >>>= 7) bytes.push((left & 0x7f) | 0x80)
  bytes.push(left)
  return bytes
}

/** Returns the first field with the lower-case name `name`. */
function fieldOf(list: readonly string[], name: string): string | undefined {
  for (let i = 0; i < list.length; i += 2) if ((list[i] as string).toLowerCase() === name) return list[i + 1]
  return undefined
}
