import type { Worker } from 'node:worker_threads'

/** Result of a job that exceeded its run time; its thread was terminated. */
export const TOO_SLOW = Symbol('too slow')

interface Waiting<Job, Result> {
  readonly job: Job
  readonly settle: (result: Result | typeof TOO_SLOW) => void
  readonly fail: (error: Error) => void
}

interface Busy<Job, Result> extends Waiting<Job, Result> {
  readonly deadline: NodeJS.Timeout
}

/** Settings of a pool: maximum number of threads and maximum run time of a job (ms). */
export interface ThreadPoolParts {
  /** Starts a thread that responds to each message, a job, with one message, its result. */
  readonly start: () => Worker
  readonly size: number
  readonly longest: number
}

/**
 * Threads for blocking work, one job at a time each. Threads start on demand, and crashed ones are replaced. Jobs wait in order; the caller
 * bounds their number. Does not keep the process alive.
 */
export class ThreadPool<Job, Result> {
  readonly #parts: ThreadPoolParts
  readonly #idle: Worker[] = []
  readonly #busy = new Map<Worker, Busy<Job, Result>>()
  #waiting: Waiting<Job, Result>[] = []

  constructor(parts: ThreadPoolParts) {
    this.#parts = parts
  }

  /** Resolves with the result, or `TOO_SLOW`. Rejects if the thread crashed. */
  run(job: Job): Promise<Result | typeof TOO_SLOW> {
    return new Promise((settle, fail) => {
      this.#waiting.push({ job, settle, fail })
      this.#next()
    })
  }

  #next(): void {
    const [first] = this.#waiting
    if (first === undefined) return
    const worker = this.#idle.pop() ?? (this.#busy.size < this.#parts.size ? this.#started() : undefined)
    if (worker === undefined) return
    this.#waiting.shift()
    const deadline = setTimeout(() => this.#ended(worker, (busy) => busy.settle(TOO_SLOW)), this.#parts.longest)
    this.#busy.set(worker, { ...first, deadline })
    // A process that only waits for this result must stay alive.
    worker.ref()
    worker.postMessage(first.job)
  }

  #started(): Worker {
    const worker = this.#parts.start()
    worker.on('message', (result: Result) => {
      const busy = this.#free(worker)
      if (busy === undefined) return
      worker.unref()
      this.#idle.push(worker)
      busy.settle(result)
      this.#next()
    })
    worker.on('error', (error) => this.#ended(worker, (busy) => busy.fail(error)))
    worker.on('exit', (code) => this.#ended(worker, (busy) => busy.fail(new Error(`the thread ended with ${code}`))))
    return worker
  }

  #ended(worker: Worker, settle: (busy: Busy<Job, Result>) => void): void {
    const idle = this.#idle.indexOf(worker)
    if (idle !== -1) this.#idle.splice(idle, 1)
    const busy = this.#free(worker)
    void worker.terminate()
    if (busy === undefined) return
    settle(busy)
    this.#next()
  }

  #free(worker: Worker): Busy<Job, Result> | undefined {
    const busy = this.#busy.get(worker)
    if (busy === undefined) return undefined
    clearTimeout(busy.deadline)
    this.#busy.delete(worker)
    return busy
  }
}
