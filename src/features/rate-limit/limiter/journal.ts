import { HEADER, UNDO_ENTRIES } from './layout.js'

/**
 * Makes several stores one step: after `commit` all of them hold; if their thread ends before, `rollback` restores the changed words, last
 * one first. The address and old value of a word are written before it is changed.
 *
 * Every prefix of the stores can be undone: an entry is valid once `undone` is raised, before its word is changed, so a changed word always
 * has an entry, and an entry for an unchanged word restores the same value. A rollback can be repeated, so the thread that rolls back may
 * end as well.
 *
 * A table has one journal. Only the thread inside the structure uses it.
 */
export class Journal {
  /** @param recording true if another thread can undo the steps; a single thread writes no entries */
  constructor(
    private readonly words: Uint32Array,
    public recording: boolean
  ) {}

  /** Changes the word at `address` in the current step. */
  set(address: number, value: number): void {
    if (this.recording) this.record(address)
    this.words[address] = value
  }

  /** Completes the current step. */
  commit(): void {
    this.words[HEADER.undone] = 0
  }

  /** Undoes an incomplete step. */
  rollback(): void {
    const { words } = this
    for (let count = words[HEADER.undone]!; count > 0; count -= 1) {
      words[words[HEADER.undo + 2 * count - 2]!] = words[HEADER.undo + 2 * count - 1]!
      words[HEADER.undone] = count - 1
    }
  }

  private record(address: number): void {
    const { words } = this
    const count = words[HEADER.undone]!
    if (count === UNDO_ENTRIES) throw new RangeError('a step of the limiter is longer than its journal')
    words[HEADER.undo + 2 * count] = address
    words[HEADER.undo + 2 * count + 1] = words[address]!
    words[HEADER.undone] = count + 1
  }
}
