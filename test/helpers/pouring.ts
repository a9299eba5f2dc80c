import type { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'

const CHUNK = Buffer.alloc(65_536)

/** Writes into a stream for as long as it takes something, at most `most` bytes. */
export class Pouring {
  /** Bytes. */
  written = 0

  /** Begins at once. Once for each: a stream may come later than what watches it. */
  into(stream: Writable, most: number): this {
    const more = (): void => {
      for (let room = true; room && this.written < most; this.written += CHUNK.length) room = stream.write(CHUNK)
    }
    stream.on('drain', more)
    more()
    return this
  }

  /** Resolves with how much was taken, once nothing more is. */
  async stuck(): Promise<number> {
    let before = -1
    while (before !== this.written) {
      before = this.written
      await sleep(50)
    }
    return before
  }
}
