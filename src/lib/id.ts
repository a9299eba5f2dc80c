import { randomFillSync, randomInt } from 'node:crypto'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** Seconds between the Unix epoch and the epoch of KSUIDs (13 May 2014), which keeps 32 bits sufficient until 2150. */
const EPOCH_SECONDS = 1_400_000_000
/** Number of digits of a KSUID. */
const LENGTH = 27
/** Length of the random part, in units of 16 bits. */
const RANDOM = 8
/** Digits per division: a remainder below 62 ** 6, times 2 ** 16, is still an exact number. */
const AT_ONCE = 6
/** Divisor for that many digits. */
const DIVISOR = 62 ** AT_ONCE

/** Stock of unused random bits: requesting them per id would cost several times the id. */
const stock = new Uint16Array(1_024)
let next = stock.length

/**
 * Returns a new id: `<prefix>_` and a KSUID, 27 base-62 digits of a 32-bit time (seconds of `wall`, which is in milliseconds since the Unix
 * epoch) and 128 random bits. Ids of different seconds sort by time.
 */
export function newId(prefix: string, wall: number): string {
  const seconds = (Math.floor(wall / 1000) - EPOCH_SECONDS) >>> 0
  if (next === stock.length) {
    randomFillSync(stock)
    next = 0
  }
  const number = [seconds >>> 16, seconds & 0xffff]
  for (const end = next + RANDOM; next < end; next++) number.push(stock[next] as number)
  return `${prefix}_${base62(number)}`
}

/** `number`: units of 16 bits, highest first; overwritten. */
function base62(number: number[]): string {
  let text = ''
  while (text.length < LENGTH) {
    let remainder = 0
    for (let i = 0; i < number.length; i++) {
      const dividend = remainder * 0x1_0000 + (number[i] as number)
      number[i] = Math.floor(dividend / DIVISOR)
      remainder = dividend % DIVISOR
    }
    for (let digit = 0; digit < AT_ONCE && text.length < LENGTH; digit++) {
      text = (DIGITS[remainder % 62] as string) + text
      remainder = Math.floor(remainder / 62)
    }
  }
  return text
}

const RANGE = 2 ** 48 - 1

/** Returns a random number in [0, 1) that clients cannot predict from earlier ones. */
export function unpredictable(): number {
  return randomInt(RANGE) / RANGE
}
