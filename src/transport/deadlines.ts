import type { AbortSignalLike, Failure } from '../flow/exchange.js'

type Run = (why: Failure) => void

const nothing = (): void => undefined

/** The list behind `AbortSignalLike`: costs one object per exchange, and a set only for a second listener. */
export class AbortList implements AbortSignalLike {
  #aborted: Failure | undefined = undefined
  #first: Run | undefined = undefined
  #others: Set<Run> | undefined = undefined

  get aborted(): Failure | undefined {
    return this.#aborted
  }

  onAbort(run: Run): () => void {
    if (this.#aborted !== undefined) {
      run(this.#aborted)
      return nothing
    }
    if (this.#first === undefined) this.#first = run
    else {
      this.#others ??= new Set()
      this.#others.add(run)
    }
    return () => {
      if (this.#first === run) this.#first = undefined
      else this.#others?.delete(run)
    }
  }

  /** Fires once; a second call changes nothing. */
  abort(why: Failure): void {
    if (this.#aborted !== undefined) return
    this.#aborted = why
    const first = this.#first
    const others = this.#others
    this.#first = this.#others = undefined
    first?.(why)
    if (others !== undefined) for (const run of others) run(why)
  }
}
