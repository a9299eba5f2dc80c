import { setTimeout } from 'node:timers/promises'

/** Pauses between two looks. Milliseconds. */
const PAUSE = 5
const LONGEST = 25

/**
 * Resolves once it holds. Between two looks it pauses: otherwise it takes the processor from those whom it waits for. Where each look asks
 * somebody, the pauses become longer.
 */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let pause = PAUSE; ; ) {
    const held = holds()
    if (await held) return
    await setTimeout(pause)
    if (typeof held !== 'boolean') pause = Math.min(pause * 1.2, LONGEST)
  }
}
