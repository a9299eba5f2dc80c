import { Locks } from './locks.js'

const WORD = Int32Array.BYTES_PER_ELEMENT
const NUMBER = Float64Array.BYTES_PER_ELEMENT
/** Words before the numbers: the lock, and one that its owner alone writes and all may read. */
const HEAD = 2
const LOCK = 0
const MARK = 1

/** Numbers that several threads have together, one at a time. All are 0 at first. */
export class SharedRecord {
  readonly numbers: Float64Array
  readonly #words: Int32Array
  readonly #locks: Locks

  /** `thread`: number of this one; undefined: no other thread has the record. */
  constructor(memory: ArrayBufferLike, thread: number | undefined) {
    this.#words = new Int32Array(memory, 0, HEAD)
    this.numbers = new Float64Array(memory, HEAD * WORD)
    this.#locks = new Locks(this.#words, thread ?? 0, thread !== undefined)
  }

  /** A word that may be read without the lock. */
  get mark(): number {
    return Atomics.load(this.#words, MARK)
  }

  /** Only while this thread has the lock. */
  set mark(value: number) {
    Atomics.store(this.#words, MARK, value)
  }

  /** Keeps other threads out until `unlock`. False: one of them is in for too long. */
  lock(): boolean {
    return this.#locks.acquire(LOCK)
  }

  unlock(): void {
    this.#locks.release(LOCK)
  }

  /** Lets others in where a thread had the lock that has ended. What it wrote stays as it was. */
  free(thread: number): void {
    if (this.#locks.takeOver(LOCK, thread)) this.#locks.release(LOCK)
  }
}

/** Gives records by name. */
export interface SharedRecords {
  /** The record of this name with so many numbers; a name always has as many. */
  of(name: string, numbers: number): SharedRecord
}

/** Records of a thread that shares none: each call gives a new one. */
export const ownRecords: SharedRecords = {
  of: (_name, numbers) => new SharedRecord(new ArrayBuffer(bytesOf(numbers)), undefined)
}

function bytesOf(numbers: number): number {
  return HEAD * WORD + numbers * NUMBER
}

/** Memory by name, as it is sent to other threads. */
export type NamedMemory = ReadonlyMap<string, SharedArrayBuffer>

/** Of the thread that makes the records which others learn. A record goes with the last thread that uses it. */
export class MadeRecords implements SharedRecords {
  readonly #memory = new Map<string, WeakRef<SharedArrayBuffer>>()
  readonly #gone = new FinalizationRegistry((name: string) => {
    if (this.#memory.get(name)?.deref() === undefined) this.#memory.delete(name)
  })
  readonly #thread: number
  #learns: ((memory: NamedMemory) => void) | undefined

  /** `thread`: number of this one, which no other has. */
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
    // A thread may have given it up that is to use it again.
    this.#learns?.(new Map([[name, memory]]))
    return new SharedRecord(memory, this.#thread)
  }

  /** `learns` is called with each record that is asked for here, before anything else can be sent that means it. */
  follow(learns: (memory: NamedMemory) => void): void {
    this.#learns = learns
  }

  /** All that are used, for a thread that begins. */
  all(): NamedMemory {
    const all = new Map<string, SharedArrayBuffer>()
    for (const [name, memory] of this.#memory) {
      const known = memory.deref()
      if (known !== undefined) all.set(name, known)
    }
    return all
  }

  /** The thread has ended, and may have had locks. */
  ended(thread: number): void {
    for (const memory of this.all().values()) new SharedRecord(memory, this.#thread).free(thread)
  }
}

/** Of a thread that learns its records from another one, each before it is asked for. */
export class LearntRecords implements SharedRecords {
  readonly #memory = new Map<string, SharedArrayBuffer | WeakRef<SharedArrayBuffer>>()
  readonly #gone = new FinalizationRegistry((name: string) => {
    const known = this.#memory.get(name)
    if (known instanceof WeakRef && known.deref() === undefined) this.#memory.delete(name)
  })
  readonly #thread: number

  /** `thread`: number of this one, which no other has. */
  constructor(thread: number) {
    this.#thread = thread
  }

  learn(memory: NamedMemory): void {
    for (const [name, known] of memory) this.#memory.set(name, known)
  }

  /** One that was not learnt, because the thread that makes them has given it up meanwhile, is of this thread alone. */
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
