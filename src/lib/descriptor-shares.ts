/** Descriptors reserved for store, log, API, control and threads; at most a quarter of the limit. */
const OWN = 200
/** Share of all descriptors for clients of the API. */
const API_SHARE = 1 / 16
/** Maximum value of a shared counter. */
const MOST = 2 ** 31 - 1
/** Maximum number of threads; the main thread is 0. */
const THREADS = 256
/** Index of the system's limit in the shared memory. */
const ALLOWED = 0
/** Index of the number of client connections. */
const CLIENTS = 1
/** Index of the first thread's upstream connections. */
const UPSTREAMS = 2

/**
 * Divides the process's file descriptors among clients, upstreams and the process itself, across threads. Clients get half of the rest
 * after the process's own: an accepted client then finds a descriptor for its upstream. Upstreams may also use the clients' free share.
 */
export class DescriptorShares {
  readonly #counts: Int32Array
  readonly #thread: number

  /**
   * `memory`: shared with the other threads. `thread`: number of this thread.
   * @default new memory
   */
  constructor(memory = new SharedArrayBuffer((UPSTREAMS + THREADS) * Int32Array.BYTES_PER_ELEMENT), thread = 0) {
    this.#counts = new Int32Array(memory)
    this.#thread = thread
  }

  get memory(): SharedArrayBuffer {
    return this.#counts.buffer as SharedArrayBuffer
  }

  /** Sets the system's limit; infinite if unknown. */
  allow(descriptors: number): void {
    Atomics.store(this.#counts, ALLOWED, Math.min(descriptors, MOST))
  }

  /** Maximum connections of API clients. */
  get api(): number {
    return Math.floor(this.#allowed * API_SHARE)
  }

  /** Returns whether another client connection is allowed. */
  get admitsClient(): boolean {
    return Atomics.load(this.#counts, CLIENTS) < Math.floor(this.#forTraffic / 2)
  }

  /** Used fraction of the clients' share. */
  get clientsUse(): number {
    return Atomics.load(this.#counts, CLIENTS) / Math.floor(this.#forTraffic / 2)
  }

  /** Returns whether another upstream connection is allowed. */
  get admitsUpstream(): boolean {
    let used = 0
    for (let place = CLIENTS; place < this.#counts.length; place++) used += Atomics.load(this.#counts, place)
    return used < this.#forTraffic
  }

  /** Counts a client connection; -1 when it closes. */
  countClient(change: 1 | -1): void {
    Atomics.add(this.#counts, CLIENTS, change)
  }

  /** Counts an upstream connection of this thread; -1 when it closes. */
  countUpstream(change: 1 | -1): void {
    Atomics.add(this.#counts, UPSTREAMS + this.#thread, change)
  }

  /** Clears the upstream connections of a thread that has stopped. */
  clear(thread: number): void {
    Atomics.store(this.#counts, UPSTREAMS + thread, 0)
  }

  get #allowed(): number {
    // 0: not known yet.
    return Atomics.load(this.#counts, ALLOWED) || MOST
  }

  /** Descriptors for clients and upstreams together. */
  get #forTraffic(): number {
    const allowed = this.#allowed
    return allowed - Math.min(OWN, Math.floor(allowed / 4))
  }
}
