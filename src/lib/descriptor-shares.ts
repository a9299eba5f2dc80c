/** Descriptors that a process keeps for store, log, API, control and threads; where few are allowed, a quarter of them. */
const OWN = 200
/** Part of all descriptors that clients of the API may have. */
const API_SHARE = 1 / 16
const MOST = 2 ** 31 - 1
/** Numbers that threads have: 0 for the main one. */
const THREADS = 256
/** Places in the memory: descriptors that the system allows, those of clients, and those of upstreams by the number of their thread. */
const ALLOWED = 0
const CLIENTS = 1
const UPSTREAMS = 2

/**
 * Divides the file descriptors of the process among clients, upstreams and the process itself, for all threads together. Clients get half of what
 * the process does not keep: so one that is accepted finds a descriptor for its upstream. Upstreams may also have what clients do not use.
 */
export class DescriptorShares {
  readonly #counts: Int32Array
  readonly #thread: number

  /** `memory`: that of the other threads; left out: new. `thread`: number of this thread. */
  constructor(memory = new SharedArrayBuffer((UPSTREAMS + THREADS) * Int32Array.BYTES_PER_ELEMENT), thread = 0) {
    this.#counts = new Int32Array(memory)
    this.#thread = thread
  }

  get memory(): SharedArrayBuffer {
    return this.#counts.buffer as SharedArrayBuffer
  }

  /** As many descriptors as the system allows from now on; infinite where it does not say. */
  allow(descriptors: number): void {
    Atomics.store(this.#counts, ALLOWED, Math.min(descriptors, MOST))
  }

  /** Connections that clients of the API may have. */
  get api(): number {
    return Math.floor(this.#allowed * API_SHARE)
  }

  /** May clients have another connection? */
  get admitsClient(): boolean {
    return Atomics.load(this.#counts, CLIENTS) < Math.floor(this.#forTraffic / 2)
  }

  /** Part of their descriptors that clients have. */
  get clientsUse(): number {
    return Atomics.load(this.#counts, CLIENTS) / Math.floor(this.#forTraffic / 2)
  }

  /** May another connection to an upstream be opened? */
  get admitsUpstream(): boolean {
    let used = 0
    for (let place = CLIENTS; place < this.#counts.length; place++) used += Atomics.load(this.#counts, place)
    return used < this.#forTraffic
  }

  /** Counts a connection of a client; -1 when it is over. */
  countClient(change: 1 | -1): void {
    Atomics.add(this.#counts, CLIENTS, change)
  }

  /** Counts a connection of this thread to an upstream; -1 when it is over. */
  countUpstream(change: 1 | -1): void {
    Atomics.add(this.#counts, UPSTREAMS + this.#thread, change)
  }

  /** The thread of this number is gone, and its connections to upstreams with it. */
  clear(thread: number): void {
    Atomics.store(this.#counts, UPSTREAMS + thread, 0)
  }

  get #allowed(): number {
    // 0: not known yet.
    return Atomics.load(this.#counts, ALLOWED) || MOST
  }

  /** Of clients and upstreams together. */
  get #forTraffic(): number {
    const allowed = this.#allowed
    return allowed - Math.min(OWN, Math.floor(allowed / 4))
  }
}
