import { POLICY_CHECK_SCHEMA, POLICY_TEST_SCHEMA } from '../control/policies.js'
import { integer, listOf, object, orNull, ref, text, titledObject } from '../schema/answer.js'
import { answer, operation, type Paths } from './openapi-parts.js'
import { POLICY_CHECK_PATH, POLICY_LANGUAGE_PATH, POLICY_TEST_PATH } from './policy-routes.js'

const TAG = 'Policies'

const PLACE = { path: text, line: integer, column: integer }
const WHERE = { ...text, enum: ['all', 'http', 'response'], description: 'The phases in which it has a meaning.' }

const CHECK = titledObject('PolicyCheck', {
  valid: { type: 'boolean', description: 'Can it serve?' },
  problems: listOf(
    object({ severity: { ...text, enum: ['error', 'warning'] }, code: text, message: text, ...PLACE, length: integer }),
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

const TESTS = titledObject('PolicyTest', {
  passed: integer,
  failed: integer,
  cases: listOf(object({ name: text, line: integer, passed: { type: 'boolean' }, failure: orNull(FAILURE) }), ''),
  problems: listOf(FAILURE, 'Why they were not run, or not to their end.')
})

const LANGUAGE = titledObject('PolicyLanguage', {
  schema: { type: 'object', description: 'JSON Schema (2020-12) of documents, as "sluice schema" prints it.' },
  actions: listOf(
    object({
      type: text,
      summary: text,
      phases: listOf(text, ''),
      terminates: { ...text, enum: ['always', 'sometimes', 'never'] },
      config_optional: { type: 'boolean' }
    }),
    'What rules can do.'
  ),
  variables: listOf(
    object({
      path: text,
      type: text,
      phases: WHERE,
      optional: { type: 'boolean', description: 'May it be absent?' },
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

/** Adds what is done with policies that serve nowhere yet; answers its tag. */
export function describePolicies(paths: Paths, schemas: Record<string, object>): object {
  Object.assign(schemas, {
    PolicyCheckRequest: POLICY_CHECK_SCHEMA,
    PolicyTestRequest: POLICY_TEST_SCHEMA,
    PolicyCheck: CHECK,
    PolicyTest: TESTS,
    PolicyLanguage: LANGUAGE
  })
  paths[POLICY_CHECK_PATH] = {
    post: operation('policy_check', TAG, 'Checks a traffic policy as "sluice check" does. Nothing is written.', {
      body: ref('PolicyCheckRequest'),
      responses: { 200: answer('What is wrong, and what it warns of.', ref('PolicyCheck')) }
    })
  }
  paths[POLICY_TEST_PATH] = {
    post: operation('policy_test', TAG, 'Runs tests on a traffic policy as "sluice test" does. Nothing is sent.', {
      body: ref('PolicyTestRequest'),
      responses: { 200: answer('What came of each case.', ref('PolicyTest')) }
    })
  }
  paths[POLICY_LANGUAGE_PATH] = {
    get: operation('policy_language', TAG, 'What traffic policies can say, for editors.', {
      responses: { 200: answer('The language.', ref('PolicyLanguage')) }
    })
  }
  return { name: TAG, description: 'Traffic policies before they serve.' }
}
