import { Readable } from 'node:stream'

/** Content type of event streams. */
export const EVENT_STREAM_TYPE = 'text/event-stream; charset=utf-8'
/** Bytes that may wait for a reader of a stream; further events are dropped and counted. */
const WAITING = 1024 * 1024
/** Events that follow one another closer than this go in one write, so that busy streams wake their readers seldom. Milliseconds. */
const GATHER = 100
/** Interval of heartbeats, which detect a broken connection on both sides (ms). */
const HEARTBEAT = 15_000
/** Heartbeats that a reader may let wait. */
const MOST_STUCK = 4

/** Server-sent events (HTML 9.2) for one reader. A slow reader misses events, which are counted; memory is bounded. */
export class EventStream extends Readable {
  readonly #timer: NodeJS.Timeout
  #stop: (() => void) | undefined
  #dropped = 0
  /** Batched events for the next write; undefined after an idle time, so that an event is sent immediately. */
  #gathered: { text: string; readonly timer: NodeJS.Timeout } | undefined
  /** Heartbeats at which something still waited. */
  #stuck = 0

  constructor() {
    super({ highWaterMark: WAITING })
    this.push(': following\n\n')
    this.#timer = setInterval(() => this.#beat(), HEARTBEAT)
    this.#timer.unref()
  }

  /** Called when the reader has disconnected. */
  stops(stop: () => void): void {
    this.#stop = stop
  }

  /** Sends an event, or counts it as dropped. */
  give(name: string, data: object, id?: string): void {
    const gathered = this.#gathered?.text.length ?? 0
    if (this.readableLength + gathered > WAITING) {
      this.#dropped++
      return
    }
    const lost = this.#dropped === 0 ? '' : `event: dropped\ndata: {"count":${this.#dropped}}\n\n`
    this.#dropped = 0
    const text = `${lost}event: ${name}\n${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
    if (this.#gathered !== undefined) this.#gathered.text += text
    else {
      this.push(text)
      this.#gather()
    }
  }

  #gather(): void {
    const timer = setTimeout(() => {
      if (this.#flush()) this.#gather()
    }, GATHER)
    timer.unref()
    this.#gathered = { text: '', timer }
  }

  /** Writes the batched events. Returns false if there were none. */
  #flush(): boolean {
    const { text, timer } = this.#gathered ?? { text: '', timer: undefined }
    clearTimeout(timer)
    this.#gathered = undefined
    if (text === '') return false
    this.push(text)
    return true
  }

  /** The process stops. */
  over(): void {
    clearInterval(this.#timer)
    this.#flush()
    this.push('event: over\ndata: {}\n\n')
    this.push(null)
  }

  /** Sends a heartbeat, or disconnects a reader that does not read. */
  #beat(): void {
    this.#stuck = this.readableLength > 0 ? this.#stuck + 1 : 0
    if (this.#stuck < MOST_STUCK) this.push(':\n\n')
    else this.destroy()
  }

  override _read(): void {
    // Events are pushed when they occur.
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearInterval(this.#timer)
    clearTimeout(this.#gathered?.timer)
    this.#stop?.()
    done(error)
  }
}
