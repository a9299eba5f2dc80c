import type { Buckets } from './buckets.js'
import type { Directory } from './directory.js'
import { type Geometries, HEADER, SEGMENT } from './layout.js'
import type { Memory } from './memory.js'
import { windowOf } from './state.js'

/*
 * Repair after a thread that stopped inside a lock
 * ================================================
 *
 * Promise. After `repair` every lock of the thread is free, every bucket contains at least its admissions, no memory is
 * leaked, and no returned decision is undone. The repairing thread may itself stop at any store: the next call continues.
 *
 * Argument. The thread's last decision was not returned, so its admission may be counted or not. Only the owner of a segment
 * reads its buckets, so no thread has seen an incomplete change. It suffices that after each single store no earlier
 * admission is lost, or can be restored:
 *
 *   ring      Dropping is one store, of a word with the place and the number of the stamps. Counting writes the time of
 *             the last admission, then the stamps after the valid ones, then the number, in one store.
 *   counts    Counting writes the time of the last admission, the total, the counter; dropping writes the counter 0,
 *             then the total, then the oldest grain. So the counters are always correct except for the decision that
 *             was not returned, and the total is never less than their sum. The repair computes the sum again, because
 *             a total that is too high would stay so.
 *   place     Every allocation and release, and every slot that changes its state, is a step of the journal: it happens
 *             completely or not at all (journal.ts). A new state is in no slot until it is complete; the step that puts
 *             it there removes the previous one. The header names both (`building`, `leaving`), so neither is lost and
 *             the repair releases the one without a slot.
 *   removal   Entries move back into the vacated slot one at a time, and the header has the next slot to vacate: that
 *             slot's entry is in another one too, or its bucket is empty or in the sketch. Moving it again has no effect.
 *   rebuild   A segment's entries are copied to new blocks, and the old ones are kept until one store of the header
 *             switches the segment to the new ones; from then on the switch is repeated as a whole (directory.ts).
 *   sketch    Rows are raised one after another: an estimate only grows. A generation that is cleared had expired
 *             before, and gets its number once it is clear. The bucket leaves the directory after the sketch and its
 *             segment's mark contain it, so in between it counts twice.
 *   segments  The thread may have held several: its own, and another one while it made room inside the structure. All
 *             with its number are repaired.
 *
 * Each lock is taken over with one `compareExchange`, so of two repairing threads only one gets it. Changes inside such a lock
 * belong to the repairing thread: if it stops, they are found by its own number.
 */

/**
 * Takes over every lock of the stopped thread number `thread`, finishes or undoes its work, and releases the locks; returns their number.
 */
export function repair(
  memory: Memory,
  directory: Directory,
  buckets: Buckets,
  geometries: Geometries,
  thread: number
): number {
  const { locks, layout } = memory
  let found = 0
  const interrupted = thread === memory.thread && memory.entered
  if (locks.takeOver(HEADER.structureLock, thread) || interrupted) {
    memory.entered = true
    memory.journal.rollback()
    directory.finishRemoval()
    directory.finishRebuild()
    buckets.discard(HEADER.leaving)
    buckets.discard(HEADER.building)
    memory.leave()
    found += 1
  }
  for (let segment = 0; segment < layout.segments; segment += 1) {
    const lock = directory.record(segment) + SEGMENT.lock
    if (!locks.takeOver(lock, thread)) continue
    recount(segment)
    memory.leave()
    locks.release(lock)
    found += 1
  }
  return found

  function recount(segment: number): void {
    const { words } = memory
    const size = words[directory.record(segment) + SEGMENT.size]!
    for (let index = 0; index < size; index += 1) {
      const state = words[directory.slot(segment, index) + 2]!
      if (state !== 0) buckets.recount(state, geometries.of(windowOf(words, state)))
    }
  }
}
