import { LARGEST } from './frames.js'

/** The size of every window before SETTINGS or WINDOW_UPDATE change it (RFC 9113 6.9.2). */
export const FIRST_WINDOW = 65_535

/** How much the other side may still send, and when it should hear that it may send more (RFC 9113 5.2, 6.9). Bytes. */
export class ReceiveWindow {
  readonly #size: number
  #left: number
  #freed = 0

  /** `size` is what it is told to be; the update that makes it so is the caller's. */
  constructor(size: number) {
    this.#size = size
    this.#left = size
  }

  /** So many bytes came; false: more than were allowed. */
  receive(bytes: number): boolean {
    this.#left -= bytes
    return this.#left >= 0
  }

  /** So many bytes wait no longer. Answers the increment to announce now; 0: it is too little to be worth a frame. */
  free(bytes: number): number {
    this.#freed += bytes
    if (this.#freed * 2 < this.#size) return 0
    const increment = this.#freed
    this.#freed = 0
    this.#left += increment
    return increment
  }
}

/** A send window with an increment; undefined: larger than a window may be (RFC 9113 6.9.1). It may be negative (6.9.2). */
export function widened(window: number, increment: number): number | undefined {
  const sum = window + increment
  return sum > LARGEST ? undefined : sum
}
