/** Interval between checks of the beats of all workers (ms). */
const LOOK_EVERY = 250
/** Interval between two beats of a worker (ms). */
export const BEAT_EVERY = 100
/** Share of the permitted silence after which a thread gets no new connection. */
const SUSPECT_SHARE = 0.2
/** Number of missed looks below which a late beat is ignored. */
const LEAST_LOOKS = 2

/** Callbacks for a silent worker. Must not throw. */
interface WatchedThread {
  /** It has been silent for a moment: it gets no new connection. */
  suspected(): void
  /** A suspected thread beats again. */
  recovered(): void
  /** It has been silent for as long as is permitted: it must be replaced. Called once. */
  hung(): void
}

interface Watch {
  readonly thread: WatchedThread
  readonly beat: Int32Array
  /** Value of the beat at the last look; 0: the thread has not begun. */
  seen: number
  /** Looks since then. */
  silent: number
}

/** Memory in which one thread beats. */
export function beatMemory(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
}

/** Called by a thread every `BEAT_EVERY` milliseconds: its event loop turns. */
export function beatOnce(beat: Int32Array): void {
  Atomics.add(beat, 0, 1)
}

/**
 * Detects workers whose event loop is blocked. Beats are in shared memory, so that queued messages do not delay them, and
 * silence is counted in looks, not in time: while this thread or the whole process is suspended, no worker counts as silent.
 */
export class ThreadWatchdog {
  readonly #watches = new Set<Watch>()
  readonly #hungAfter: number
  readonly #suspectAfter: number
  readonly #timer: NodeJS.Timeout | undefined

  /** `silence`: permitted, in milliseconds; 0: threads are not watched. */
  constructor(silence: number) {
    this.#suspectAfter = Math.max(LEAST_LOOKS, Math.ceil((silence * SUSPECT_SHARE) / LOOK_EVERY))
    this.#hungAfter = Math.max(this.#suspectAfter + 1, Math.ceil(silence / LOOK_EVERY))
    if (silence > 0) this.#timer = setInterval(() => this.look(), LOOK_EVERY).unref()
  }

  /** Watches a thread from its first beat until the returned function is called. */
  watch(beat: Int32Array, thread: WatchedThread): () => void {
    const watch: Watch = { thread, beat, seen: 0, silent: 0 }
    this.#watches.add(watch)
    return () => void this.#watches.delete(watch)
  }

  /** Checks every worker once. */
  look(): void {
    for (const watch of this.#watches) this.#look(watch)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #look(watch: Watch): void {
    const { thread, seen } = watch
    const now = Atomics.load(watch.beat, 0)
    if (now !== seen) {
      const suspected = watch.silent >= this.#suspectAfter
      watch.seen = now
      watch.silent = 0
      if (suspected) thread.recovered()
      return
    }
    if (seen === 0) return
    watch.silent++
    if (watch.silent === this.#suspectAfter) thread.suspected()
    if (watch.silent < this.#hungAfter) return
    this.#watches.delete(watch)
    thread.hung()
  }
}
