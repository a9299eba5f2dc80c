/** Growth of the CPU time for twice the input: 4 where it is quadratic, 2 where it is linear, with room for a machine that does other work. */
const MOST_GROWTH = 2.6
/** Milliseconds of CPU below which the collector of memory and the compiler say more than the work. */
const FLOOR = 12
/** Measurements of a growth before it counts as proven; the cheapest run of each size is compared. Only what fails needs more than one. */
const PROOF = 15

/** Work that grows faster than its input. */
export interface Growth {
  /** Milliseconds of CPU for a quarter of the input, and for the whole. */
  readonly quarter: number
  readonly whole: number
}

/**
 * Returns the growth of `run` from a quarter of the input to the whole of `size`, when the CPU time of the process grows by more than
 * 2.6 times for each doubling; else undefined. `inputOf` makes the input of a size; only `run` is measured. Work of less than twelve
 * milliseconds is not judged. A growth is measured again, and the cheapest runs decide.
 */
export async function fastGrowth<Input>(
  size: number,
  inputOf: (size: number) => Input,
  run: (input: Input) => unknown
): Promise<Growth | undefined> {
  const cost = async (size: number): Promise<number> => {
    const input = inputOf(size)
    const begun = process.cpuUsage()
    await run(input)
    const { user, system } = process.cpuUsage(begun)
    return (user + system) / 1_000
  }
  let quarter = Number.POSITIVE_INFINITY
  let whole = Number.POSITIVE_INFINITY
  for (let proof = 0; proof < PROOF; proof++) {
    whole = Math.min(whole, await cost(size))
    if (whole <= FLOOR) return undefined
    quarter = Math.min(quarter, await cost(Math.ceil(size / 4)))
    if (whole <= MOST_GROWTH ** 2 * quarter) return undefined
  }
  return { quarter, whole }
}
