import { HEADER, UNDO_ENTRIES } from './layout.js'

/**
 * Makes a few stores one step: after `commit` all of them hold, and when their thread ends before, `rollback` takes back
 * those that were made, last one first. Before a word is changed, its address and what it holds are written down.
 *
 * Every prefix of the stores can be taken back: an entry counts when `undone` is raised, which comes before its word is
 * changed, so a word is never changed without its entry, and an entry whose word is unchanged restores what is there.
 * Taking back twice gives the same, so the thread that takes back may end as well.
 *
 * There is one journal for a table. Only the thread that has entered the structure uses it.
 */
export class Journal {
  /** @param recording can another thread take back what this one does? Nothing is written down for a thread that is alone. */
  constructor(
    private readonly words: Uint32Array,
    public recording: boolean
  ) {}

  /** Changes the word at `address` as a part of the present step. */
  set(address: number, value: number): void {
    if (this.recording) this.record(address)
    this.words[address] = value
  }

  /** Ends the present step: it holds from now on. */
  commit(): void {
    this.words[HEADER.undone] = 0
  }

  /** Takes back a step that was not ended. */
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
