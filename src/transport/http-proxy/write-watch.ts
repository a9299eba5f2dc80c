import type { Socket } from 'node:net'

/** Notices a peer that does not read: bytes wait for it and none of them is taken. */
export class WriteWatch {
  #taken = 0
  #since = -1

  /** True when nothing was taken for more than `allowed` milliseconds (0: never). `now` is of the monotonic clock. */
  stuck(socket: Socket, now: number, allowed: number): boolean {
    const waiting = socket.writableLength
    if (waiting === 0 || allowed === 0) {
      this.#since = -1
      return false
    }
    const taken = socket.bytesWritten - waiting
    if (taken !== this.#taken || this.#since === -1) {
      this.#taken = taken
      this.#since = now
      return false
    }
    return now - this.#since > allowed
  }
}
