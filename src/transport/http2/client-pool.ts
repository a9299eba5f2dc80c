import type { ConnectionFacts, Failure } from '../../flow/exchange.js'
import { DialError, type Dialer, sharedKey, type UpstreamKeys } from '../contract.js'
import { AbortList } from '../deadlines.js'
import { ignore } from '../pipes.js'
import { ClientConnection, type ClientHost, type ClientOwner, STREAMS } from './client-connection.js'

/** An exchange that waits for a connection. */
export interface Waiter {
  readonly client: ConnectionFacts
  /** Connect timeout (ms); 0: none. */
  readonly connectTimeout: number
  /** Opens its stream on the connection at once. */
  connected(connection: ClientConnection): void
  /** Called without a connection. `retry`: as in `Answer`. */
  unconnected(failure: Failure, detail: string, retry: 'safe' | 'never'): void
}

/** Open and opening connections to one upstream, and the requests that wait for a free stream. */
class KeyPool implements ClientOwner {
  readonly #host: ClientHost
  readonly #dialer: Dialer
  readonly #done: () => void
  readonly #connections = new Set<ClientConnection>()
  /** Connections that are being dialled, or that have not received SETTINGS. */
  readonly #opening = new Map<object, AbortList>()
  readonly #waiting = new Set<Waiter>()
  /** Last known number of streams that the server allows per connection. */
  #each = STREAMS
  #retired = false

  constructor(host: ClientHost, dialer: Dialer, done: () => void) {
    this.#host = host
    this.#dialer = dialer
    this.#done = done
  }

  take(waiter: Waiter): void {
    for (const connection of this.#connections) {
      if (connection.free > 0) {
        waiter.connected(connection)
        return
      }
    }
    this.#waiting.add(waiter)
    this.#open(waiter)
  }

  /** Removes a waiter. */
  drop(waiter: Waiter): void {
    if (this.#waiting.delete(waiter) && this.#waiting.size === 0) {
      const opening = [...this.#opening.values()]
      this.#opening.clear()
      for (const attempt of opening) attempt.abort('client-gone')
    }
    this.#check()
  }

  /** Uses no connection for further requests. */
  retire(): void {
    this.#retired = true
    for (const connection of [...this.#connections]) if (!this.#opening.has(connection)) connection.leave()
    this.#check()
  }

  room(connection: ClientConnection): void {
    const first = this.#opening.delete(connection)
    this.#each = Math.max(1, Math.min(STREAMS, connection.allowed))
    for (const waiter of this.#waiting) {
      if (connection.free <= 0) break
      this.#waiting.delete(waiter)
      waiter.connected(connection)
    }
    // A server that allows no streams would be dialled without end.
    if (first && connection.allowed === 0) this.#refuse('upstream-gone', 'the server allows no streams', 'safe')
    const [waiter] = this.#waiting
    if (waiter !== undefined) this.#open(waiter)
    if (this.#retired) connection.leave()
  }

  gone(connection: ClientConnection, before: Failure | undefined, detail: string): void {
    this.#connections.delete(connection)
    const opening = this.#opening.delete(connection)
    if (opening && before !== undefined) {
      const retry = before === 'upstream-malformed' ? 'never' : 'safe'
      this.#refuse(before, detail, retry)
    } else {
      const [waiter] = this.#waiting
      if (waiter !== undefined) this.#open(waiter)
    }
    this.#check()
  }

  /** Opens as many connections as the waiting exchanges need. */
  #open(waiter: Waiter): void {
    if (this.#opening.size * this.#each >= this.#waiting.size) return
    const signal = new AbortList()
    this.#opening.set(signal, signal)
    this.#dialer.open({ client: waiter.client, deadline: waiter.connectTimeout, signal, http2: true }).then(
      (pipe) => {
        this.#opening.delete(signal)
        if (signal.aborted !== undefined || this.#waiting.size === 0) {
          pipe.duplex.on('error', ignore)
          pipe.destroy('client-gone')
          this.#check()
          return
        }
        const connection = new ClientConnection(this.#host, this, pipe)
        this.#connections.add(connection)
        // The connection counts as opening until its first SETTINGS arrive; without a waiting request it is closed before.
        const early = new AbortList()
        early.onAbort(() => connection.leave())
        this.#opening.set(connection, early)
      },
      (error: unknown) => {
        this.#opening.delete(signal)
        if (signal.aborted !== undefined) return
        const failure = error instanceof DialError ? error.failure : 'dial-refused'
        this.#refuse(failure, error instanceof Error ? error.message : 'the dialer failed', 'safe')
        this.#check()
      }
    )
  }

  /** Rejects the waiting exchanges that the failed connection would have carried. */
  #refuse(failure: Failure, detail: string, retry: 'safe' | 'never'): void {
    let left = this.#each
    for (const waiter of this.#waiting) {
      if (left-- === 0) break
      this.#waiting.delete(waiter)
      waiter.unconnected(failure, detail, retry)
    }
  }

  #check(): void {
    if (this.#connections.size + this.#opening.size + this.#waiting.size === 0) this.#done()
  }
}

/** HTTP/2 connections to upstreams by the key of their dialers. */
export class ClientPool {
  readonly #host: ClientHost
  readonly #pools = new Map<string, KeyPool>()

  constructor(host: ClientHost) {
    this.#host = host
  }

  /** Gives `waiter` a connection with a free stream, or opens one. Returns a function that cancels the wait. */
  take(dialer: Dialer, waiter: Waiter): () => void {
    const pool = dialer.reusable ? this.#of(dialer) : new KeyPool(this.#host, dialer, ignore)
    pool.take(waiter)
    if (!dialer.reusable) pool.retire()
    return () => pool.drop(waiter)
  }

  /** Retires the connections whose key is not in `keys`. */
  retain(keys: UpstreamKeys): void {
    for (const key of [...this.#pools.keys()]) {
      if (!keys.has(sharedKey(key))) this.end(key)
    }
  }

  /** Retires the connections of one key. */
  end(key: string): void {
    const pool = this.#pools.get(key)
    this.#pools.delete(key)
    pool?.retire()
  }

  close(): void {
    this.retain(new Set())
  }

  #of(dialer: Dialer): KeyPool {
    const known = this.#pools.get(dialer.key)
    if (known !== undefined) return known
    const pool: KeyPool = new KeyPool(this.#host, dialer, () => {
      if (this.#pools.get(dialer.key) === pool) this.#pools.delete(dialer.key)
    })
    this.#pools.set(dialer.key, pool)
    return pool
  }
}
