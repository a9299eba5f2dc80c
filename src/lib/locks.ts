/** Looks at a lock before its thread sleeps, and how often it sleeps for so many milliseconds: about 20 ms in all. */
const SPINS = 20
const SLEEPS = 200
const SLEEP = 0.05
/**
 * Turns of an empty loop between two looks, a third of a microsecond. A look moves the memory of the lock between cores, and with the lock
 * goes all that it guards: a few decisions in a row on one core cost less than one on each in turn.
 */
const PAUSE = 1_000

/**
 * Locks that threads take in shared memory: one word each, 0 when it is free, else the number of its owner + 1.
 *
 * Free, a lock costs one `compareExchange` and one `store`. No thread is woken when a lock is given back: it is held for less
 * than it takes to wake one. A thread that waits looks for a while and then sleeps for short times, about 20 ms in all: as
 * long as another thread may take a turn on the core of the owner. Then `acquire` answers false, and the lock is left to
 * `takeOver`, because its owner may have ended.
 *
 * A table that one thread alone uses takes no locks.
 */
export class Locks {
  /** Are there other threads? Only while none of the locks is held may this change. */
  shared: boolean
  private readonly own: number
  /** Written in each turn of the empty loop, so that there is one. */
  private turn = 0

  /** @param thread number of this thread */
  constructor(
    private readonly words: Int32Array,
    thread: number,
    shared: boolean
  ) {
    this.own = thread + 1
    this.shared = shared
  }

  /** Takes the lock at `word`; false: another thread has it for too long, or this one has it already. */
  acquire(word: number): boolean {
    return !this.shared || Atomics.compareExchange(this.words, word, 0, this.own) === 0 || this.wait(word)
  }

  /** Takes the lock at `word` if it is free. */
  tryAcquire(word: number): boolean {
    return !this.shared || Atomics.compareExchange(this.words, word, 0, this.own) === 0
  }

  /** Gives the lock at `word` back. Only its owner may. */
  release(word: number): void {
    if (this.shared) Atomics.store(this.words, word, 0)
  }

  /** Makes this thread the owner of a lock whose owner was `thread`, which has ended; false: it was another's, or free. */
  takeOver(word: number, thread: number): boolean {
    return this.shared && Atomics.compareExchange(this.words, word, thread + 1, this.own) === thread + 1
  }

  /** Is the lock at `word` this thread's? */
  owns(word: number): boolean {
    return this.shared && Atomics.load(this.words, word) === this.own
  }

  private wait(word: number): boolean {
    const { words, own } = this
    for (let sleep = 0; sleep < SLEEPS; sleep += 1) {
      let owner = 0
      for (let spin = 0; spin < SPINS; spin += 1) {
        for (this.turn = 0; this.turn < PAUSE; this.turn += 1);
        owner = Atomics.load(words, word)
        if (owner === own) return false
        if (owner === 0 && Atomics.compareExchange(words, word, 0, own) === 0) return true
      }
      if (owner !== 0) Atomics.wait(words, word, owner, SLEEP)
    }
    return false
  }
}
