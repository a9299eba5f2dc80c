/** How the loop went on while something was done. */
export interface LoopHold<T> {
  readonly value: T
  /** Turns of the loop in the meantime. */
  readonly turns: number
  /** The most work between two of them, in milliseconds of CPU: what other processes do at the time does not count. */
  readonly longest: number
  /** All of it, in milliseconds of CPU. */
  readonly took: number
}

type CpuUsage = () => { readonly user: number; readonly system: number }
const { threadCpuUsage } = process as unknown as { readonly threadCpuUsage?: CpuUsage }
/** True where the CPU of this thread alone is counted (Node 24); before, that of threads which compile and collect garbage counts too. */
export const COUNTS_THREAD = threadCpuUsage !== undefined
const cpuUsage: CpuUsage = threadCpuUsage ?? process.cpuUsage

function worked(): number {
  const { user, system } = cpuUsage()
  return (user + system) / 1_000
}

/** Does `work`, which may wait, and looks how often the loop has its turns beside it, and after how much work. */
async function loopHold<T>(work: () => Promise<T>): Promise<LoopHold<T>> {
  let turns = 0
  let longest = 0
  const begun = worked()
  let last = begun
  let done = false
  const step = () => {
    const now = worked()
    longest = Math.max(longest, now - last)
    last = now
  }
  const turn = () => {
    step()
    turns++
    if (!done) setImmediate(turn)
  }
  setImmediate(turn)
  const value = await work()
  done = true
  step()
  return { value, turns, longest, took: last - begun }
}

/**
 * Fewest turns of work that gives the loop one every two milliseconds, however fast the machine is. Half of them may be missing, and half of
 * the CPU may be that of other threads, which collect garbage.
 */
export function turnsOf({ took }: Pick<LoopHold<unknown>, 'took'>): number {
  return Math.floor(took / 8)
}

/** The least of several runs: threads of the process may have been busy with something else in one of them. */
export async function leastHold<T>(work: () => Promise<T>, runs = 3): Promise<LoopHold<T>> {
  let best = await loopHold(work)
  for (let run = 1; run < runs; run++) {
    const next = await loopHold(work)
    if (next.longest < best.longest) best = next
  }
  return best
}
