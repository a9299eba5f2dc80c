import { setTimeout } from 'node:timers/promises'

/** Milliseconds. */
const PAUSE = 5

/** Resolves once it holds. Between two looks it pauses: otherwise it takes the processor from those whom it waits for. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await setTimeout(PAUSE)
}
