import { readRequests } from './codec-messages.js'

/**
 * Target of a coverage-guided fuzzer: the codec reads any bytes the same whole, byte by byte and cut in the middle, and
 * never throws. `npm run fuzz:guided` builds it for jsfuzz, which searches for inputs that reach new code.
 */
export function fuzz(bytes: Buffer): void {
  const whole = JSON.stringify(readRequests([bytes]))
  const middle = bytes.length >> 1
  const single = Array.from(bytes, (_, i) => bytes.subarray(i, i + 1))
  for (const pieces of [single, [bytes.subarray(0, middle), bytes.subarray(middle)]]) {
    const cut = JSON.stringify(readRequests(pieces))
    if (cut !== whole) throw new Error(`${JSON.stringify(bytes.toString('latin1'))}: ${cut} is not ${whole}`)
  }
}
