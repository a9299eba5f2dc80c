export interface MicroResult {
  readonly name: string
  readonly nanoseconds: number
  readonly note?: string
}

/** CPU nanoseconds of one call, garbage collection and other threads included; waiting for a core is not. */
export function cpu(calls: number, run: () => void): number {
  const begun = process.cpuUsage()
  for (let i = 0; i < calls; i++) run()
  return cpuSince(begun) / calls
}

/** CPU nanoseconds of all threads since `begun`. */
export function cpuSince(begun: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(begun)
  return (user + system) * 1_000
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
