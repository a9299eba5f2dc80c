import { defineRoute, type RouteGroup } from '../../api/define-route.js'
import { PAGE } from '../../api/parameters.js'
import { memberRights } from '../../control/rights.js'
import { eventDestination } from '../../resources/event-destinations.js'
import { title } from '../../schema/json-schema.js'
import { DEAD_LETTER_LIST, DEAD_LETTER_WITH_EVENT, DESTINATION_TEST, REDELIVERED } from './answers.js'
import type { DeadLetterLists } from './dead-letters.js'

const ID = `${eventDestination.name}_dead_letters`

const testDestination = defineRoute({
  method: 'POST',
  path: '/event_destinations/{id}/test',
  id: `${eventDestination.name}_test`,
  summary: 'Sends a test event and says what came of it.',
  member: memberRights(eventDestination).update,
  body: 'command',
  answers: 'What came of it.',
  answer: DESTINATION_TEST,
  example: { delivered: false, error: 'the server answered 503', duration_ms: 12 },
  run: ({ params, call }, letters: DeadLetterLists) => letters.test(params.id, call)
})

const listLetters = defineRoute({
  method: 'GET',
  path: '/event_destinations/{id}/dead_letters',
  id: `${ID}_list`,
  summary: 'Lists, newest first, the events that the destination refused for good.',
  right: 'dead_letters',
  query: PAGE,
  answers: 'One page.',
  answer: DEAD_LETTER_LIST,
  run: ({ params, query, call }, letters: DeadLetterLists) =>
    letters.list(params.id, { limit: query.limit, before: query.before_id }, call)
})

const readLetter = defineRoute({
  method: 'GET',
  path: '/event_destinations/{id}/dead_letters/{letter_id}',
  id: `${ID}_get`,
  summary: 'Reads one dead letter with its event.',
  right: 'dead_letters',
  answers: 'The dead letter.',
  answer: DEAD_LETTER_WITH_EVENT,
  run: ({ params, call }, letters: DeadLetterLists) => letters.get(params.id, params.letter_id, call)
})

const redeliverAll = defineRoute({
  method: 'POST',
  path: '/event_destinations/{id}/redeliver',
  id: `${ID}_redeliver_all`,
  summary: 'Delivers all dead letters again, the oldest first.',
  right: 'dead_letters',
  body: 'command',
  answers: 'How many.',
  answer: REDELIVERED,
  run: async ({ params, call }, letters: DeadLetterLists) => ({
    redelivered: await letters.redeliver(params.id, undefined, call)
  })
})

const redeliverLetter = defineRoute({
  method: 'POST',
  path: '/event_destinations/{id}/dead_letters/{letter_id}/redeliver',
  id: `${ID}_redeliver`,
  summary: 'Delivers one dead letter again.',
  right: 'dead_letters',
  body: 'command',
  answers: 'How many.',
  answer: REDELIVERED,
  run: async ({ params, call }, letters: DeadLetterLists) => ({
    redelivered: await letters.redeliver(params.id, params.letter_id, call)
  })
})

const dropAll = defineRoute({
  method: 'DELETE',
  path: '/event_destinations/{id}/dead_letters',
  id: `${ID}_drop_all`,
  summary: 'Drops all dead letters of the destination.',
  right: 'dead_letters',
  status: 204,
  answers: 'They are gone.',
  run: ({ params, call }, letters: DeadLetterLists) => letters.drop(params.id, undefined, call)
})

const dropLetter = defineRoute({
  method: 'DELETE',
  path: '/event_destinations/{id}/dead_letters/{letter_id}',
  id: `${ID}_drop`,
  summary: 'Drops one dead letter.',
  right: 'dead_letters',
  status: 204,
  answers: 'It is gone.',
  run: ({ params, call }, letters: DeadLetterLists) => letters.drop(params.id, params.letter_id, call)
})

/** Routes of event destinations beside those of their records. */
export const eventRoutes: RouteGroup<DeadLetterLists> = {
  tag: title(eventDestination.name),
  routes: [testDestination, listLetters, readLetter, redeliverAll, redeliverLetter, dropAll, dropLetter]
}
