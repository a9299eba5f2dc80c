/**
 * Sizes as configuration writes them: a whole number of bytes, or one with a unit `KiB`, `MiB`, `GiB` (powers of 1024).
 * `KB` and `K` are refused, because people disagree about what they mean.
 */
const UNITS = [
  ['GiB', 1024 ** 3],
  ['MiB', 1024 ** 2],
  ['KiB', 1024]
] as const

/** Bytes of `text`, or undefined when it is no size. */
export function parseSize(text: string): number | undefined {
  const match = /^(\d{1,15}) ?(GiB|MiB|KiB|B)?$/.exec(text)
  if (match === null) return undefined
  const factor = UNITS.find(([unit]) => unit === match[2])?.[1] ?? 1
  const bytes = Number(match[1]) * factor
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

/** The shortest text that `parseSize` reads back as `bytes` (a whole number ≥ 0). */
export function formatSize(bytes: number): string {
  for (const [unit, factor] of UNITS) {
    if (bytes >= factor && bytes % factor === 0) return `${bytes / factor}${unit}`
  }
  return String(bytes)
}
