import { closeSync, constants, fstatSync, openSync, write as writeLater, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { isatty } from 'node:tty'
import { Backoff } from './concurrency.js'

/** Recovery of an output after dropped lines. */
export interface OutputRecovery {
  readonly dropped: number
  /** Milliseconds from the first dropped line to the recovery. */
  readonly lasted: number
  /** Cause: the system's error code; `EAGAIN` means that the reader was too slow. */
  readonly reason: string
}

export interface LineOutputOptions {
  /** An open descriptor of a file, pipe, terminal or socket. Not closed. */
  readonly fd: number
  /** Maximum memory for queued lines (bytes); further lines are dropped. */
  readonly bytes: number
  /** Called when all queued lines have been written after a loss. */
  readonly recovered?: (recovery: OutputRecovery) => void
}

/** Called with the error of a dropped line, or without one for a written line. */
type Settled = (error?: Error | null) => void

/** Bytes written with one system call. */
const BATCH = 65_536
/** Memory of a queued line in addition to its text (bytes). */
const OVERHEAD = 48
/** Retry pauses for a blocked reader: doubled from the first to the longest (ms). */
const READER_PAUSE = { first: 2, longest: 100 }
/** Pause after a system error, such as a full disk (ms). */
const FAILURE_PAUSE = 1_000
/** Error code of a full pipe. */
const SLOW_READER = 'EAGAIN'

/**
 * Writes lines of text to a descriptor, at most once each and in order. Never blocks the event loop, throws or fails the process: with a
 * slow reader, a full disk or a closed pipe, lines beyond a memory bound are dropped and counted. Writing is retried until it succeeds.
 */
export class LineOutput {
  readonly #sink: Sink
  readonly #limit: number
  readonly #recovered: LineOutputOptions['recovered']
  #waiting: string[] = []
  /** Callbacks of lines, by their number. */
  readonly #settled = new Map<number, Settled>()
  /** Numbers of the next line, and of the first line that is neither in the batch nor written. */
  #next = 0
  #first = 0
  #bytes = 0
  #batch: Buffer | undefined
  /** Part of the bound that the batch uses (bytes). */
  #batchBytes = 0
  #inFlight = false
  #scheduled = false
  #timer: NodeJS.Timeout | undefined
  readonly #backoff = new Backoff(READER_PAUSE)
  #failure: string | undefined
  #dropped = 0
  #lost = 0
  #lostSince = 0
  #lostWhy = SLOW_READER
  #closed = false
  #emptied: (() => void) | undefined

  constructor({ fd, bytes, recovered }: LineOutputOptions) {
    this.#sink = sinkFor(fd)
    this.#limit = bytes
    this.#recovered = recovered
  }

  /** Number of lines dropped since the start. */
  get dropped(): number {
    return this.#dropped
  }

  /** Cause of a current loss: the system's error code; undefined otherwise. */
  get dropping(): string | undefined {
    return this.#lost === 0 ? undefined : this.#lostWhy
  }

  /** Counts lines that were dropped before they arrived here. */
  lost(lines: number): void {
    for (let i = 0; i < lines; i++) this.#drop(undefined)
  }

  /** `text` is one or more whole lines. `settled` is called once, when they are written or dropped. */
  write(text: string, settled?: Settled): boolean {
    const bytes = Buffer.byteLength(text) + OVERHEAD
    if (this.#closed || this.#bytes + bytes > this.#limit) {
      this.#drop(settled)
      return false
    }
    this.#bytes += bytes
    this.#waiting.push(text)
    if (settled !== undefined) this.#settled.set(this.#next, settled)
    this.#next++
    if (!this.#scheduled && !this.#busy) {
      this.#scheduled = true
      setImmediate(() => {
        this.#scheduled = false
        if (!this.#busy) this.#send()
      })
    }
    return true
  }

  /** Resolves when everything is written, or after `atMost` milliseconds. Rejects further lines. */
  async close(atMost: number): Promise<void> {
    this.#closed = true
    if (this.#batch !== undefined || this.#waiting.length > 0) {
      await new Promise<void>((resolve) => {
        const deadline = setTimeout(resolve, atMost)
        this.#emptied = () => {
          clearTimeout(deadline)
          resolve()
        }
        clearTimeout(this.#timer)
        this.#timer = undefined
        if (!this.#busy) this.#send()
      })
    }
    clearTimeout(this.#timer)
    this.#sink.close()
  }

  /** Writes as much as possible without waiting, for a crashing process. */
  writeNow(): void {
    if (this.#inFlight) return
    const rest = [this.#batch ?? Buffer.alloc(0), Buffer.from(this.#waiting.join(''))]
    this.#waiting = []
    this.#batch = undefined
    this.#sink.sendNow(Buffer.concat(rest))
  }

  get #busy(): boolean {
    return this.#inFlight || this.#timer !== undefined
  }

  #drop(settled: Settled | undefined): void {
    this.#dropped++
    if (this.#lost === 0) {
      this.#lostSince = performance.now()
      this.#lostWhy = this.#failure ?? SLOW_READER
    }
    this.#lost++
    settled?.(new Error('the output takes nothing'))
  }

  /** Sends the next batch, or the rest of the previous one. */
  #send(): void {
    if (this.#batch === undefined) {
      if (this.#waiting.length === 0) {
        this.#drained()
        return
      }
      this.#batch = this.#nextBatch()
    }
    this.#inFlight = true
    this.#sink.send(this.#batch, (error, written) => {
      this.#inFlight = false
      if (error !== null) this.#again(error.code ?? error.message)
      else this.#wrote(written)
    })
  }

  #nextBatch(): Buffer {
    let count = 0
    let length = 0
    while (count < this.#waiting.length && length < BATCH) length += (this.#waiting[count++] as string).length
    const texts = count === this.#waiting.length ? this.#waiting : this.#waiting.slice(0, count)
    this.#waiting = count === this.#waiting.length ? [] : this.#waiting.slice(count)
    this.#first += count
    const batch = Buffer.from(texts.join(''))
    this.#batchBytes = batch.length + count * OVERHEAD
    return batch
  }

  #wrote(written: number): void {
    this.#failure = undefined
    this.#backoff.reset()
    const batch = this.#batch as Buffer
    if (written < batch.length) {
      this.#batch = batch.subarray(written)
      this.#send()
      return
    }
    this.#batch = undefined
    this.#bytes -= this.#batchBytes
    if (this.#settled.size > 0) this.#settle()
    this.#send()
  }

  #settle(): void {
    for (const [number, settled] of this.#settled) {
      if (number >= this.#first) return
      this.#settled.delete(number)
      settled()
    }
  }

  #again(code: string): void {
    const slow = code === SLOW_READER
    this.#failure = slow ? undefined : code
    if (!slow) this.#lostWhy = code
    const pause = slow ? this.#backoff.next() : FAILURE_PAUSE
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#send()
    }, pause)
    // A process without other work exits; during close, the deadline keeps it alive.
    this.#timer.unref()
  }

  #drained(): void {
    this.#emptied?.()
    if (this.#lost === 0 || this.#closed) return
    const recovery = { dropped: this.#lost, lasted: performance.now() - this.#lostSince, reason: this.#lostWhy }
    this.#lost = 0
    this.#recovered?.(recovery)
  }
}

/** Writes bytes to a descriptor. */
interface Sink {
  /** Calls back once with the number of written bytes, or with the system's error. */
  send(bytes: Buffer, done: (error: NodeJS.ErrnoException | null, written: number) => void): void
  /** Writes as much as possible without waiting. */
  sendNow(bytes: Buffer): void
  close(): void
}

function sinkFor(fd: number): Sink {
  const kind = fstatSync(fd)
  if (kind.isSocket()) return new SocketSink(fd)
  if (!kind.isFIFO() && !isatty(fd)) return new FileSink(fd)
  const own = reopened(fd)
  return own === undefined ? new SocketSink(fd) : new DirectSink(own)
}

/**
 * Opens the same pipe or terminal with a separate, non-blocking file description, so that processes that share the original are not
 * affected. Returns undefined if the system has no /proc or forbids it.
 */
function reopened(fd: number): number | undefined {
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  } catch {
    return undefined
  }
}

/** A non-blocking pipe or terminal: written directly, because another thread would cost more. */
class DirectSink implements Sink {
  readonly #fd: number

  constructor(fd: number) {
    this.#fd = fd
  }

  send(bytes: Buffer, done: (error: NodeJS.ErrnoException | null, written: number) => void): void {
    let written: number
    try {
      written = writeSync(this.#fd, bytes)
    } catch (error) {
      done(error as NodeJS.ErrnoException, 0)
      return
    }
    done(null, written)
  }

  sendNow(bytes: Buffer): void {
    this.send(bytes, () => undefined)
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** A file or a device: written by another thread, because the disk can be slow. */
class FileSink implements Sink {
  readonly #fd: number

  constructor(fd: number) {
    this.#fd = fd
  }

  send(bytes: Buffer, done: (error: NodeJS.ErrnoException | null, written: number) => void): void {
    writeLater(this.#fd, bytes, (error, written) => done(error, written))
  }

  sendNow(bytes: Buffer): void {
    try {
      writeSync(this.#fd, bytes)
    } catch {
      // The process stops, and there is no other destination for these lines.
    }
  }

  close(): void {
    // The descriptor belongs to the process.
  }
}

/** A socket, such as a service manager's journal, or a pipe that could not be reopened. */
class SocketSink implements Sink {
  readonly #socket: Socket
  #failure: NodeJS.ErrnoException | undefined

  constructor(fd: number) {
    this.#socket = new Socket({ fd, readable: false, writable: true })
    this.#socket.unref()
    this.#socket.on('error', (error) => {
      this.#failure = error
    })
  }

  send(bytes: Buffer, done: (error: NodeJS.ErrnoException | null, written: number) => void): void {
    if (this.#failure === undefined) this.#socket.write(bytes, (error) => done(error ?? null, bytes.length))
    else setImmediate(done, this.#failure, 0)
  }

  sendNow(bytes: Buffer): void {
    this.#socket.write(bytes)
  }

  close(): void {
    this.#socket.destroy()
  }
}
