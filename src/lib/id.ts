import { randomFillSync, randomInt } from 'node:crypto'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** Seconds between the Unix epoch and the epoch of KSUIDs (13 May 2014), which keeps 32 bits sufficient until 2150. */
const EPOCH_SECONDS = 1_400_000_000
const LENGTH = 27
/** Of the random part, in units of 16 bits. */
const RANDOM = 8
/** Digits that one division yields: a remainder below 62 ** 6, times 2 ** 16, is still an exact number. */
const AT_ONCE = 6
const DIVISOR = 62 ** AT_ONCE

/** Random bits that no id has got yet: asking the system for each id costs several times the id. */
const stock = new Uint16Array(1_024)
let next = stock.length

/**
 * A new id: `<prefix>_` and a KSUID, 27 base-62 digits of 32 bits of time (seconds of `wall`, milliseconds since the
 * Unix epoch) and 128 random bits. Ids made in different seconds sort by time.
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

/** `number`: units of 16 bits, highest first; it is used up. */
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

/** In [0, 1); a client that has seen many of them cannot predict the next. */
export function unpredictable(): number {
  return randomInt(RANGE) / RANGE
}
