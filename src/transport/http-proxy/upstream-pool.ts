import type { UpstreamConnection } from './upstream-connection.js'

/** Idle upstream connections by dialer key; the last one used is the first to be used again. */
export class UpstreamPool {
  readonly #idle = new Map<string, UpstreamConnection[]>()
  #retained: ReadonlySet<string> | undefined = undefined
  #closed = false

  /** An idle connection that still stands, or undefined. */
  take(key: string): UpstreamConnection | undefined {
    const idle = this.#idle.get(key)
    for (let connection = idle?.pop(); connection !== undefined; connection = idle?.pop()) {
      if (connection.usable) {
        connection.take()
        return connection
      }
      connection.destroy()
    }
    return undefined
  }

  /** False: the connection is not to be reused. */
  keep(key: string, connection: UpstreamConnection): boolean {
    if (this.#closed || this.#retained?.has(key) === false) return false
    const idle = this.#idle.get(key)
    if (idle === undefined) this.#idle.set(key, [connection])
    else idle.push(connection)
    return true
  }

  forget(key: string, connection: UpstreamConnection): void {
    const idle = this.#idle.get(key)
    const at = idle?.indexOf(connection) ?? -1
    if (at !== -1) idle?.splice(at, 1)
    if (idle?.length === 0) this.#idle.delete(key)
  }

  retain(keys: ReadonlySet<string>): void {
    this.#retained = keys
    for (const [key, idle] of this.#idle) {
      if (!keys.has(key)) for (const connection of [...idle]) connection.destroy()
    }
  }

  close(): void {
    this.#closed = true
    for (const idle of [...this.#idle.values()]) for (const connection of [...idle]) connection.destroy()
  }
}
