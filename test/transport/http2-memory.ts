import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { Exchange } from '../../src/flow/exchange.js'
import { DeadlineTimer } from '../../src/lib/deadline-timer.js'
import { SocketFacts } from '../../src/transport/connection-facts.js'
import type { ListenLimits } from '../../src/transport/contract.js'
import { Http2Protocol } from '../../src/transport/http2/connection.js'
import type { Served } from '../../src/transport/listener.js'
import { ManualClock } from '../helpers/clock.js'
import { FrameText } from './raw-frames.js'

/** The bytes of a connection without a network: what is written to it is `sent`, and it takes only what it is told to. */
class MemoryPipe extends Duplex {
  readonly sent = new FrameText()
  /** False: nobody reads, and what is written waits. */
  reads = true
  bytesRead = 0
  bytesWritten = 0
  #waiting: (() => void)[] = []

  constructor() {
    super({ allowHalfOpen: true, autoDestroy: true })
    this.on('error', () => undefined)
  }

  override _read(): void {
    // Bytes come as they are fed.
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    const take = (): void => {
      this.bytesWritten += chunk.length
      this.sent.bytes = Buffer.concat([this.sent.bytes, chunk])
      done()
    }
    if (this.reads) take()
    else this.#waiting.push(take)
  }

  readAll(): void {
    this.reads = true
    for (const take of this.#waiting.splice(0)) take()
  }
}

/** A connection of HTTP/2 in memory, in front of a handler of the test. */
export class MemoryConnection {
  readonly pipe = new MemoryPipe()
  readonly clock = new ManualClock()
  readonly exchanges: Exchange[] = []
  readonly refused: { readonly status: number; readonly why: string }[] = []
  readonly served: Served
  /** How often the connection said that it is gone. */
  gone = 0

  constructor(exchange: (exchange: Exchange) => void | Promise<void>, limits: Partial<ListenLimits> = {}) {
    const host = {
      clock: this.clock,
      limits: { ...LIMITS, ...limits },
      handler: {
        connection: () => true,
        exchange: (one: Exchange) => {
          this.exchanges.push(one)
          return exchange(one)
        },
        refused: (_facts: unknown, status: number, why: string) => void this.refused.push({ status, why })
      },
      replaced: () => undefined,
      lasts: () => true,
      deadlines: new DeadlineTimer(this.clock, 250),
      gone: () => {
        this.gone++
      }
    }
    const socket = this.pipe as unknown as Socket
    const facts = new SocketFacts(1, 'memory', socket, 0)
    this.served = new Http2Protocol(host).serve(facts, socket)
  }

  /** What was sent, frame by frame. */
  get sent(): FrameText {
    return this.pipe.sent
  }

  feed(bytes: Buffer): void {
    this.pipe.bytesRead += bytes.length
    this.pipe.push(bytes)
  }
}

const LIMITS: ListenLimits = {
  headerBytes: 65_536,
  headers: 200,
  targetBytes: 8192,
  headTimeout: 0,
  bodyIdle: 0,
  keepAlive: 0,
  connections: 0
}
