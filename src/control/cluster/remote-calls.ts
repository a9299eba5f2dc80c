import type { Clock } from '../../lib/clock.js'
import { Coalescer } from '../../lib/concurrency.js'
import { newId } from '../../lib/id.js'
import type { BoardCall, ClusterBoard, Reported } from '../../store/board.js'
import type { StoreLog } from '../../store/store.js'
import { ControlError, controlErrors } from '../errors.js'

export interface ProcessCallsParts {
  readonly board: ClusterBoard
  /** Id of this process. */
  readonly process: string
  readonly clock: Clock
  readonly log: StoreLog
  /** Serves a call of another process; JSON text in, JSON text out. A failure sends no response. */
  readonly serve: (body: string) => Promise<string>
}

/** Maximum response time, longer than that of an agent (ms). */
const PATIENCE = 10_000
/** Interval at which a waiting process polls without a notification (ms). */
const LOOK_EVERY = 250
/** Maximum number of polls, which ends the wait even if the clock does not advance. */
const MOST_LOOKS = 4 * (PATIENCE / LOOK_EVERY)

/** Calls between processes on one store. The store is not read while no call is open. */
export class ProcessCalls {
  readonly #parts: ProcessCallsParts
  readonly #unlisten: () => void
  readonly #serving = new Map<string, Promise<void>>()
  readonly #waiting = new Set<() => void>()
  #calls: number | undefined
  readonly #taking = new Coalescer(() => this.#take())
  #stopped = false

  constructor(parts: ProcessCallsParts) {
    this.#parts = parts
    this.#unlisten = parts.board.listen(parts.process, () => this.#notified())
  }

  /** Handles the store's response to a report, which detects calls with lost notifications. */
  reported({ calls }: Reported): void {
    if (calls === (this.#calls ?? 0)) return
    this.#calls = calls
    this.#look()
  }

  /** Calls another process. Fails with `UNAVAILABLE` if it has ended or does not respond. */
  async ask(process: string, body: string): Promise<string> {
    const { board, process: from, clock } = this.#parts
    const id = newId('call', clock.wall())
    if (!(await board.call({ id, process, from, body }))) throw gone()
    try {
      return await this.#answerTo(id)
    } finally {
      await board.withdraw(id)
    }
  }

  /** Waits for running calls of other processes. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#unlisten()
    for (const wake of this.#waiting) wake()
    await this.#taking.settle()
    await Promise.all(this.#serving.values())
  }

  async #answerTo(id: string): Promise<string> {
    const { board, clock } = this.#parts
    const end = clock.monotonic() + PATIENCE
    for (let looks = 0; looks < MOST_LOOKS; looks++) {
      // Before the look: a notification during the look causes another one.
      const pause = this.#pause()
      try {
        const answer = await board.answerTo(id)
        if (typeof answer === 'string') return answer
        if (answer === undefined) throw gone()
        if (this.#stopped || clock.monotonic() >= end) break
        await pause.over
      } finally {
        pause.end()
      }
    }
    throw new ControlError(controlErrors.UNAVAILABLE, 'the process that this agent is connected to does not answer')
  }

  /** Resolves on a notification by another process, or at the next polling time. */
  #pause(): { readonly over: Promise<void>; end(): void } {
    let end: () => void = () => undefined
    const over = new Promise<void>((resolve) => {
      const timer = setTimeout(() => end(), LOOK_EVERY)
      end = () => {
        clearTimeout(timer)
        this.#waiting.delete(end)
        resolve()
      }
      this.#waiting.add(end)
    })
    return { over, end }
  }

  #notified(): void {
    for (const wake of [...this.#waiting]) wake()
    this.#look()
  }

  #look(): void {
    if (this.#stopped) return
    this.#taking.ask()
  }

  async #take(): Promise<void> {
    const { board, process, log } = this.#parts
    try {
      for (const call of await board.waiting(process)) {
        if (this.#serving.has(call.id)) continue
        this.#serving.set(
          call.id,
          this.#serve(call).finally(() => this.#serving.delete(call.id))
        )
      }
    } catch (error) {
      // The next report shows the call again.
      this.#calls = undefined
      log.warn({ err: error }, 'what another process asks for cannot be read')
    }
  }

  async #serve(call: BoardCall): Promise<void> {
    const { board, serve, log } = this.#parts
    try {
      await board.answer(call, await serve(call.body))
    } catch (error) {
      log.warn({ err: error, process: call.from }, 'what another process asked for was not done')
    }
  }
}

function gone(): ControlError {
  return new ControlError(
    controlErrors.UNAVAILABLE,
    'the process that this agent is connected to is gone; the agent comes back'
  )
}
