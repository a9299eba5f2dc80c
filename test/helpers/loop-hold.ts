/** How the loop went on while something was done. */
export interface LoopHold<T> {
  readonly value: T
  /** Turns of the loop in the meantime. */
  readonly turns: number
  /** The longest time between two of them, in milliseconds. */
  readonly longest: number
}

/** Does `work`, which may wait, and looks how often and how late the loop has its turns beside it. */
async function loopHold<T>(work: () => Promise<T>): Promise<LoopHold<T>> {
  let turns = 0
  let longest = 0
  let last = performance.now()
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
  longest = Math.max(longest, performance.now() - last)
  return { value, turns, longest }
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
