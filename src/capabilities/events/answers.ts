import {
  flag,
  integer,
  listOf,
  orNull,
  text,
  textOrNull,
  time,
  titledObject,
  type ValueOf
} from '../../schema/answer.js'

const count = { ...integer, minimum: 0 } as const

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

/** An event that its destination refused for good. */
const DEAD_LETTER = titledObject('DeadLetter', LETTER)

/** A dead letter with its event. */
export const DEAD_LETTER_WITH_EVENT = titledObject('DeadLetterWithEvent', {
  ...LETTER,
  event: { description: 'The event; its text when it is damaged.' }
})

/** One page of dead letters. */
export const DEAD_LETTER_LIST = titledObject('DeadLetterList', {
  dead_letters: listOf(DEAD_LETTER),
  uri: text,
  next_page_uri: textOrNull
})

/** Number of dead letters that are delivered again. */
export const REDELIVERED = titledObject('DeadLettersRedelivered', {
  redelivered: { ...count, description: 'How many go to the destination again, behind what waits for it.' }
})

/** Result of a test event. */
export const DESTINATION_TEST = titledObject('EventDestinationTest', {
  delivered: flag,
  error: { ...textOrNull, description: 'Why it was not delivered.' },
  duration_ms: integer
})

export type DeadLetterView = ValueOf<typeof DEAD_LETTER>
export type DeadLetterWithEvent = ValueOf<typeof DEAD_LETTER_WITH_EVENT>
export type DeadLetterList = ValueOf<typeof DEAD_LETTER_LIST>
export type DestinationTest = ValueOf<typeof DESTINATION_TEST>
