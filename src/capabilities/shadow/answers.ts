import {
  integer,
  listOf,
  mapOf,
  number,
  object,
  orNull,
  text,
  textOrNull,
  time,
  titledObject,
  type ValueOf,
  words
} from '../../schema/answer.js'
import { EXPLANATION } from '../explain/answers.js'

const count = (description: string) => ({ ...integer, minimum: 0, description })

/** One side of a difference: the decision, and the rule that made it. */
export const SHADOW_DECISION = titledObject('ShadowDecision', {
  decision: words(
    ['forwarded', 'answered', 'redirected', 'denied', 'limited', 'refused', 'closed'],
    'denied: 401 or 403. limited: 429. refused: another error. answered: an answer of a policy.'
  ),
  status: { ...orNull(integer), description: 'Null: no answer, or that of an upstream.' },
  code: textOrNull,
  by: orNull(object({ phase: text, rule: text, action: text }))
})

const DIFFERS = listOf(
  words(['decision', 'request', 'response']),
  'decision: what becomes of it. request: what the upstream gets. response: what the client gets.'
)

const EXAMPLE = titledObject('ShadowExample', {
  at: time,
  request: object({ method: text, host: text, path: text, client_ip: text }),
  route: { ...textOrNull, description: 'Id of the route that took it.' },
  old: SHADOW_DECISION,
  new: SHADOW_DECISION,
  differs: DIFFERS,
  explanation: {
    ...orNull(EXPLANATION),
    description: 'How the candidate decides it; null: there was no room for it.'
  }
})

const CELL = object({
  old: SHADOW_DECISION,
  new: SHADOW_DECISION,
  differs: DIFFERS,
  count: count('Exchanges.'),
  examples: listOf(EXAMPLE, 'The first ones.')
})

const COUNTS = object({
  seen: count('Exchanges that it was to judge.'),
  judged: count('Exchanges on which both decisions are known.'),
  same: count('Decided alike.'),
  changed: count('Decided otherwise.'),
  not_judged: count('Exchanges on which the candidate cannot be judged.'),
  over_budget: count('Exchanges whose work took too long.'),
  dropped: count('Exchanges for which there was no room.'),
  waiting: count('Exchanges that are under way.')
})

/** A candidate that runs beside traffic. */
export const SHADOW = {
  ...titledObject(
    'Shadow',
    {
      id: text,
      uri: text,
      name: textOrNull,
      state: words(['running', 'ended']),
      ended_reason: { ...textOrNull, description: 'Null: it runs.' },
      created_at: time,
      expires_at: time,
      ended_at: orNull(time),
      revision: { ...integer, description: 'Of the configuration that it stands on.' },
      routes: {
        ...orNull(listOf(text)),
        description: 'Ids of the routes whose exchanges it judges; null: those of all.'
      },
      share: number,
      budget: text,
      counters: words(['running', 'empty']),
      counts: COUNTS,
      not_judged: mapOf(integer, 'Exchanges that were not judged, by the reason.'),
      work: object({
        milliseconds: { ...number, description: 'Work on all of them.' },
        slowest: { ...number, description: 'Milliseconds of work on the one that took longest.' }
      }),
      matrix: listOf(CELL, 'Which decisions met, differences first. Left out in lists.'),
      others: count('Exchanges that no entry of the matrix counts, because there are too many.')
    },
    ['matrix']
  ),
  description: 'A candidate that runs beside traffic, without effects.'
}

/** Candidates that run, and those that have ended. */
export const SHADOW_LIST = titledObject('ShadowList', {
  shadows: listOf(SHADOW, 'The newest first.'),
  uri: text,
  next_page_uri: textOrNull
})

export type ShadowView = ValueOf<typeof SHADOW>
export type ShadowList = ValueOf<typeof SHADOW_LIST>
export type ShadowCounts = ValueOf<typeof COUNTS>
export type ShadowCell = ValueOf<typeof CELL>
/** An exchange on which a candidate decides otherwise. Redacted. */
export type ShadowExample = ValueOf<typeof EXAMPLE>
/** One side of a cell: the decision, and the rule that made it. */
export type ShownDecision = ValueOf<typeof SHADOW_DECISION>
