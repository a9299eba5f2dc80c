import type { Clock } from '../../lib/clock.js'
import type { UpstreamConnection } from './upstream-connection.js'

/** Idle upstream connections by dialer key; the last one used is the first to be used again. */
export class UpstreamPool {
  readonly clock: Clock
  readonly #most: number
  readonly #idle = new Map<string, UpstreamConnection[]>()
  #retained: ReadonlySet<string> | undefined = undefined
  #closed = false

  /** `most`: idle connections that are kept for one upstream. */
  constructor(clock: Clock, most: number) {
    this.clock = clock
    this.#most = most
  }

  /** An idle connection that still stands, or undefined. */
  take(key: string): UpstreamConnection | undefined {
    const idle = this.#idle.get(key)
    for (let connection = idle?.pop(); connection !== undefined; connection = idle?.pop()) {
      if (!connection.stale) return connection
      connection.destroy()
    }
    return undefined
  }

  /** False: the connection is not to be reused. */
  keep(key: string, connection: UpstreamConnection): boolean {
    if (this.#closed || connection.stale || this.#retained?.has(key) === false) return false
    const idle = this.#idle.get(key)
    if (idle === undefined) this.#idle.set(key, [connection])
    else if (idle.length >= this.#most) return false
    else idle.push(connection)
    return true
  }

  /** An idle connection that ended by itself. */
  forget(key: string, connection: UpstreamConnection): void {
    const idle = this.#idle.get(key)
    const at = idle?.indexOf(connection) ?? -1
    if (at !== -1) idle?.splice(at, 1)
    if (idle?.length === 0) this.#idle.delete(key)
  }

  /** Ends idle connections of all other keys and keeps none of them from now on. */
  retain(keys: ReadonlySet<string>): void {
    this.#retained = keys
    for (const [key, idle] of this.#idle) {
      if (keys.has(key)) continue
      this.#idle.delete(key)
      for (const connection of idle) connection.destroy()
    }
  }

  close(): void {
    this.#closed = true
    for (const idle of this.#idle.values()) for (const connection of [...idle]) connection.destroy()
    this.#idle.clear()
  }
}
