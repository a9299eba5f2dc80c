import type { ConnectionFacts, Failure } from '../../flow/exchange.js'
import { DialError, type Dialer, sharedKey, type UpstreamKeys } from '../contract.js'
import { AbortList } from '../deadlines.js'
import { ignore } from '../pipes.js'
import { ClientConnection, type ClientHost, type ClientOwner, STREAMS } from './client-connection.js'

/** An exchange that waits for a connection. */
export interface Waiter {
  readonly client: ConnectionFacts
  /** Milliseconds; 0: for ever. */
  readonly connectTimeout: number
  /** Opens its stream on the connection at once. */
  connected(connection: ClientConnection): void
  /** None came. `retry` as an `Answer` says it. */
  unconnected(failure: Failure, detail: string, retry: 'safe' | 'never'): void
}

/** The connections to one upstream, those that are being opened, and the requests that wait for room on one. */
class KeyPool implements ClientOwner {
  readonly #host: ClientHost
  readonly #dialer: Dialer
  readonly #done: () => void
  readonly #connections = new Set<ClientConnection>()
  /** Connections that are dialled, or whose SETTINGS have not come. */
  readonly #opening = new Map<object, AbortList>()
  readonly #waiting = new Set<Waiter>()
  /** Streams that the server allows on one connection, as far as we know. */
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

  /** It waits no longer. */
  drop(waiter: Waiter): void {
    if (this.#waiting.delete(waiter) && this.#waiting.size === 0) {
      const opening = [...this.#opening.values()]
      this.#opening.clear()
      for (const attempt of opening) attempt.abort('client-gone')
    }
    this.#check()
  }

  /** No connection is used for another request. */
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
    // A server that takes no stream at all would be dialled for ever.
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

  /** Opens as many connections as the waiting exchanges would fill. */
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
        // It counts as being opened until its first SETTINGS come; without a request that waits, it is given up before.
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

  /** Rejects those that waited for a connection that did not come about; one connection answers for as many as it would have taken. */
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

  /** Gives `waiter` a connection with room, an open one if there is one. Answers the way to stop waiting. */
  take(dialer: Dialer, waiter: Waiter): () => void {
    const pool = dialer.reusable ? this.#of(dialer) : new KeyPool(this.#host, dialer, ignore)
    pool.take(waiter)
    if (!dialer.reusable) pool.retire()
    return () => pool.drop(waiter)
  }

  /** Connections whose key is not in `keys` carry no more requests. */
  retain(keys: UpstreamKeys): void {
    for (const key of [...this.#pools.keys()]) {
      if (!keys.has(sharedKey(key))) this.end(key)
    }
  }

  /** Connections of one key carry no more requests. */
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
