import { Transform, type TransformCallback } from 'node:stream'

/** One message of an event stream (WHATWG HTML, 9.2 server-sent events) that can be read and changed. */
export interface EventStreamMessage {
  /** The `data` lines joined by line feeds; undefined without any. */
  data: string | undefined
  /** Value as written; undefined without the field. */
  retry: string | undefined
}

export interface EventStreamOptions {
  /** Maximum message size in bytes; a longer message breaks the stream. */
  readonly maxMessage: number
  /** Reads and may change a message; returns false to break the stream. */
  readonly each: (message: EventStreamMessage) => boolean | Promise<boolean>
  /** Called with the change in buffered bytes; returns false to break the stream. */
  readonly hold: (difference: number) => boolean
}

const LF = 0x0a
const CR = 0x0d
const NOTHING = Buffer.alloc(0)
const BOM = '\ufeff'

/** An event stream that ended prematurely. */
class EventStreamBroken extends Error {}

/**
 * Splits an event stream into messages and joins them again. A message is sent as soon as it is complete, and unchanged byte for byte
 * unless `each` changed it. Comments between messages pass. Text after the last empty line, which clients ignore, is treated as a message.
 */
export class EventStreamTransform extends Transform {
  readonly #options: EventStreamOptions
  #pending: Buffer = NOTHING
  /** Buffer for a message that arrives in pieces; `#pending` may be a part of it. */
  #room: Buffer = NOTHING
  /** Positions at which the search for the message's end continues, and at which the current line began. */
  #scanned = 0
  #line = 0
  #afterCr = false
  #held = 0
  #first = true

  constructor(options: EventStreamOptions) {
    super()
    this.#options = options
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#append(chunk)
    this.#settle(this.#messages(), done)
  }

  override _flush(done: TransformCallback): void {
    const rest = this.#take(this.#pending.length)
    this.#settle(rest.length === 0 ? undefined : this.#message(rest), done)
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#options.hold(-this.#held)
    this.#held = 0
    done(error)
  }

  /** The buffer doubles, so that a long message in small pieces is copied only a few times. */
  #append(chunk: Buffer): void {
    const waiting = this.#pending
    if (waiting.length === 0) {
      this.#pending = chunk
      return
    }
    const length = waiting.length + chunk.length
    let at = waiting.byteOffset - this.#room.byteOffset
    if (waiting.buffer !== this.#room.buffer || at + length > this.#room.length) {
      this.#room = Buffer.allocUnsafeSlow(length * 2)
      waiting.copy(this.#room)
      at = 0
    }
    // Appends behind the forwarded bytes, which are never overwritten.
    chunk.copy(this.#room, at + waiting.length)
    this.#pending = this.#room.subarray(at, at + length)
  }

  #settle(work: Promise<void> | undefined | Error, done: TransformCallback): void {
    if (work === undefined) done(this.#keep())
    else if (work instanceof Error) done(work)
    else
      work.then(
        () => done(this.#keep()),
        (error: unknown) => done(error as Error)
      )
  }

  /** Updates the number of buffered bytes; returns an error if they exceed the limit. */
  #keep(): Error | null {
    const waiting = this.#pending.length
    if (waiting > this.#options.maxMessage) return new EventStreamBroken('a message of the event stream is too long')
    const difference = waiting - this.#held
    if (difference !== 0 && !this.#options.hold(difference)) return new EventStreamBroken('no memory for the message')
    this.#held = waiting
    return null
  }

  /** Handles complete messages. Synchronous unless `each` waits. */
  #messages(): Promise<void> | undefined | Error {
    for (let end = this.#nextEnd(); end !== 0; end = this.#nextEnd()) {
      const outcome = this.#message(this.#take(end))
      if (outcome instanceof Error) return outcome
      if (outcome !== undefined) return this.#messagesAfter(outcome)
    }
    return undefined
  }

  async #messagesAfter(work: Promise<void>): Promise<void> {
    await work
    const rest = this.#messages()
    if (rest instanceof Error) throw rest
    await rest
  }

  /** Length of the first message with its empty line, or 0 if incomplete. */
  #nextEnd(): number {
    const bytes = this.#pending
    for (let i = this.#scanned; i < bytes.length; i++) {
      const byte = bytes[i]
      if (byte === LF && this.#afterCr) {
        // The second half of a CR LF.
        this.#afterCr = false
        if (this.#line === i) this.#line = i + 1
        continue
      }
      this.#afterCr = byte === CR
      if (byte !== LF && byte !== CR) continue
      const empty = this.#line === i
      this.#line = i + 1
      if (!empty) continue
      // A line feed that arrives later starts the next message, where it is ignored.
      const end = byte === CR && bytes[i + 1] === LF ? i + 2 : i + 1
      if (end === i + 2) this.#afterCr = false
      return end
    }
    this.#scanned = bytes.length
    return 0
  }

  #take(length: number): Buffer {
    const taken = this.#pending.subarray(0, length)
    this.#pending = length === this.#pending.length ? NOTHING : this.#pending.subarray(length)
    this.#scanned = 0
    this.#line = 0
    return taken
  }

  #message(bytes: Buffer): Promise<void> | undefined | Error {
    if (bytes.length > this.#options.maxMessage)
      return new EventStreamBroken('a message of the event stream is too long')
    const parsed = new ParsedMessage(bytes.toString('utf8'), this.#first)
    this.#first = false
    if (parsed.empty) {
      this.push(bytes)
      return undefined
    }
    const message = { data: parsed.data, retry: parsed.retry }
    const verdict = this.#options.each(message)
    if (typeof verdict === 'boolean') return this.#put(verdict, bytes, parsed, message)
    return verdict.then((late) => {
      const error = this.#put(late, bytes, parsed, message)
      if (error !== undefined) throw error
    })
  }

  #put(goes: boolean, bytes: Buffer, parsed: ParsedMessage, message: EventStreamMessage): Error | undefined {
    if (!goes) return new EventStreamBroken('a message of the event stream was refused')
    const same = message.data === parsed.data && message.retry === parsed.retry
    this.push(same ? bytes : Buffer.from(parsed.with(message), 'utf8'))
    return undefined
  }
}

const LINE_END = /\r\n|\n|\r/

/** The parsed lines of one message, which can be written with changed fields. */
class ParsedMessage {
  readonly #lines: readonly string[]
  readonly data: string | undefined
  readonly retry: string | undefined
  /** True if the message has only comments. */
  readonly empty: boolean

  constructor(text: string, first: boolean) {
    this.#lines = (first && text.startsWith(BOM) ? text.slice(1) : text).split(LINE_END)
    const data: string[] = []
    let retry: string | undefined
    let empty = true
    for (const line of this.#lines) {
      if (line === '' || line.startsWith(':')) continue
      empty = false
      const name = nameOf(line)
      if (name === 'data') data.push(contentOf(line))
      else if (name === 'retry') retry = contentOf(line)
    }
    this.data = data.length === 0 ? undefined : data.join('\n')
    this.retry = retry
    this.empty = empty
  }

  /** Returns the message with these fields in place of the old ones. */
  with({ data, retry }: EventStreamMessage): string {
    const lines: string[] = []
    let written = false
    for (const line of this.#lines) {
      const name = nameOf(line)
      if (name === 'retry' && retry !== undefined) lines.push(`retry: ${retry}`)
      else if (name !== 'data' || data === undefined) lines.push(line)
      else if (!written) {
        written = true
        for (const one of data.split(LINE_END)) lines.push(`data: ${one}`)
      }
    }
    return lines.join('\n')
  }
}

function nameOf(line: string): string {
  const colon = line.indexOf(':')
  return colon === -1 ? line : line.slice(0, colon)
}

/** Returns the text after the colon, without one optional space. */
function contentOf(line: string): string {
  const colon = line.indexOf(':')
  if (colon === -1) return ''
  return line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
}
