import { answer, operation, type Paths, parametersOf } from '../../api/openapi-parts.js'
import { ACCOUNT_RIGHTS } from '../../control/rights.js'
import { integer, listOf, object, orNull, ref, text } from '../../schema/answer.js'
import { EXPLAIN_SCHEMA } from './explanations.js'
import { EXPLAIN_PATH, EXPLAINED_POLICY_PATH } from './routes.js'

const TAG = 'Explain'

const PLACE = object({ line: integer, column: integer })
const FIELDS = listOf(text, 'Names and values by turns.')
const MISSING = { ...text, description: 'Why there is no value.' }

const EXPRESSION = object(
  {
    source: text,
    place: orNull(PLACE),
    value: { description: 'Left out when there is none.' },
    missing: MISSING,
    parts: listOf(
      object({ offset: integer, length: integer, value: {}, missing: MISSING, times: integer }, [
        'value',
        'missing',
        'times'
      ]),
      'The values of its parts; offsets are UTF-16 units of the source. A part that was not evaluated is not here.'
    )
  },
  ['value', 'missing']
)

const ACTION = object(
  {
    type: text,
    place: PLACE,
    outcome: { ...text, enum: ['continued', 'ended', 'failed'] },
    reason: text,
    published: { type: 'object', description: 'What it published, by the name of the result.' },
    edits: listOf(object({ of: text, before: {}, after: {} }), 'What it changed; null: it was not there, or is not.'),
    expressions: listOf(EXPRESSION, 'What it evaluated.')
  },
  ['reason']
)

const RULE = object(
  {
    name: text,
    place: PLACE,
    outcome: { ...text, enum: ['matched', 'not_matched', 'absent', 'failed', 'not_reached'] },
    reason: text,
    expressions: listOf(EXPRESSION, 'In their order, up to the one that decided.'),
    actions: listOf(ACTION, 'Those that ran.')
  },
  ['reason']
)

const STEP = object(
  {
    module: text,
    owner: { ...text, description: 'Id of the route or edge.' },
    on: { ...text, enum: ['connect', 'request', 'response'] },
    outcome: { ...text, enum: ['continued', 'responded', 'closed', 'led_on', 'not_judged'] },
    reason: { ...text, description: 'Why it was not judged.' },
    phases: listOf(
      object({ phase: text, owner: text, rules: listOf(RULE, 'All rules of the phase.') }),
      'What a traffic policy ran.'
    )
  },
  ['reason']
)

const POLICY = {
  owner: { ...text, description: 'Id of the route or edge; default: the policy that the options name.' },
  source: { ...text, description: 'Where the text is, for people: a file or a URI.' },
  digest: { ...text, description: 'SHA-256 of the text, hex: another one means that the text has changed.' }
} as const

const EXPLANATION = {
  ...object({
    at: { ...text, format: 'date-time' },
    revision: { ...integer, description: 'Of the configuration that decides.' },
    request: object({ method: text, url: text, client_ip: text, headers: FIELDS }),
    listener: text,
    edge: orNull(object({ id: text, host: text, port: integer })),
    other_ports: listOf(integer, 'Ports at which edges have the host, where none of them is that of the listener.'),
    route: orNull(object({ id: text, path: text, match: text })),
    other_routes: listOf(
      object({ id: text, path: text, match: text, why: text }),
      'Routes that did not take it, and why.'
    ),
    steps: listOf(ref('ExplainedStep'), 'Modules in the order of their run.'),
    policies: listOf(object(POLICY), 'The policies that ran; GET /explain/policies/{owner} has their texts.'),
    decision: object({
      outcome: { ...text, enum: ['forwarded', 'answered', 'closed'] },
      status: { ...integer, description: '0: no answer.' },
      code: orNull(text),
      by: orNull(object({ phase: text, rule: text, action: text }))
    }),
    upstream: orNull(object({ backend: text, form: text, method: text, uri: text, headers: FIELDS })),
    response: orNull(object({ status: integer, headers: FIELDS, body: orNull(text) })),
    omitted: { ...integer, description: 'Records that were left out because there were too many.' },
    not_asked: listOf(text, 'Servers that a policy would have asked: it was told that they cannot be reached.')
  }),
  title: 'Explanation',
  description: 'How one request is decided. What sounds like a secret is [redacted].'
}

/** Adds what explains requests; answers its tag. */
export function describeExplanations(paths: Paths, schemas: Record<string, object>): object {
  Object.assign(schemas, {
    ExplainRequest: EXPLAIN_SCHEMA,
    ExplainedStep: { ...STEP, title: 'ExplainedStep' },
    Explanation: EXPLANATION,
    ExplainedPolicy: { ...object({ ...POLICY, text }), title: 'ExplainedPolicy' },
    ExplanationList: {
      ...object({ explanations: listOf(ref('Explanation'), 'One for each request.') }),
      title: 'ExplanationList'
    }
  })
  paths[EXPLAIN_PATH] = {
    post: operation(
      'explain',
      TAG,
      'Says how requests would be decided by what serves, or with other policies. Sends nothing and changes nothing.',
      {
        member: ACCOUNT_RIGHTS.explain.member ? 'any' : 'none',
        body: ref('ExplainRequest'),
        responses: { 200: answer('The explanations.', ref('ExplanationList')) }
      }
    )
  }
  paths[EXPLAINED_POLICY_PATH] = {
    ...parametersOf(EXPLAINED_POLICY_PATH),
    get: operation('getExplainedPolicy', TAG, 'The text of a traffic policy that serves, to which places lead.', {
      member: ACCOUNT_RIGHTS.explain.member ? 'any' : 'none',
      responses: { 200: answer('The text.', ref('ExplainedPolicy')) }
    })
  }
  return { name: TAG, description: 'How requests are decided.' }
}
