import type { Board, BoardChange, BoardEntry } from '../store/board.js'
import type { Reported, StoreLog } from '../store/store.js'
import { ENTRIES, entriesOf } from './live-entries.js'
import type { LiveSources } from './live-sources.js'

export interface LivePublisherParts {
  readonly board: Board
  /** Id of this process. */
  readonly process: string
  readonly sources: LiveSources
  readonly log: StoreLog
}

/** How long changes are gathered before they are written: a thousand agents that come at once are a few writes. Milliseconds. */
const GATHER = 50
/** Changes of one write. */
const MOST = 1000

/**
 * Shows the other processes on the store what lives in this one. Only what changes is written: while nothing does, it
 * costs nothing. What could not be written is written with a later report of the process.
 */
export class LivePublisher {
  readonly #parts: LivePublisherParts
  /** Keys of what is not on the board as it is. */
  #dirty = new Set<string>()
  /** Does the process have a report? Without one it can have no entries. */
  #reported = false
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | undefined
  #failed = false
  #stopped = false

  constructor(parts: LivePublisherParts) {
    this.#parts = parts
    parts.sources.watch((what, id) => {
      this.#dirty.add(keyOf(what, id))
      this.#soon()
    })
  }

  /** The process has reported. When the store did not know it, nothing of it is on the board. */
  reported({ known }: Reported): void {
    this.#reported = true
    if (!known) this.#everything()
    this.#failed = false
    this.#soon()
  }

  /** Takes everything of this process away. */
  async stop(): Promise<void> {
    const { board, process, log } = this.#parts
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#writing
    try {
      await board.clear(process)
    } catch (error) {
      log.warn({ err: error }, 'the other processes see the agents of this one until its last report is old')
    }
  }

  #everything(): void {
    const { sources } = this.#parts
    for (const { id } of sources.tunnelSessions()) this.#dirty.add(keyOf('session', id))
    for (const { id } of sources.tunnels()) this.#dirty.add(keyOf('tunnel', id))
  }

  #soon(): void {
    const idle = this.#timer === undefined && this.#writing === undefined
    if (!idle || this.#stopped || !this.#reported || this.#failed || this.#dirty.size === 0) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#writing = this.#write().finally(() => {
        this.#writing = undefined
        this.#soon()
      })
    }, GATHER).unref()
  }

  async #write(): Promise<void> {
    const { board, process, log } = this.#parts
    const keys = [...this.#dirty].slice(0, MOST)
    for (const key of keys) this.#dirty.delete(key)
    try {
      await board.publish(process, this.#change(new Set(keys)))
    } catch (error) {
      for (const key of keys) this.#dirty.add(key)
      this.#failed = true
      log.warn({ err: error }, 'the other processes cannot be told of the agents of this one; trying again')
    }
  }

  /** What is there now of what has changed, and what is there no more. */
  #change(keys: ReadonlySet<string>): BoardChange {
    const { sources } = this.#parts
    const put: BoardEntry[] = []
    for (const session of sources.tunnelSessions()) {
      if (keys.has(keyOf('session', session.id))) put.push(...entriesOf({ session }))
    }
    for (const tunnel of sources.tunnels()) {
      if (keys.has(keyOf('tunnel', tunnel.id))) put.push(...entriesOf({ tunnel }))
    }
    const there = new Set(put.map(({ kind, id }) => `${kind} ${id}`))
    const drop = [...keys].flatMap((key) => {
      const [what, id] = key.split(' ') as ['session' | 'tunnel', string]
      return ENTRIES[what].filter((kind) => !there.has(`${kind} ${id}`)).map((kind) => ({ kind, id }))
    })
    return { put, drop }
  }
}

function keyOf(what: 'session' | 'tunnel', id: string): string {
  return `${what} ${id}`
}
