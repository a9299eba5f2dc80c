import type { MuxStream } from '../protocol/stream.js'
import { MOST_BEATS } from './limits.js'

const BEAT_BYTES = 4

/**
 * The heartbeat stream of an agent: each value goes back as it came. The stream is never ended from here, because some
 * agents answer that with a flood.
 */
export class Heartbeat {
  readonly #beaten: () => void
  #stream: MuxStream | undefined = undefined
  #beats = 0

  /** `beaten`: the agent lives. */
  constructor(beaten: () => void) {
    this.#beaten = beaten
  }

  get stream(): MuxStream | undefined {
    return this.#stream
  }

  /** False: there is one already. */
  begin(stream: MuxStream): boolean {
    if (this.#stream !== undefined && !this.#stream.destroyed) return false
    this.#stream = stream
    let rest = Buffer.alloc(0)
    stream.on('data', (chunk: Buffer) => {
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      const whole = bytes.length - (bytes.length % BEAT_BYTES)
      rest = Buffer.from(bytes.subarray(whole))
      if (whole === 0) return
      this.#beats += whole / BEAT_BYTES
      if (this.#beats > MOST_BEATS) return
      this.#beaten()
      stream.write(Buffer.from(bytes.subarray(0, whole)))
    })
    return true
  }

  /** Were there too many beats since the last question? */
  flooded(): boolean {
    const flooded = this.#beats > MOST_BEATS
    this.#beats = 0
    return flooded
  }
}
