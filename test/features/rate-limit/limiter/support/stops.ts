import { HEADER, layoutOf, SEGMENT } from '../../../../../src/features/rate-limit/limiter/layout.js'
import type { Views } from '../../../../../src/features/rate-limit/limiter/memory.js'

/** Thrown in place of a store: the thread has ended there. */
export class Stopped extends Error {}

type Numbers = Uint32Array | Uint16Array | Float64Array

/** Views of a table through which every store, and no read, comes by `store` first. */
function watched(store: (numbers: Numbers, place: number, value: number) => void): (views: Views) => Views {
  const through = <T extends Numbers>(numbers: T): T => {
    const write = (place: number, value: number) => {
      store(numbers, place, value)
      numbers[place] = value
    }
    const fill = (value: number, from: number, end: number) => {
      for (let place = from; place < end; place += 1) write(place, value)
    }
    return new Proxy(numbers, {
      set: (_, place, value) => {
        write(Number(place), value)
        return true
      },
      get: (target, place) => {
        if (place === 'fill') return fill
        if (place === 'copyWithin' || place === 'set') throw new TypeError(`${place} is not one store`)
        const value = Reflect.get(target, place)
        return typeof value === 'function' ? value.bind(target) : value
      }
    })
  }
  return ({ words, halves, doubles }) => ({ words: through(words), halves: through(halves), doubles: through(doubles) })
}

/** Stores that are still made; the next one, and all after it, throw. */
export class Stops {
  left = Number.POSITIVE_INFINITY

  readonly views = watched(() => {
    if (this.left <= 0) throw new Stopped()
    this.left -= 1
  })
}

/** What the header says of unfinished work. */
const UNFINISHED = ['building', 'leaving', 'removing', 'rebuild', 'undone'] as const

/**
 * Every store that a thread makes, in its order, and every lock that it takes or gives back in between. What the thread
 * leaves behind when it ends at one of its stores is what was there before, with the stores before that one: so one run
 * gives every end.
 */
export class Recording {
  /** For each store: the words of unfinished work that were set before it, each with how far a rebuilding was. */
  readonly unfinished: (readonly string[])[] = []
  readonly #image: Uint8Array
  readonly #changed: { readonly numbers: Numbers; readonly place: number; readonly value: number }[] = []
  /** For each store: how many changes, of locks or by stores, are before it. */
  readonly #before: number[] = []
  /** Of the image, by their kind. */
  readonly #views: ReadonlyMap<unknown, Numbers>
  /** Changes that the image has. */
  #applied = 0

  /** Records what `operation` does in `buffer` with a table whose views it is given. */
  constructor(buffer: SharedArrayBuffer, operation: (views: (views: Views) => Views) => void) {
    this.#image = new Uint8Array(buffer).slice()
    this.#views = new Map<unknown, Numbers>([
      [Uint32Array, new Uint32Array(this.#image.buffer)],
      [Uint16Array, new Uint16Array(this.#image.buffer)],
      [Float64Array, new Float64Array(this.#image.buffer)]
    ])
    const { segmentBase, segments } = layoutOf(buffer.byteLength)
    const locks = [
      HEADER.structureLock,
      ...Array.from({ length: segments }, (_, segment) => segmentBase + segment * SEGMENT.words + SEGMENT.lock)
    ]
    const words = new Uint32Array(buffer)
    const held = new Map(locks.map((lock) => [lock, words[lock] as number]))
    const changeLocks = () => {
      for (const place of locks) {
        const value = words[place] as number
        if (value === held.get(place)) continue
        held.set(place, value)
        this.#changed.push({ numbers: words, place, value })
      }
    }
    operation(
      watched((numbers, place, value) => {
        changeLocks()
        const set = UNFINISHED.filter((name) => words[HEADER[name]] !== 0)
        this.unfinished.push(set.map((name) => `${name} ${words[HEADER.rebuild]}`))
        this.#before.push(this.#changed.length)
        this.#changed.push({ numbers, place, value })
      })
    )
    changeLocks()
  }

  /** How many stores there were. */
  get stores(): number {
    return this.#before.length
  }

  /** What the thread leaves behind that ends in place of store number `store`, counted from 0. Never for an earlier one than before. */
  leaves(store: number): Uint8Array {
    return this.#upTo(this.#before[store] as number)
  }

  /** Is that what is there when all is done? It is not where something is changed in another way. Called last. */
  ends(after: Uint8Array): boolean {
    return Buffer.compare(this.#upTo(this.#changed.length), after) === 0
  }

  #upTo(changes: number): Uint8Array {
    if (changes < this.#applied) throw new RangeError('an end comes after a later one')
    for (; this.#applied < changes; this.#applied += 1) {
      const change = this.#changed[this.#applied]
      const view = this.#views.get(change?.numbers.constructor)
      if (change !== undefined && view !== undefined) view[change.place] = change.value
    }
    return this.#image
  }
}
