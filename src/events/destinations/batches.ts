import type { Parcel, SendFailure } from './sender.js'

/** What a service takes at once. Bytes are those of the UTF-8 texts. */
export interface BatchLimits {
  /** Most events of one batch. */
  readonly events: number
  /** Most bytes of one batch. */
  readonly bytes: number
  /** Most bytes of one event, at most those of a batch. */
  readonly eventBytes: number
  /** Bytes that the service counts for each event beside its text. */
  readonly overhead: number
}

/** Why a batch was not taken, or not as a whole. */
export interface Refusal extends SendFailure {
  /** Places in the batch of the events that were not taken, ascending. Left out: none was taken. */
  readonly places?: readonly number[]
}

/** Hands one batch to the service; undefined when all of it was taken. `list`: are they events of traffic? */
export type PutBatch = (events: readonly string[], list: boolean, signal: AbortSignal) => Promise<Refusal | undefined>

interface Rest {
  /** The parcel that it is the rest of. */
  readonly first: string
  readonly last: string
  readonly size: number
  /** What was not taken, in the order of the parcel. */
  events: readonly Left[]
}

interface Left {
  /** In the parcel. */
  readonly place: number
  readonly text: string
}

/**
 * Cuts parcels into batches that a service takes, and remembers what of a parcel was taken, so that its next repetition holds
 * nothing else. An event that is larger than any that the service takes goes without its object, and says so: waiting for ever
 * would hold up all that follow.
 */
export class Batches {
  readonly #limits: BatchLimits
  readonly #put: PutBatch
  /** By lane: one sends events of traffic, the other one all others. */
  readonly #rests = new Map<boolean, Rest>()

  constructor(limits: BatchLimits, put: PutBatch) {
    this.#limits = limits
    this.#put = put
  }

  async send({ events, list }: Parcel, signal: AbortSignal): Promise<SendFailure | undefined> {
    const rest = this.#restOf(events, list)
    while (rest.events.length > 0) {
      const batch = rest.events.slice(0, this.#fitting(rest.events))
      const texts = batch.map(({ text }) => text)
      const refusal = await this.#put(texts, list, signal)
      if (refusal === undefined) rest.events = rest.events.slice(batch.length)
      else {
        const { places, ...failure } = refusal
        if (places === undefined) return { ...failure, ...takenBefore(batch[0]) }
        const refused = places.map((place) => batch[place]).filter((event) => event !== undefined)
        rest.events = [...refused, ...rest.events.slice(batch.length)]
        return failure
      }
    }
    this.#rests.delete(list)
    return undefined
  }

  /** What is left of a parcel; all of it unless it was begun before. */
  #restOf(events: readonly string[], list: boolean): Rest {
    const known = this.#rests.get(list)
    const [first = '', last = ''] = [events[0], events.at(-1)]
    // The id of a parcel is that of its first event: another one may begin with the same and be longer.
    if (known?.first === first && known.last === last && known.size === events.length) return known
    const rest = {
      first,
      last,
      size: events.length,
      events: events.map((event, place) => ({ place, text: this.#bounded(event) }))
    }
    this.#rests.set(list, rest)
    return rest
  }

  #bounded(event: string): string {
    const { eventBytes, overhead } = this.#limits
    if (Buffer.byteLength(event) + overhead <= eventBytes) return event
    const envelope = JSON.parse(event) as Record<string, unknown>
    return JSON.stringify({ ...envelope, object: null, object_omitted: true })
  }

  #fitting(events: readonly Left[]): number {
    const { bytes, overhead, events: most } = this.#limits
    let sum = 0
    let count = 0
    for (const { text } of events) {
      sum += Buffer.byteLength(text) + overhead
      if (count === most || (sum > bytes && count > 0)) break
      count += 1
    }
    return count
  }
}

/** Events before the first that was not taken; nothing when there are none. */
function takenBefore({ place }: Left = { place: 0, text: '' }): { taken?: number } {
  return place === 0 ? {} : { taken: place }
}
