export interface MicroResult {
  readonly name: string
  readonly nanoseconds: number
  readonly note?: string
}

/** Nanoseconds of one call: the median of five timed series after a warm-up. */
export function timed(calls: number, run: () => void): number {
  for (let i = 0; i < calls / 5; i++) run()
  const series: number[] = []
  for (let round = 0; round < 5; round++) {
    const begun = process.hrtime.bigint()
    for (let i = 0; i < calls; i++) run()
    series.push(Number(process.hrtime.bigint() - begun) / calls)
  }
  return series.sort((a, b) => a - b)[2] as number
}
