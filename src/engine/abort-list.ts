import type { Failure } from '../exchange/connection.js'
import type { AbortSignalLike } from '../exchange/exchange.js'

type Run = (why: Failure) => void

const nothing = (): void => undefined

/** The list behind `AbortSignalLike`: costs one object per exchange and nothing more until somebody listens. */
export class AbortList implements AbortSignalLike {
  #aborted: Failure | undefined = undefined
  #runs: Set<Run> | undefined = undefined

  get aborted(): Failure | undefined {
    return this.#aborted
  }

  onAbort(run: Run): () => void {
    if (this.#aborted !== undefined) {
      run(this.#aborted)
      return nothing
    }
    const runs = this.#runs ?? new Set()
    this.#runs = runs
    runs.add(run)
    return () => {
      runs.delete(run)
    }
  }

  /** Fires once; a second call changes nothing. */
  abort(why: Failure): void {
    if (this.#aborted !== undefined) return
    this.#aborted = why
    const runs = this.#runs
    this.#runs = undefined
    if (runs !== undefined) for (const run of runs) run(why)
  }
}
