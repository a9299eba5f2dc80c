import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { BytePipe } from '../../exchange/body.js'

/** One connection to an upstream, from its opening to its end. */
export class UpstreamConnection {
  readonly stream: Duplex
  readonly #pool: UpstreamPool
  readonly #key: string
  readonly #reusable: boolean
  #state: 'busy' | 'idle' | 'gone' = 'busy'
  #poisoned = false
  #read = 0
  /** A request is out. */
  expecting = false
  /** The answer that is being read. */
  message: IncomingMessage | undefined = undefined
  reused = false

  constructor(pool: UpstreamPool, key: string, pipe: BytePipe, reusable: boolean) {
    this.stream = pipe.duplex
    this.#pool = pool
    this.#key = key
    this.#reusable = reusable
    // These stay for the life of the connection: an answer nobody asked for, or an end, must be noticed while idle.
    this.stream.on('data', this.#onData)
    this.stream.on('end', this.#onGone)
    this.stream.on('close', this.#onGone)
    this.stream.on('free', this.#onFree)
  }

  /** Bytes that came from the upstream. */
  get bytesRead(): number {
    return this.#read
  }

  /** Bytes that the kernel, or whoever carries the stream, has taken; only their change means something. */
  get bytesWritten(): number {
    const { stream } = this
    return stream instanceof Socket ? stream.bytesWritten - stream.writableLength : -stream.writableLength
  }

  get usable(): boolean {
    return this.#state !== 'gone' && !this.#poisoned && this.stream.writable && !this.stream.readableEnded
  }

  take(): void {
    this.#state = 'busy'
    this.reused = true
    this.message = undefined
  }

  /** Takes the stream out of HTTP: the pool no longer watches it. */
  release(): Duplex {
    this.#state = 'gone'
    this.stream.removeListener('data', this.#onData)
    this.stream.removeListener('end', this.#onGone)
    this.stream.removeListener('close', this.#onGone)
    this.stream.removeListener('free', this.#onFree)
    return this.stream
  }

  destroy(): void {
    if (this.#state === 'idle') this.#pool.forget(this.#key, this)
    this.#state = 'gone'
    this.stream.destroy()
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#read += chunk.length
    if (this.expecting && this.message?.complete !== true) return
    // Bytes without a request, or beyond the announced length, could be taken for the next answer.
    this.#poisoned = true
    if (this.#state === 'idle') this.destroy()
  }

  /** node:http is done with the connection. */
  readonly #onFree = (): void => {
    this.expecting = false
    this.message = undefined
    if (this.#reusable && this.usable && this.#pool.keep(this.#key, this)) this.#state = 'idle'
    else this.destroy()
  }

  readonly #onGone = (): void => {
    if (this.#state === 'idle') this.destroy()
    else this.#poisoned = true
  }
}

/** Idle upstream connections by dialer key; the last one used is the first to be used again. */
export class UpstreamPool {
  readonly #idle = new Map<string, UpstreamConnection[]>()
  #retained: ReadonlySet<string> | undefined = undefined
  #closed = false

  /** An idle connection that still stands, or undefined. */
  take(key: string): UpstreamConnection | undefined {
    const idle = this.#idle.get(key)
    for (let connection = idle?.pop(); connection !== undefined; connection = idle?.pop()) {
      if (connection.usable) {
        connection.take()
        return connection
      }
      connection.destroy()
    }
    return undefined
  }

  /** False: the connection is not to be reused. */
  keep(key: string, connection: UpstreamConnection): boolean {
    if (this.#closed || this.#retained?.has(key) === false) return false
    const idle = this.#idle.get(key)
    if (idle === undefined) this.#idle.set(key, [connection])
    else idle.push(connection)
    return true
  }

  forget(key: string, connection: UpstreamConnection): void {
    const idle = this.#idle.get(key)
    const at = idle?.indexOf(connection) ?? -1
    if (at !== -1) idle?.splice(at, 1)
    if (idle?.length === 0) this.#idle.delete(key)
  }

  retain(keys: ReadonlySet<string>): void {
    this.#retained = keys
    for (const [key, idle] of this.#idle) {
      if (!keys.has(key)) for (const connection of [...idle]) connection.destroy()
    }
  }

  close(): void {
    this.#closed = true
    for (const idle of [...this.#idle.values()]) for (const connection of [...idle]) connection.destroy()
  }
}
