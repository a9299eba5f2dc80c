import { answer, operation, type Paths, parametersOf } from '../../api/openapi-parts.js'
import { ACCOUNT_RIGHTS } from '../../control/rights.js'
import { eventDestination } from '../../resources/event-destinations.js'
import { listOf, orNull, ref, text, textOrNull, time, titledObject } from '../../schema/answer.js'
import { title } from '../../schema/json-schema.js'
import { LETTER_PATH, LETTERS_PATH, REDELIVER_PATH } from './routes.js'

const count = { type: 'integer', minimum: 0 } as const
const LETTER = {
  id: { ...text, description: 'dl_ and a number that counts within the destination.' },
  uri: text,
  created_at: { ...time, description: 'When it was refused for good.' },
  event_id: { ...textOrNull, description: 'null, as the type and the time, when the event is damaged.' },
  event_type: textOrNull,
  event_timestamp: { ...orNull(time), description: 'When the event happened.' },
  attempts: { ...count, description: 'How often it was refused.' },
  reason: { ...text, description: 'The last refusal.' },
  size: { ...count, description: 'Bytes of the event.' }
}

const SCHEMAS = {
  DeadLetter: titledObject('DeadLetter', LETTER),
  DeadLetterWithEvent: titledObject('DeadLetterWithEvent', {
    ...LETTER,
    event: { description: 'The event; its text when it is damaged.' }
  }),
  DeadLetterList: titledObject('DeadLetterList', {
    dead_letters: listOf(ref('DeadLetter')),
    uri: text,
    next_page_uri: textOrNull
  }),
  DeadLettersRedelivered: titledObject('DeadLettersRedelivered', {
    redelivered: { ...count, description: 'How many go to the destination again, behind what waits for it.' }
  })
}

/** Adds dead letters of event destinations. */
export function describeDeadLetters(paths: Paths, schemas: Record<string, object>): void {
  Object.assign(schemas, SCHEMAS)
  const member = ACCOUNT_RIGHTS.dead_letters.member ? 'any' : 'none'
  const tag = title(eventDestination.name)
  const name = `${eventDestination.name}_dead_letters`
  const redelivered = { 200: answer('How many.', ref('DeadLettersRedelivered')) }
  paths[LETTERS_PATH] = {
    ...parametersOf(LETTERS_PATH),
    get: operation(`${name}_list`, tag, 'Lists, newest first, the events that the destination refused for good.', {
      member,
      parameters: ['limit', 'before_id'],
      responses: { 200: answer('One page.', ref('DeadLetterList')) }
    }),
    delete: operation(`${name}_drop_all`, tag, 'Drops all dead letters of the destination.', {
      member,
      responses: { 204: answer('They are gone.') }
    })
  }
  paths[REDELIVER_PATH] = {
    ...parametersOf(REDELIVER_PATH),
    post: operation(`${name}_redeliver_all`, tag, 'Delivers all dead letters again, the oldest first.', {
      member,
      responses: redelivered
    })
  }
  paths[LETTER_PATH] = {
    ...parametersOf(LETTER_PATH),
    get: operation(`${name}_get`, tag, 'Reads one dead letter with its event.', {
      member,
      responses: { 200: answer('The dead letter.', ref('DeadLetterWithEvent')) }
    }),
    delete: operation(`${name}_drop`, tag, 'Drops one dead letter.', {
      member,
      responses: { 204: answer('It is gone.') }
    })
  }
  paths[`${LETTER_PATH}/redeliver`] = {
    ...parametersOf(LETTER_PATH),
    post: operation(`${name}_redeliver`, tag, 'Delivers one dead letter again.', { member, responses: redelivered })
  }
}
