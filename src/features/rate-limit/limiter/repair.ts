import type { Buckets } from './buckets.js'
import type { Directory } from './directory.js'
import { type Geometries, HEADER, SEGMENT } from './layout.js'
import type { Memory } from './memory.js'
import { tensOf } from './state.js'

/*
 * What a thread leaves behind that ends inside a lock
 * ====================================================
 *
 * Promise. After `repair` every lock that the thread had is free, every bucket holds at least what was admitted, nothing
 * of the memory is lost, and no decision that was answered has become undone. It may end itself at any store: the next
 * call goes on.
 *
 * Argument. The decision in which the thread ended was not answered, so its admission may be counted or not. A bucket is
 * only read by the owner of its segment, so no thread has seen what was half done. It is enough that after each single store
 * no earlier admission is lost, or what is lost can be found again:
 *
 *   ring      Dropping is one store, of a word that has the place and the number of the stamps. Counting writes the time
 *             of the last admission, then the stamps behind those that count, then the number, in one store.
 *   counts    Counting writes the time of the last admission, the total, the counter; dropping writes the counter 0,
 *             then the total, then the oldest grain. So the counters are right at any moment but for the decision that
 *             was not answered, and the total is never less than they are. The repair adds them up again, because a total
 *             that is more than they are would stay so.
 *   place     Whatever takes or gives back memory, and every slot that changes its state, is a step of the journal: it
 *             happens or it does not (journal.ts). A state that is being made is in no slot until it holds everything; the
 *             step that puts it there takes the former one out. The header names both (`building`, `leaving`), so neither
 *             is lost and the repair gives back the one that no slot holds.
 *   removal   Entries move back into the vacated slot one at a time, and the header has the slot that is to be vacated
 *             next: that slot's entry stands in another one too, or its bucket is empty or in the sketch. Moving it once
 *             more changes nothing.
 *   rebuild   A segment's entries are copied into new blocks, and the former ones stay until one store of the header says
 *             that the segment takes the new ones over; from then on taking over is repeated as a whole (directory.ts).
 *   sketch    Rows are raised one after the other: an estimate is only more than it was. A generation that is cleared was
 *             over before, and gets its number when it is clear. The bucket leaves the directory after the sketch and its
 *             segment's mark have it, so in between it counts twice.
 *   segments  The thread may have had several: its own, and while it made room inside the structure another one. All that
 *             have its number are repaired.
 *
 * The locks are taken over with one `compareExchange` each, so of two that repair one gets each lock. What is done inside
 * of a lock that was taken over is the repairing thread's: when that one ends, it is found by its own number.
 */

/**
 * Takes over every lock of thread number `thread`, which has ended, finishes or takes back what it was doing, and frees
 * them; returns how many there were.
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
      if (state !== 0) buckets.recount(state, geometries.of(tensOf(words, state)))
    }
  }
}
