import type { Worker } from 'node:worker_threads'
import { atMost } from '../../../lib/concurrency.js'
import type { Snapshot } from '../../../runtime/snapshot.js'
import { type FromReplica, planPieces, type ToReplica } from './protocol.js'

/** Result of a preparation. `late`: no response in time. `ended`: the worker has ended, and its replacement loads the whole plan. */
export type PreparationAnswer = 'prepared' | 'ended' | 'late' | { readonly reason: string }

/** Maximum time that a commit waits for the end of an unresponsive worker (ms). */
const END_WITHIN = 1_000

interface Watch {
  /** Called when the thread has ended. */
  readonly ended: () => void
  readonly received: (message: FromReplica) => void
}

interface ThreadEvents {
  /** The thread serves another plan than before. */
  readonly changed: () => void
  readonly ended: (why: string) => void
}

/** A thread that serves the plan, as the one that writes it sees it. */
export class ReplicaThread {
  readonly #worker: Worker
  readonly #watches = new Set<Watch>()
  readonly #gone: Promise<void>
  /** Changes queued until all pieces of the plan are sent. */
  #later: ToReplica[] | undefined = []
  #over = false
  #why: string | undefined
  #number: number | undefined

  constructor(worker: Worker, { changed, ended }: ThreadEvents) {
    this.#worker = worker
    worker.on('message', (message: FromReplica) => {
      for (const watch of [...this.#watches]) watch.received(message)
      if (message.kind !== 'serving') return
      this.#number = message.number
      changed()
    })
    worker.on('messageerror', (error) => void this.end(String(error)))
    // The exit follows.
    worker.on('error', (error) => {
      this.#why ??= String(error)
    })
    this.#gone = new Promise((resolve) => {
      worker.on('exit', (code) => {
        this.#over = true
        this.#number = undefined
        for (const watch of [...this.#watches]) watch.ended()
        ended(this.#why ?? `it exited with ${code}`)
        resolve()
      })
    })
  }

  is(worker: Worker): boolean {
    return worker === this.#worker
  }

  /** Number of the plan that it serves; undefined if there is none. */
  get number(): number | undefined {
    return this.#over ? undefined : this.#number
  }

  /** Sends the plan in pieces, with a `turn` of the event loop between them, and then messages posted meanwhile. */
  async begin(snapshot: Snapshot, turn: () => Promise<unknown>): Promise<void> {
    for (const piece of planPieces(snapshot)) {
      if (this.#over) return
      this.#worker.postMessage(piece)
      await turn()
    }
    const { plan, revision } = snapshot
    const later = this.#later ?? []
    this.#later = undefined
    this.post({ kind: 'begin', number: plan.number, revision })
    for (const message of later) this.post(message)
  }

  post(message: ToReplica): void {
    if (this.#over) return
    if (this.#later === undefined) this.#worker.postMessage(message)
    else this.#later.push(message)
  }

  /** Waits for a preparation. A worker that stays silent is terminated after `silence`. */
  prepared(order: number, { prepare, silence }: { readonly prepare: number; readonly silence: number }) {
    const late = (): void => {
      // Its response is no longer awaited; any message shows that it runs.
      void this.#until(
        silence - prepare,
        () => true as const,
        () => void this.end('it does not answer')
      )
    }
    return this.#until<PreparationAnswer>(prepare, (message) => this.#answerTo(order, message), late)
  }

  /** Resolves when the worker serves the plan of this number or a later one, or has ended; it is terminated after this much silence (ms). */
  async reaches(number: number, silence: number): Promise<void> {
    if (this.#number !== undefined && this.#number >= number) return
    const there = (message: FromReplica) => (message.kind === 'serving' && message.number >= number ? true : undefined)
    if ((await this.#until<true>(silence, there)) === 'late') await atMost(END_WITHIN, this.end('it does not answer'))
  }

  /** Terminates the worker; resolves when it has ended. It counts as ended immediately: one that hangs in native code may never end. */
  async end(why?: string): Promise<void> {
    this.#why ??= why
    this.#over = true
    for (const watch of [...this.#watches]) watch.ended()
    void this.#worker.terminate()
    await this.#gone
  }

  #answerTo(order: number, message: FromReplica): PreparationAnswer | undefined {
    if (message.kind === 'prepared' && message.order === order) return 'prepared'
    return message.kind === 'unprepared' && message.order === order ? { reason: message.reason } : undefined
  }

  /** Returns the first message that `find` accepts, or `late` after this time without any message (ms). */
  #until<T>(
    milliseconds: number,
    find: (message: FromReplica) => T | undefined,
    late: () => void = () => undefined
  ): Promise<T | 'ended' | 'late'> {
    if (this.#over) return Promise.resolve('ended')
    return new Promise((resolve) => {
      const settle = (result: T | 'ended' | 'late'): void => {
        clearTimeout(timer)
        this.#watches.delete(watch)
        resolve(result)
      }
      const timer = setTimeout(() => {
        settle('late')
        late()
      }, milliseconds)
      const watch: Watch = {
        ended: () => settle('ended'),
        received: (message) => {
          const found = find(message)
          if (found === undefined) timer.refresh()
          else settle(found)
        }
      }
      this.#watches.add(watch)
    })
  }
}
