import type { Duplex } from 'node:stream'

/** Memory that small frames are written into, before it is cut into what is sent. */
const BLOCK = 65_536
/** What is left of a block is given to the next connection when it is more than this. */
const REST = 2048
/** Blocks with room that may lie ready. */
const SPARES = 16
/** Pieces from this size on are sent as they are; smaller ones are copied behind the frame before. */
const LARGE = 2048

interface Block {
  readonly bytes: Buffer
  at: number
}

const spares: Block[] = []

/** Gathers the frames of one turn of the event loop, so that they leave in one write. */
export class Output {
  readonly #stream: Duplex
  readonly #parts: Buffer[] = []
  #block: Block | undefined = undefined
  /** Where the bytes of the block begin that are not among the parts yet. */
  #from = 0
  #scheduled = false
  readonly #before: () => void

  /** `before` runs right before what was gathered leaves, and may add to it. */
  constructor(stream: Duplex, before: () => void) {
    this.#stream = stream
    this.#before = before
  }

  /** Bytes that the stream has and could not pass on. */
  get waiting(): number {
    return this.#stream.writableLength
  }

  /** Calls `write` with memory for `bytes` bytes and the place in it where they go. */
  room(bytes: number): Buffer {
    const block = this.#block
    if (block !== undefined && block.at + bytes <= block.bytes.length) return block.bytes
    this.#close()
    this.#block = take(bytes)
    this.#from = this.#block.at
    return this.#block.bytes
  }

  /** Where to write in what `room` gave. */
  get at(): number {
    return (this.#block as Block).at
  }

  /** What was written in `room` ends here. */
  set at(at: number) {
    ;(this.#block as Block).at = at
  }

  /** Adds bytes, which must not change any more. */
  add(bytes: Buffer): void {
    if (bytes.length < LARGE) {
      const room = this.room(bytes.length)
      room.set(bytes, this.at)
      this.at += bytes.length
      return
    }
    this.#cut()
    this.#parts.push(bytes)
  }

  /** What is gathered leaves at the end of this turn. */
  schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(this.#onTurn)
  }

  /** Gives what is gathered to the stream. */
  flush(): void {
    this.#close()
    const parts = this.#parts
    const stream = this.#stream
    if (parts.length === 0) return
    if (stream.destroyed || stream.writableEnded) parts.length = 0
    else if (parts.length === 1) stream.write(parts.pop() as Buffer)
    else {
      stream.cork()
      for (const part of parts) stream.write(part)
      stream.uncork()
      parts.length = 0
    }
  }

  readonly #onTurn = (): void => {
    this.#scheduled = false
    this.#before()
    this.flush()
  }

  #cut(): void {
    const block = this.#block
    if (block === undefined || block.at === this.#from) return
    this.#parts.push(block.bytes.subarray(this.#from, block.at))
    this.#from = block.at
  }

  #close(): void {
    this.#cut()
    const block = this.#block
    this.#block = undefined
    if (block !== undefined && spares.length < SPARES && block.bytes.length - block.at >= REST) spares.push(block)
  }
}

function take(bytes: number): Block {
  const spare = spares.pop()
  if (spare !== undefined && spare.at + bytes <= spare.bytes.length) return spare
  return { bytes: Buffer.allocUnsafeSlow(Math.max(BLOCK, bytes)), at: 0 }
}
