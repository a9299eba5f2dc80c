import { randomInt } from 'node:crypto'

const RANGE = 2 ** 48 - 1

/** In [0, 1); a client that has seen many of them cannot tell the next. */
export function unpredictable(): number {
  return randomInt(RANGE) / RANGE
}
