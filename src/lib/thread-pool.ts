import type { Worker } from 'node:worker_threads'

/** The job took longer than the pool lets it; its thread was ended. */
export const TOO_SLOW = Symbol('too slow')

interface Waiting<Job, Result> {
  readonly job: Job
  readonly settle: (result: Result | typeof TOO_SLOW) => void
  readonly fail: (error: Error) => void
}

interface Busy<Job, Result> extends Waiting<Job, Result> {
  readonly deadline: NodeJS.Timeout
}

/** Of a pool: how many threads it has at most, and the milliseconds that one job may run. */
export interface ThreadPoolParts {
  /** A thread that answers each message, a job, with one message, its result. */
  readonly start: () => Worker
  readonly size: number
  readonly longest: number
}

/**
 * Threads for work that would hold up the loop, one job at a time each. A thread begins when there is a job for it, and a
 * new one takes the place of one that died. Jobs wait in order; the caller bounds how many there are. It keeps no process alive by itself.
 */
export class ThreadPool<Job, Result> {
  readonly #parts: ThreadPoolParts
  readonly #idle: Worker[] = []
  readonly #busy = new Map<Worker, Busy<Job, Result>>()
  #waiting: Waiting<Job, Result>[] = []

  constructor(parts: ThreadPoolParts) {
    this.#parts = parts
  }

  /** The result, or `TOO_SLOW`. Rejects when the thread died of the job. */
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
    // Nothing else may keep a process alive that only waits for this result.
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
