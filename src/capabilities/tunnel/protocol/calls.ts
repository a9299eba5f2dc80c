import { ByteQueue } from '../../../lib/byte-queue.js'
import type { MuxStream } from './stream.js'

/** Purpose of a stream: the big-endian number in its first four bytes. */
export const StreamType = {
  auth: 0,
  bind: 1,
  unbind: 2,
  proxy: 3,
  restart: 4,
  stop: 5,
  update: 6,
  startLabelled: 7,
  serverInfo: 8,
  stopTunnel: 9,
  patchTunnel: 10,
  heartbeat: 0xffff_ffff
} as const

const TYPE_BYTES = 4

/** Builds the first bytes of a stream, its type and data, for one frame. */
export function typed(type: number, body: Uint8Array = new Uint8Array(0)): Buffer {
  const first = Buffer.allocUnsafe(TYPE_BYTES + body.length)
  first.writeUInt32BE(type, 0)
  first.set(body, TYPE_BYTES)
  return first
}

/** Calls `found` once the type is received; the data after it is read next. A stream that ends earlier is abandoned. */
export function readType(stream: MuxStream, found: (type: number) => void): void {
  readBytes(stream, TYPE_BYTES, (bytes) => found(bytes.readUInt32BE(0)))
}

/** Calls `found` with the next `count` bytes, more than 0; a stream that ends before is given up. */
export function readBytes(stream: MuxStream, count: number, found: (bytes: Buffer) => void): void {
  const bytes = new ByteQueue()
  const read = (): void => {
    while (bytes.length < count) {
      const chunk = stream.read() as Buffer | null
      if (chunk === null) return
      const wanted = count - bytes.length
      bytes.push(chunk.subarray(0, wanted))
      if (chunk.length > wanted) stream.unshift(chunk.subarray(wanted))
    }
    stream.removeListener('readable', read)
    stream.removeListener('end', giveUp)
    found(bytes.takeAll())
  }
  const giveUp = (): void => {
    stream.destroy()
  }
  stream.on('readable', read)
  stream.on('end', giveUp)
  read()
}

/** Finds the end of one JSON object in bytes that arrive in pieces, in time proportional to the bytes. */
export class JsonObjectReader {
  readonly #most: number
  readonly #bytes = new ByteQueue()
  #depth = 0
  #quoted = false
  #escaped = false

  /** `most`: bytes of the longest object. */
  constructor(most: number) {
    this.#most = most
  }

  /**
   * Returns the object once its last byte is received, 'more' before, and 'invalid' if it is no JSON object or too long.
   * Bytes after it are ignored: some peers end with a line feed.
   */
  read(chunk: Buffer): Readonly<Record<string, unknown>> | 'more' | 'invalid' {
    const end = this.#scan(chunk)
    if (end === -1) return 'invalid'
    if (this.#bytes.length + (end || chunk.length) > this.#most) return 'invalid'
    this.#bytes.push(end === 0 ? chunk : chunk.subarray(0, end))
    return end === 0 ? 'more' : parseObject(this.#bytes.takeAll())
  }

  /** Returns the end of the object, 0 if it is not in this chunk, -1 if invalid. */
  #scan(chunk: Buffer): number {
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number
      if (this.#quoted) {
        if (this.#escaped) this.#escaped = false
        else if (byte === 0x5c) this.#escaped = true
        else if (byte === 0x22) this.#quoted = false
      } else if (this.#depth === 0) {
        if (byte === 0x7b) this.#depth = 1
        else if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return -1
      } else if (byte === 0x22) this.#quoted = true
      else if (byte === 0x7b || byte === 0x5b) this.#depth++
      else if (byte === 0x7d || byte === 0x5d) {
        this.#depth--
        if (this.#depth === 0) return at + 1
      }
    }
    return 0
  }
}

function parseObject(bytes: Buffer): Readonly<Record<string, unknown>> | 'invalid' {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : 'invalid'
  } catch {
    // The parser's message repeats the peer's data, which may contain a token.
    return 'invalid'
  }
}

/** Fields of a JSON object with case-insensitive names. Missing fields and those of another type are empty. */
export class Fields {
  readonly #values = new Map<string, unknown>()

  constructor(object: Readonly<Record<string, unknown>>) {
    for (const [name, value] of Object.entries(object)) this.#values.set(name.toLowerCase(), value)
  }

  text(name: string): string {
    const value = this.#values.get(name)
    return typeof value === 'string' ? value : ''
  }

  /** Returns a number; undefined for any other value. */
  number(name: string): number | undefined {
    const value = this.#values.get(name)
    return typeof value === 'number' ? value : undefined
  }

  flag(name: string): boolean {
    return this.#values.get(name) === true
  }

  texts(name: string): readonly string[] {
    const value = this.#values.get(name)
    return Array.isArray(value) ? value.filter((entry): entry is string => typeof entry === 'string') : []
  }

  object(name: string): Fields {
    return new Fields(this.raw(name))
  }

  /** Returns an object as received; empty for any other value. */
  raw(name: string): Readonly<Record<string, unknown>> {
    const value = this.#values.get(name)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : {}
  }

  /** Yields the lower-case names of non-empty values: not null, false, 0, '' or an empty list or object. */
  *filled(): Iterable<string> {
    for (const [name, value] of this.#values) if (!isEmpty(value)) yield name
  }
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === false || value === 0 || value === '') return true
  return typeof value === 'object' && Object.keys(value as object).length === 0
}

/** Reads the JSON object of a call from a stream whose type has been read. Returns undefined if it is invalid, or the stream ends. */
export function readCall(stream: MuxStream, most: number): Promise<Fields | undefined> {
  const reader = new JsonObjectReader(most)
  return new Promise((resolve) => {
    const finish = (fields: Fields | undefined): void => {
      stream.removeListener('data', onData)
      stream.removeListener('close', onEnd)
      stream.removeListener('end', onEnd)
      // Further data of a call is ignored.
      if (!stream.destroyed) stream.resume()
      resolve(fields)
    }
    const onData = (chunk: Buffer): void => {
      const object = reader.read(chunk)
      if (object === 'invalid') finish(undefined)
      else if (object !== 'more') finish(new Fields(object))
    }
    const onEnd = (): void => finish(undefined)
    stream.on('data', onData)
    stream.on('close', onEnd)
    stream.on('end', onEnd)
  })
}

/** Responds to a call and ends the stream: some agents read until its end. */
export function answerCall(stream: MuxStream, answer: object): void {
  if (stream.destroyed || stream.writableEnded) return
  stream.end(JSON.stringify(answer))
}
