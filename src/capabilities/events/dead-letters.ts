import type { Call, RecordPath } from '../../control/calls.js'
import { notFound, orUnavailable } from '../../control/errors.js'
import type { ControlParts } from '../../control/parts.js'
import type { Reads } from '../../control/reads.js'
import { mustHave } from '../../control/rights.js'
import { type Json, timestampText } from '../../lib/json.js'
import { eventDestination } from '../../resources/event-destinations.js'
import type { DeadLetter } from '../../store/outbox.js'

export interface DeadLetterListsParts {
  readonly parts: Pick<ControlParts, 'store' | 'answers' | 'writer'>
  readonly reads: Reads
  /** Must not reject. */
  readonly lettersDropped: () => Promise<void>
}

/** One dead letter of the destination in the path; its id is `dl_` and its number. */
interface LetterTarget extends RecordPath {
  readonly letter: string
}

const ID = /^dl_([1-9]\d{0,14})$/

/**
 * The dead letters of event destinations: audit events that were refused for good. Everything fails with `NOT_FOUND` when
 * there is no such destination, and with `ADMIN_REQUIRED`: the events show records of all users.
 */
export class DeadLetterLists {
  readonly #parts: DeadLetterListsParts

  constructor(parts: DeadLetterListsParts) {
    this.#parts = parts
  }

  /** The number in the id of a dead letter; undefined when it is none. */
  static numberOf(id: string): number | undefined {
    const [, digits] = ID.exec(id) ?? []
    return digits === undefined ? undefined : Number(digits)
  }

  /** One page, newest first. `before`: only those that came before the one of this number, which may be gone. */
  async list(request: RecordPath & { limit: number; before?: number | undefined }, call: Call): Promise<Json> {
    const { store } = this.#parts.parts
    const destination = await this.#destination(request, call)
    const { limit, before } = request
    const page = { limit: limit + 1, ...(before === undefined ? {} : { before }) }
    const letters = await orUnavailable(store.deadLetters.list(destination, page))
    const shown = letters.slice(0, limit)
    const uri = this.#uri(destination)
    const last = letters.length > limit ? shown.at(-1) : undefined
    const next_page_uri = last === undefined ? null : `${uri}?before_id=dl_${last.number}&limit=${limit}`
    return { dead_letters: shown.map((letter) => this.#present(destination, letter)), uri, next_page_uri }
  }

  /** With its event; with the text of it when it is damaged. */
  async get(request: LetterTarget, call: Call): Promise<Json> {
    const destination = await this.#destination(request, call)
    const number = DeadLetterLists.numberOf(request.letter)
    const { deadLetters } = this.#parts.parts.store
    const letter = number === undefined ? undefined : await orUnavailable(deadLetters.get(destination, number))
    if (letter === undefined) throw notFound(`dead letter ${request.letter}`)
    return { ...this.#present(destination, letter), event: readEvent(letter.body) }
  }

  /** Gives one, or all, back to the outbox, behind what waits there; answers how many. */
  async redeliver(request: RecordPath & Partial<LetterTarget>, call: Call): Promise<number> {
    const destination = await this.#destination(request, call)
    const number = numberIn(request)
    const { value } = await this.#parts.parts.writer.write(call, {}, async (draft) => {
      const redelivered = await draft.redeliver(destination, number)
      if (redelivered === 0 && number !== undefined) throw notFound(`dead letter ${request.letter}`)
      return redelivered
    })
    await this.#parts.lettersDropped()
    return value
  }

  /** Drops one, or all; answers how many. */
  async drop(request: RecordPath & Partial<LetterTarget>, call: Call): Promise<number> {
    const destination = await this.#destination(request, call)
    const number = numberIn(request)
    const { deadLetters } = this.#parts.parts.store
    const dropped = await orUnavailable(deadLetters.drop(destination, number))
    if (dropped === 0 && number !== undefined) throw notFound(`dead letter ${request.letter}`)
    await this.#parts.lettersDropped()
    return dropped
  }

  /** Its id, once the caller may. */
  async #destination({ path }: RecordPath, { principal }: Call): Promise<string> {
    mustHave(principal, 'dead_letters')
    const { record } = await this.#parts.reads.one(eventDestination, { path }, principal)
    return record.id
  }

  #uri(destination: string): string {
    return `${this.#parts.parts.answers.baseUrl}${eventDestination.path}/${destination}/dead_letters`
  }

  #present(destination: string, letter: DeadLetter): Readonly<Record<string, Json>> {
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

/** Undefined: all are meant. Fails with `NOT_FOUND` for what is the id of no dead letter. */
function numberIn({ letter }: Partial<LetterTarget>): number | undefined {
  if (letter === undefined) return undefined
  const number = DeadLetterLists.numberOf(letter)
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
