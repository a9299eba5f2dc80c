import {
  flag,
  integer,
  listOf,
  mapOf,
  object,
  orNull,
  text,
  titledObject,
  type ValueOf,
  words
} from '../schema/answer.js'

const PLACE = { path: text, line: integer, column: integer }
const WHERE = words(['all', 'http', 'response'], 'The phases in which it has a meaning.')

/** Problems of a policy document. */
export const POLICY_CHECK = titledObject('PolicyCheck', {
  valid: { ...flag, description: 'Can it serve?' },
  problems: listOf(
    object({ severity: words(['error', 'warning']), code: text, message: text, ...PLACE, length: integer }),
    'Places count from 1, columns and lengths in UTF-16 units.'
  )
})

const FAILURE = object({
  code: text,
  message: text,
  ...PLACE,
  what: orNull(text),
  expected: orNull(text),
  found: orNull(text)
})

/** Results of tests on a policy. */
export const POLICY_TEST = titledObject('PolicyTest', {
  passed: integer,
  failed: integer,
  cases: listOf(object({ name: text, line: integer, passed: flag, failure: orNull(FAILURE) }), ''),
  problems: listOf(FAILURE, 'Why they were not run, or not to their end.')
})

/** The language of policies, for editors. */
export const POLICY_LANGUAGE = titledObject('PolicyLanguage', {
  schema: mapOf(undefined, 'JSON Schema (2020-12) of documents, as "sluice schema" prints it.'),
  actions: listOf(
    object({
      type: text,
      summary: text,
      phases: listOf(text, ''),
      terminates: words(['always', 'sometimes', 'never']),
      config_optional: flag
    }),
    'What rules can do.'
  ),
  variables: listOf(
    object({
      path: text,
      type: text,
      phases: WHERE,
      optional: { ...flag, description: 'May it be absent?' },
      description: text
    }),
    'What expressions can read.'
  ),
  functions: listOf(
    object({
      signature: text,
      phases: WHERE,
      description: text,
      example: { ...text, description: 'An expression that calls it.' },
      value: { ...text, description: 'The value of the example as JSON.' }
    }),
    'What expressions can call.'
  )
})

export type PolicyCheckView = ValueOf<typeof POLICY_CHECK>
/** Result of `POST /policies/test`. */
export type PolicyTestView = ValueOf<typeof POLICY_TEST>
/** Answer of `GET /policies/language`. */
export type PolicyLanguageView = ValueOf<typeof POLICY_LANGUAGE>
