/** Attempts before a waiting thread sleeps. */
const SPINS = 20
/** Maximum number of sleeps, about 20 ms in total. */
const SLEEPS = 200
/** Length of a sleep (ms). */
const SLEEP = 0.05
/**
 * Iterations of an empty loop between two attempts, a third of a microsecond. An attempt moves the lock's memory between cores, and with it
 * all guarded data: several decisions in a row on one core cost less than alternating cores.
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
  /** Set if there are other threads. May change only while no lock is held. */
  shared: boolean
  private readonly own: number
  /** Written in each iteration, so that the loop is not optimized away. */
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

  /** Acquires the lock at `word`; returns false if another thread holds it too long, or this one already holds it. */
  acquire(word: number): boolean {
    return !this.shared || Atomics.compareExchange(this.words, word, 0, this.own) === 0 || this.wait(word)
  }

  /** Acquires the lock at `word` if it is free. */
  tryAcquire(word: number): boolean {
    return !this.shared || Atomics.compareExchange(this.words, word, 0, this.own) === 0
  }

  /** Releases the lock at `word`. Only its owner may. */
  release(word: number): void {
    if (this.shared) Atomics.store(this.words, word, 0)
  }

  /** Takes over the lock of the ended thread `thread`; returns false if it was free or owned by another thread. */
  takeOver(word: number, thread: number): boolean {
    return this.shared && Atomics.compareExchange(this.words, word, thread + 1, this.own) === thread + 1
  }

  /** Returns whether this thread owns the lock at `word`. */
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
