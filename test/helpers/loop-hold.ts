/** How the loop went on while something was done. */
export interface LoopHold<T> {
  readonly value: T
  /** Turns of the loop in the meantime. */
  readonly turns: number
  /** The longest time between two of them, in milliseconds. */
  readonly longest: number
  /** All of it, in milliseconds. */
  readonly took: number
}

/** Does `work`, which may wait, and looks how often and how late the loop has its turns beside it. */
async function loopHold<T>(work: () => Promise<T>): Promise<LoopHold<T>> {
  let turns = 0
  let longest = 0
  const begun = performance.now()
  let last = begun
  let done = false
  const turn = () => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
    turns++
    if (!done) setImmediate(turn)
  }
  setImmediate(turn)
  const value = await work()
  done = true
  const ended = performance.now()
  longest = Math.max(longest, ended - last)
  return { value, turns, longest, took: ended - begun }
}

/** Fewest turns of work that gives the loop one every two milliseconds, however fast the machine is; half of them may be missing. */
export function turnsOf({ took }: Pick<LoopHold<unknown>, 'took'>): number {
  return Math.floor(took / 4)
}

/** The least of several runs: the machine may be busy with something else in one of them. */
export async function leastHold<T>(work: () => Promise<T>, runs = 3): Promise<LoopHold<T>> {
  let best = await loopHold(work)
  for (let run = 1; run < runs; run++) {
    const next = await loopHold(work)
    if (next.longest < best.longest) best = next
  }
  return best
}
