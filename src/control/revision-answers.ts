import type { Json } from '../lib/json.js'
import {
  count,
  integer,
  listOf,
  object,
  orNull,
  type Shape,
  text,
  textOrNull,
  time,
  titledObject,
  type ValueOf,
  words
} from '../schema/answer.js'
import { GUARD_STATES } from './guard-note.js'

const CHANGE_KINDS = ['created', 'updated', 'deleted'] as const
const NAMED = object({ id: integer, uri: text })
const AUTHOR = orNull(object({ id: text, subject: text }))

const GUARD = titledObject('RevisionGuard', {
  conditions: { ...text, description: 'As the header guard has them, with every default.' },
  state: words(
    GUARD_STATES,
    'baking: it is judged. passed: no condition broke. inconclusive: too few requests came to judge it. broken: a condition ' +
      'broke, and it was reverted. conflict: one broke, and it could not be reverted. superseded: a later write changed the same.'
  ),
  reason: { ...textOrNull, description: 'Why it came to its state; null: it bakes, or has passed.' },
  ended_at: { ...orNull(time), description: 'Since when it bakes no more; null: it bakes.' },
  by: { ...orNull(NAMED), description: 'The revision that reverted or superseded it; null: none did.' }
})

/** A revision of the account. */
export const REVISION = titledObject('Revision', {
  id: { ...integer, minimum: 1, description: 'Its number: one more than that of the revision before.' },
  uri: text,
  created_at: { ...time, description: 'When it was made (RFC 3339).' },
  operation_id: { ...text, description: 'The service-operation-id of the write that made it.' },
  principal: { ...AUTHOR, description: 'The user or bot who made it; null when it was the service itself.' },
  api_key: {
    ...orNull(object({ id: text, uri: textOrNull })),
    description: 'The API key that was used; null when it was not one of the account.'
  },
  created: { ...count, description: 'How many records it created.' },
  updated: { ...count, description: 'How many records it updated.' },
  deleted: { ...count, description: 'How many records it deleted.' },
  reverts: { ...orNull(NAMED), description: 'The revision that it undid; null: none.' },
  reason: { ...textOrNull, description: 'Why the service made it by itself; null: a caller asked for it.' },
  guard: {
    ...orNull(GUARD),
    description: 'The conditions under which it stays; null: it was written without.'
  }
})

/** One page of revisions. */
export const REVISION_LIST = titledObject('RevisionList', {
  revisions: listOf(REVISION),
  uri: text,
  next_page_uri: textOrNull
})

const BEFORE: object & Shape<Json> = { description: 'null when it was not set or there was no record.' } as never
const AFTER: object & Shape<Json> = { description: 'null when it is not set or there is no record.' } as never

const DIFFERENCE = object(
  {
    field: { ...text, description: 'Path of the value in the answer that shows the record, such as backend.id.' },
    before: BEFORE,
    after: AFTER,
    text_diff: {
      ...text,
      description:
        'For policies and other texts of several lines, in place of both sides: a unified diff. JSON in one line is written in several.'
    }
  },
  ['before', 'after', 'text_diff']
)

const FIELD = object({ before: BEFORE, after: AFTER })

const FIELDS: object & Shape<Readonly<Record<string, ValueOf<typeof FIELD>>> | null> = {
  type: ['object', 'null'],
  description:
    'What differs, by field as answers show it, with URLs below the base of the API. No secret. null when it was not recorded.',
  additionalProperties: FIELD
} as never

const DIFFERENCES: object & Shape<readonly ValueOf<typeof DIFFERENCE>[] | null> = {
  type: ['array', 'null'],
  description: 'The same for people, value by value; null when fields is null.',
  items: DIFFERENCE
} as never

const NAME = {
  ...textOrNull,
  description:
    'Name of the record at that revision: of the site, of the route with its site, of the backend, or the name in its metadata; null: ' +
    'it has none, or the history does not keep it.'
}

const REVISION_CHANGE = titledObject('RevisionChange', {
  resource: { ...text, description: 'Kind of the record.' },
  id: text,
  name: NAME,
  uri: { ...textOrNull, description: 'URL of the record, which may be gone by now.' },
  change: words(CHANGE_KINDS),
  description: { ...textOrNull, description: 'Of the record; null: it has none, or is gone.' },
  fields: FIELDS,
  differences: DIFFERENCES,
  secrets: listOf(text, 'Paths of the secrets that differ. Their values are not kept.')
})

/** Changes of a revision, or the differences of two. */
export const REVISION_DIFF = titledObject('RevisionDiff', {
  id: integer,
  uri: text,
  revision: NAMED,
  from: { ...object({ id: integer, uri: textOrNull }), description: 'The revision that it is compared with.' },
  created_at: { ...time, description: 'When the revision was made (RFC 3339).' },
  principal: { ...AUTHOR, description: 'Who made the revision; null when it was the service itself.' },
  changes: listOf(REVISION_CHANGE)
})

/** Result of a revert. */
export const REVISION_REVERTED = titledObject('RevisionReverted', {
  reverts: NAMED,
  revision: {
    ...orNull(NAMED),
    description: 'The revision that did it; null when there was nothing to change.'
  },
  changes: listOf(
    object({
      resource: { ...text, description: 'Kind of the record.' },
      id: text,
      name: NAME,
      uri: { ...text, description: 'URL of the record, which may be gone by now.' },
      change: words(CHANGE_KINDS)
    })
  )
})

export type RevisionView = ValueOf<typeof REVISION>
export type RevisionList = ValueOf<typeof REVISION_LIST>
/** Response of `GET /revisions/{id}/diff`. */
export type RevisionDiff = ValueOf<typeof REVISION_DIFF>
/** Response of `POST /revisions/{id}/revert`. */
export type RevisionReverted = ValueOf<typeof REVISION_REVERTED>
