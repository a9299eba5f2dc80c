/**
 * Durations in configurations: one or more `<integer><unit>` parts, largest unit first, units `h`, `m`, `s`, `ms` (`90s`, `1h30m`,
 * `250ms`). A plain number is in seconds, to the millisecond.
 */
const SECONDS = /^\d{1,12}(?:\.\d{1,3})?$/
/** One part of a duration. */
const PART = /(\d+)(ms|h|m|s)/y
const MILLISECONDS = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const
const ORDER = ['h', 'm', 's', 'ms']

/** Returns the milliseconds of `text`, or undefined for an invalid duration. */
export function parseDuration(text: string): number | undefined {
  if (SECONDS.test(text)) return Math.round(Number(text) * MILLISECONDS.s)
  let total = 0
  let position = 0
  let rank = -1
  while (position < text.length) {
    PART.lastIndex = position
    const part = PART.exec(text)
    if (part === null) return undefined
    const unit = part[2] as keyof typeof MILLISECONDS
    const unitRank = ORDER.indexOf(unit)
    if (unitRank <= rank) return undefined
    rank = unitRank
    total += Number(part[1]) * MILLISECONDS[unit]
    position = PART.lastIndex
  }
  return text.length > 0 && Number.isSafeInteger(total) ? total : undefined
}

/** Returns the shortest text that `parseDuration` reads as `milliseconds` (an integer ≥ 0). */
export function formatDuration(milliseconds: number): string {
  if (milliseconds === 0) return '0s'
  let rest = milliseconds
  let text = ''
  for (const unit of ORDER as (keyof typeof MILLISECONDS)[]) {
    const count = Math.floor(rest / MILLISECONDS[unit])
    if (count > 0) text += `${count}${unit}`
    rest -= count * MILLISECONDS[unit]
  }
  return text
}

/**
 * Sizes in configurations: a number of bytes, optionally with a unit `KiB`, `MiB`, `GiB` (powers of 1024). `KB` and `K` are rejected as
 * ambiguous.
 */
const UNITS = [
  ['GiB', 1024 ** 3],
  ['MiB', 1024 ** 2],
  ['KiB', 1024]
] as const

/** Returns the bytes of `text`, or undefined for an invalid size. */
export function parseSize(text: string): number | undefined {
  const match = /^(\d{1,15}) ?(GiB|MiB|KiB|B)?$/.exec(text)
  if (match === null) return undefined
  const factor = UNITS.find(([unit]) => unit === match[2])?.[1] ?? 1
  const bytes = Number(match[1]) * factor
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

/** Returns the shortest text that `parseSize` reads as `bytes` (an integer ≥ 0). */
export function formatSize(bytes: number): string {
  for (const [unit, factor] of UNITS) {
    if (bytes >= factor && bytes % factor === 0) return `${bytes / factor}${unit}`
  }
  return String(bytes)
}

/** Rounds milliseconds to microseconds. */
export function toMicroseconds(milliseconds: number): number {
  return Math.round(milliseconds * 1_000) / 1_000
}
