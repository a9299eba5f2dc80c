import { Transform, type TransformCallback } from 'node:stream'

/** One message of an event stream (WHATWG HTML, 9.2 server-sent events), while it is looked at and changed. */
export interface EventStreamMessage {
  /** The `data` lines joined by line feeds; undefined: there is none. */
  data: string | undefined
  /** As it was written; undefined: there is none. */
  retry: string | undefined
}

export interface EventStreamOptions {
  /** Bytes that one message may have; a longer one breaks the stream. */
  readonly maxMessage: number
  /** Looks at a message and may change it; false breaks the stream. */
  readonly each: (message: EventStreamMessage) => boolean | Promise<boolean>
  /** Bytes that wait for the rest of their message, as a difference to before; false breaks the stream. */
  readonly hold: (difference: number) => boolean
}

const LF = 0x0a
const CR = 0x0d
const NOTHING = Buffer.alloc(0)
const BOM = '\ufeff'

/** An event stream that ended before its end. */
class EventStreamBroken extends Error {}

/**
 * Takes an event stream apart, message by message, and puts it together again.
 *
 * A message leaves as soon as it is complete, and byte for byte as it came unless `each` changed it. Comments between
 * messages pass. Text behind the last empty line, which clients ignore, is looked at like a message.
 */
export class EventStreamTransform extends Transform {
  readonly #options: EventStreamOptions
  #pending: Buffer = NOTHING
  /** Where a message is gathered that comes in pieces; `#pending` may be a part of it. */
  #room: Buffer = NOTHING
  /** Where the search for the end of the message goes on, and where the line began that it is in. */
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

  /** Room grows twofold, so that a long message in small pieces is copied a few times and not once for each piece. */
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
    // Behind what was handed on: nothing of that is written over.
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

  /** Counts what waits; an error when it may not. */
  #keep(): Error | null {
    const waiting = this.#pending.length
    if (waiting > this.#options.maxMessage) return new EventStreamBroken('a message of the event stream is too long')
    const difference = waiting - this.#held
    if (difference !== 0 && !this.#options.hold(difference)) return new EventStreamBroken('no memory for the message')
    this.#held = waiting
    return null
  }

  /** Handles every message that is complete. Answers at once unless `each` waits. */
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

  /** Length of the first message with its empty line, or 0 when that has not come. */
  #nextEnd(): number {
    const bytes = this.#pending
    for (let i = this.#scanned; i < bytes.length; i++) {
      const byte = bytes[i]
      if (byte === LF && this.#afterCr) {
        // The second half of a line end.
        this.#afterCr = false
        if (this.#line === i) this.#line = i + 1
        continue
      }
      this.#afterCr = byte === CR
      if (byte !== LF && byte !== CR) continue
      const empty = this.#line === i
      this.#line = i + 1
      if (!empty) continue
      // A line feed that comes later begins the next message, where it counts for nothing.
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

/** The lines of one message; what they say, and how they read once data or retry is another. */
class ParsedMessage {
  readonly #lines: readonly string[]
  readonly data: string | undefined
  readonly retry: string | undefined
  /** Nothing but comments. */
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

  /** The message with these fields in the places of the old ones. */
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

/** Behind the colon, without one space that may stand there. */
function contentOf(line: string): string {
  const colon = line.indexOf(':')
  if (colon === -1) return ''
  return line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
}
