import { Locks } from './locks.js'

const WORD = Int32Array.BYTES_PER_ELEMENT
const NUMBER = Float64Array.BYTES_PER_ELEMENT
/** Words before the numbers: the lock, and a mark that its owner alone writes and all threads may read. */
const HEAD = 2
/** Index of the lock. */
const LOCK = 0
const MARK = 1

/** Numbers shared by several threads, which access them one at a time. Initially 0. */
export class SharedRecord {
  readonly numbers: Float64Array
  readonly #words: Int32Array
  readonly #locks: Locks

  /** `thread`: number of this thread; undefined for an unshared record. */
  constructor(memory: ArrayBufferLike, thread: number | undefined) {
    this.#words = new Int32Array(memory, 0, HEAD)
    this.numbers = new Float64Array(memory, HEAD * WORD)
    this.#locks = new Locks(this.#words, thread ?? 0, thread !== undefined)
  }

  /** A word that can be read without the lock. */
  get mark(): number {
    return Atomics.load(this.#words, MARK)
  }

  /** Requires the lock. */
  set mark(value: number) {
    Atomics.store(this.#words, MARK, value)
  }

  /** Locks the record until `unlock`; returns false if another thread holds it too long. */
  lock(): boolean {
    return this.#locks.acquire(LOCK)
  }

  unlock(): void {
    this.#locks.release(LOCK)
  }

  /** Releases the lock of a thread that has stopped. Its writes remain. */
  free(thread: number): void {
    if (this.#locks.takeOver(LOCK, thread)) this.#locks.release(LOCK)
  }
}

/** Provides records by name. */
export interface SharedRecords {
  /** Returns the record of this name; the number of `numbers` is fixed per name. */
  of(name: string, numbers: number): SharedRecord
}

/** Records of a thread without sharing: each call returns a new one. */
export const ownRecords: SharedRecords = {
  of: (_name, numbers) => new SharedRecord(new ArrayBuffer(bytesOf(numbers)), undefined)
}

function bytesOf(numbers: number): number {
  return HEAD * WORD + numbers * NUMBER
}

/** Memory by name, for sending to other threads. */
export type NamedMemory = ReadonlyMap<string, SharedArrayBuffer>

/** Records of the thread that creates them for others. A record is freed with the last thread that uses it. */
export class MadeRecords implements SharedRecords {
  readonly #memory = new Map<string, WeakRef<SharedArrayBuffer>>()
  readonly #gone = new FinalizationRegistry((name: string) => {
    if (this.#memory.get(name)?.deref() === undefined) this.#memory.delete(name)
  })
  readonly #thread: number
  #learns: ((memory: NamedMemory) => void) | undefined

  /** `thread`: unique number of this thread. */
  constructor(thread: number) {
    this.#thread = thread
  }

  of(name: string, numbers: number): SharedRecord {
    let memory = this.#memory.get(name)?.deref()
    if (memory === undefined) {
      memory = new SharedArrayBuffer(bytesOf(numbers))
      this.#memory.set(name, new WeakRef(memory))
      this.#gone.register(memory, name)
    }
    // A thread that uses it again may have released it.
    this.#learns?.(new Map([[name, memory]]))
    return new SharedRecord(memory, this.#thread)
  }

  /** Calls `learns` with each requested record, before any message that refers to it. */
  follow(learns: (memory: NamedMemory) => void): void {
    this.#learns = learns
  }

  /** Returns all records in use, for a starting thread. */
  all(): NamedMemory {
    const all = new Map<string, SharedArrayBuffer>()
    for (const [name, memory] of this.#memory) {
      const known = memory.deref()
      if (known !== undefined) all.set(name, known)
    }
    return all
  }

  /** Releases the locks of a thread that has stopped. */
  ended(thread: number): void {
    for (const memory of this.all().values()) new SharedRecord(memory, this.#thread).free(thread)
  }
}

/** Records of a thread that receives them from another one before they are used. */
export class LearntRecords implements SharedRecords {
  readonly #memory = new Map<string, SharedArrayBuffer | WeakRef<SharedArrayBuffer>>()
  readonly #gone = new FinalizationRegistry((name: string) => {
    const known = this.#memory.get(name)
    if (known instanceof WeakRef && known.deref() === undefined) this.#memory.delete(name)
  })
  readonly #thread: number

  /** `thread`: unique number of this thread. */
  constructor(thread: number) {
    this.#thread = thread
  }

  learn(memory: NamedMemory): void {
    for (const [name, known] of memory) this.#memory.set(name, known)
  }

  /** A record that was not received, because its creator has released it meanwhile, belongs to this thread alone. */
  of(name: string, numbers: number): SharedRecord {
    const known = this.#memory.get(name)
    const memory = known instanceof WeakRef ? known.deref() : known
    if (memory === undefined) return ownRecords.of(name, numbers)
    if (!(known instanceof WeakRef)) {
      this.#memory.set(name, new WeakRef(memory))
      this.#gone.register(memory, name)
    }
    return new SharedRecord(memory, this.#thread)
  }
}
