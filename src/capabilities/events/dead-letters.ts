import type { Call } from '../../control/calls.js'
import { ControlError, controlErrors, notFound, orUnavailable } from '../../control/errors.js'
import type { ControlParts } from '../../control/parts.js'
import type { Reads } from '../../control/reads.js'
import { mayOperate } from '../../control/rights.js'
import { type Json, timestampText } from '../../lib/json.js'
import { eventDestination } from '../../resources/event-destinations.js'
import type { DeadLetter } from '../../store/outbox.js'
import type { DeadLetterList, DeadLetterView, DeadLetterWithEvent, DestinationTest } from './answers.js'
import type { Events } from './events.js'

interface DeadLetterListsParts extends Pick<ControlParts, 'store' | 'writer'> {
  readonly reads: Reads
  readonly baseUrl: () => string
  readonly delivery: Pick<Events, 'lettersDropped' | 'test'>
}

const ID = /^dl_([1-9]\d{0,14})$/

/**
 * The dead letters of event destinations: audit events that were refused for good. Everything fails with `NOT_FOUND` when
 * there is no such destination.
 */
export class DeadLetterLists {
  readonly #parts: DeadLetterListsParts

  constructor(parts: DeadLetterListsParts) {
    this.#parts = parts
  }

  /** Returns one page, newest first. `before`: id of the letter before the page, which may have been deleted. Fails with `QUERY_INVALID`. */
  async list(id: string, { limit, before }: LetterPage, call: Call): Promise<DeadLetterList> {
    const last = before === undefined ? undefined : numberOf(before)
    if (before !== undefined && last === undefined)
      throw new ControlError(controlErrors.QUERY_INVALID, 'before_id must be the id of a dead letter.', {
        field: 'before_id'
      })
    const destination = await this.#destination(id, call)
    const page = { limit: limit + 1, ...(last === undefined ? {} : { before: last }) }
    const letters = await orUnavailable(this.#parts.store.deadLetters.list(destination, page))
    const shown = letters.slice(0, limit)
    const uri = this.#uri(destination)
    const end = letters.length > limit ? shown.at(-1) : undefined
    const next_page_uri = end === undefined ? null : `${uri}?before_id=dl_${end.number}&limit=${limit}`
    return { dead_letters: shown.map((letter) => this.#present(destination, letter)), uri, next_page_uri }
  }

  /** Returns one dead letter with its event, or with the stored text if the event is damaged. */
  async get(id: string, letter: string, call: Call): Promise<DeadLetterWithEvent> {
    const destination = await this.#destination(id, call)
    const number = numberOf(letter)
    const { deadLetters } = this.#parts.store
    const found = number === undefined ? undefined : await orUnavailable(deadLetters.get(destination, number))
    if (found === undefined) throw notFound(`dead letter ${letter}`)
    return { ...this.#present(destination, found), event: readEvent(found.body) }
  }

  /** Moves one dead letter, or all, back to the end of the outbox; returns their number. */
  async redeliver(id: string, letter: string | undefined, call: Call): Promise<number> {
    const destination = await this.#destination(id, call)
    const number = numberIn(letter)
    const { value } = await this.#parts.writer.write(call, {}, async (draft) => {
      const redelivered = await draft.redeliver(destination, number)
      if (redelivered === 0 && number !== undefined) throw notFound(`dead letter ${letter}`)
      return redelivered
    })
    await this.#parts.delivery.lettersDropped()
    return value
  }

  /** Drops one, or all; returns how many. */
  async drop(id: string, letter: string | undefined, call: Call): Promise<number> {
    const destination = await this.#destination(id, call)
    const number = numberIn(letter)
    const dropped = await orUnavailable(this.#parts.store.deadLetters.drop(destination, number))
    if (dropped === 0 && number !== undefined) throw notFound(`dead letter ${letter}`)
    await this.#parts.delivery.lettersDropped()
    return dropped
  }

  /**
   * Sends a test event to a destination immediately, without retries. The event's object is the destination. Fails with
   * `FORBIDDEN` for callers who may not change the destination.
   */
  async test(id: string, { principal }: Call): Promise<DestinationTest> {
    mayOperate(principal, eventDestination, 'update')
    const { record, body } = await this.#parts.reads.one(eventDestination, { path: { id } }, principal)
    return await this.#parts.delivery.test(record.id, body)
  }

  async #destination(id: string, { principal }: Call): Promise<string> {
    const { record } = await this.#parts.reads.one(eventDestination, { path: { id } }, principal)
    return record.id
  }

  #uri(destination: string): string {
    return `${this.#parts.baseUrl()}${eventDestination.path}/${destination}/dead_letters`
  }

  #present(destination: string, letter: DeadLetter): DeadLetterView {
    const { number, at, eventId, eventType, eventTimestamp, attempts, reason, size } = letter
    return {
      id: `dl_${number}`,
      uri: `${this.#uri(destination)}/dl_${number}`,
      created_at: timestampText(at),
      event_id: eventId,
      event_type: eventType,
      event_timestamp: eventTimestamp,
      attempts,
      reason,
      size
    }
  }
}

interface LetterPage {
  readonly limit: number
  readonly before?: string | undefined
}

/** Parses the id of a dead letter; undefined if invalid. */
function numberOf(id: string): number | undefined {
  const [, digits] = ID.exec(id) ?? []
  return digits === undefined ? undefined : Number(digits)
}

/** Parses the id of a dead letter. Returns undefined for no id (all letters). Fails with `NOT_FOUND` for an invalid one. */
function numberIn(letter: string | undefined): number | undefined {
  if (letter === undefined) return undefined
  const number = numberOf(letter)
  if (number === undefined) throw notFound(`dead letter ${letter}`)
  return number
}

function readEvent(body: string): Json {
  try {
    return JSON.parse(body) as Json
  } catch {
    return body
  }
}
