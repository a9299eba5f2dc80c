import { answer, operation, type Paths, parametersOf } from '../../api/openapi-parts.js'
import { ACCOUNT_RIGHTS } from '../../control/rights.js'
import { listOf, object, orNull, ref, text, time } from '../../schema/answer.js'
import { SHADOWS_PATH } from './routes.js'
import { SHADOW_SCHEMA } from './shadows.js'

const TAG = 'Shadows'

const count = (description: string) => ({ type: 'integer', minimum: 0, description })
const DECISION = object({
  decision: {
    ...text,
    enum: ['forwarded', 'answered', 'redirected', 'denied', 'limited', 'refused', 'closed'],
    description: 'denied: 401 or 403. limited: 429. refused: another error. answered: an answer of a policy.'
  },
  status: { type: ['integer', 'null'], description: 'Null: no answer, or that of an upstream.' },
  code: orNull(text),
  by: orNull(object({ phase: text, rule: text, action: text }))
})

const DIFFERS = listOf(
  { ...text, enum: ['decision', 'request', 'response'] },
  'decision: what becomes of it. request: what the upstream gets. response: what the client gets.'
)

const EXAMPLE = object({
  at: time,
  request: object({ method: text, host: text, path: text, client_ip: text }),
  route: { ...orNull(text), description: 'Id of the route that took it.' },
  old: ref('ShadowDecision'),
  new: ref('ShadowDecision'),
  differs: DIFFERS,
  explanation: {
    ...orNull(ref('Explanation')),
    description: 'How the candidate decides it; null: there was no room for it.'
  }
})

const SHADOW = object(
  {
    id: text,
    uri: text,
    name: orNull(text),
    state: { ...text, enum: ['running', 'ended'] },
    ended_reason: { ...orNull(text), description: 'Null: it runs.' },
    created_at: time,
    expires_at: time,
    ended_at: orNull(time),
    revision: { type: 'integer', description: 'Of the configuration that it stands on.' },
    routes: {
      ...orNull(listOf(text, '')),
      description: 'Ids of the routes whose exchanges it judges; null: those of all.'
    },
    share: { type: 'number' },
    budget: text,
    counters: { ...text, enum: ['running', 'empty'] },
    counts: object({
      seen: count('Exchanges that it was to judge.'),
      judged: count('Exchanges on which both decisions are known.'),
      same: count('Decided alike.'),
      changed: count('Decided otherwise.'),
      not_judged: count('Exchanges on which the candidate cannot be judged.'),
      over_budget: count('Exchanges whose work took too long.'),
      dropped: count('Exchanges for which there was no room.'),
      waiting: count('Exchanges that are under way.')
    }),
    not_judged: {
      type: 'object',
      additionalProperties: { type: 'integer' },
      description: 'Exchanges that were not judged, by the reason.'
    },
    work: object({
      milliseconds: { type: 'number', description: 'Work on all of them.' },
      slowest: { type: 'number', description: 'Milliseconds of work on the one that took longest.' }
    }),
    matrix: listOf(
      object({
        old: ref('ShadowDecision'),
        new: ref('ShadowDecision'),
        differs: DIFFERS,
        count: count('Exchanges.'),
        examples: listOf(ref('ShadowExample'), 'The first ones.')
      }),
      'Which decisions met, differences first. Left out in lists.'
    ),
    others: count('Exchanges that no entry of the matrix counts, because there are too many.')
  },
  ['matrix']
)

/** Adds what runs beside traffic; answers its tag. */
export function describeShadows(paths: Paths, schemas: Record<string, object>): object {
  Object.assign(schemas, {
    ShadowRequest: SHADOW_SCHEMA,
    ShadowDecision: { ...DECISION, title: 'ShadowDecision' },
    ShadowExample: { ...EXAMPLE, title: 'ShadowExample' },
    Shadow: { ...SHADOW, title: 'Shadow', description: 'A candidate that runs beside traffic, without effects.' },
    ShadowList: {
      ...object({ shadows: listOf(ref('Shadow'), 'The newest first.'), uri: text, next_page_uri: orNull(text) }),
      title: 'ShadowList'
    }
  })
  const member = ACCOUNT_RIGHTS.shadow.member ? 'any' : 'none'
  const item = `${SHADOWS_PATH}/{id}`
  paths[SHADOWS_PATH] = {
    post: operation(
      'shadows_create',
      TAG,
      'Runs policies, or changes, beside what serves; the process keeps it in memory.',
      {
        member,
        body: ref('ShadowRequest'),
        responses: { 201: answer('It runs.', ref('Shadow')) }
      }
    ),
    get: operation('shadows_list', TAG, 'The shadows of the process that answers.', {
      member,
      responses: { 200: answer('The shadows.', ref('ShadowList')) }
    })
  }
  paths[item] = {
    ...parametersOf(item),
    get: operation('shadows_get', TAG, 'What a shadow has seen.', {
      member,
      responses: { 200: answer('The shadow.', ref('Shadow')) }
    }),
    delete: operation('shadows_delete', TAG, 'Ends a shadow and forgets what it has seen.', {
      member,
      responses: { 204: answer('It is gone.') }
    })
  }
  return { name: TAG, description: 'Candidates beside traffic.' }
}
