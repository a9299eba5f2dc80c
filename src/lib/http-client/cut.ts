/** The early end of a request: its deadline (milliseconds from now) or its signal. */
export class OutboundCut {
  /** Resolves when it happens; stays open else. */
  readonly happened: Promise<'TIMEOUT' | 'ABORTED'>
  readonly #timer: NodeJS.Timeout
  readonly #signal: AbortSignal | undefined
  readonly #abort = (): void => this.#cut('ABORTED')
  #resolve: (why: 'TIMEOUT' | 'ABORTED') => void = () => undefined
  #why: 'TIMEOUT' | 'ABORTED' | undefined
  #run: ((why: 'TIMEOUT' | 'ABORTED') => void) | undefined

  constructor(deadline: number, signal: AbortSignal | undefined) {
    this.happened = new Promise((resolve) => {
      this.#resolve = resolve
    })
    this.#signal = signal
    this.#timer = setTimeout(() => this.#cut('TIMEOUT'), Math.max(0, deadline))
    if (signal?.aborted === true) this.#abort()
    else signal?.addEventListener('abort', this.#abort)
  }

  /** `run` takes the place of the one before. */
  onCut(run: (why: 'TIMEOUT' | 'ABORTED') => void): void {
    this.#run = run
    if (this.#why !== undefined) run(this.#why)
  }

  over(): void {
    clearTimeout(this.#timer)
    this.#signal?.removeEventListener('abort', this.#abort)
  }

  #cut(why: 'TIMEOUT' | 'ABORTED'): void {
    this.#why = why
    this.#resolve(why)
    this.#run?.(why)
  }
}
