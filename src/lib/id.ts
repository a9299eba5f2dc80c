import { randomBytes } from 'node:crypto'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** Seconds between the Unix epoch and the epoch of KSUIDs (13 May 2014), which keeps 32 bits sufficient until 2150. */
const EPOCH_SECONDS = 1_400_000_000
const LENGTH = 27

/**
 * A new id: `<prefix>_` and a KSUID, 27 base-62 digits of 32 bits of time (seconds of `wall`, milliseconds since the
 * Unix epoch) and 128 random bits. Ids made in different seconds sort by time.
 */
export function newId(prefix: string, wall: number): string {
  const bytes = randomBytes(20)
  bytes.writeUInt32BE((Math.floor(wall / 1000) - EPOCH_SECONDS) >>> 0, 0)
  return `${prefix}_${base62(bytes).padStart(LENGTH, '0')}`
}

function base62(bytes: Uint8Array): string {
  let rest = BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
  let text = ''
  while (rest > 0n) {
    text = (DIGITS[Number(rest % 62n)] as string) + text
    rest /= 62n
  }
  return text
}
