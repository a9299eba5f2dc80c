import {
  type Draft,
  integer,
  listOf,
  mapOf,
  object,
  orNull,
  text,
  textOrNull,
  time,
  titledObject,
  type ValueOf,
  words
} from '../../schema/answer.js'

const PLACE = object({ line: integer, column: integer })
const FIELDS = listOf(text, 'Names and values by turns.')
const MISSING = { ...text, description: 'Why there is no value.' }

const PART = object({ offset: integer, length: integer, value: {}, missing: MISSING, times: integer }, [
  'value',
  'missing',
  'times'
])

const EXPRESSION = object(
  {
    source: text,
    place: orNull(PLACE),
    value: { description: 'Left out when there is none.' },
    missing: MISSING,
    parts: listOf(
      PART,
      'The values of its parts; offsets are UTF-16 units of the source. A part that was not evaluated is not here.'
    )
  },
  ['value', 'missing']
)

const ACTION = object(
  {
    type: text,
    place: PLACE,
    outcome: words(['continued', 'ended', 'failed']),
    reason: text,
    published: mapOf(undefined, 'What it published, by the name of the result.'),
    edits: listOf(object({ of: text, before: {}, after: {} }), 'What it changed; null: it was not there, or is not.'),
    expressions: listOf(EXPRESSION, 'What it evaluated.')
  },
  ['reason']
)

const RULE = object(
  {
    name: text,
    place: PLACE,
    outcome: words(['matched', 'not_matched', 'absent', 'failed', 'not_reached']),
    reason: text,
    expressions: listOf(EXPRESSION, 'In their order, up to the one that decided.'),
    actions: listOf(ACTION, 'Those that ran.')
  },
  ['reason']
)

const PHASE = object({ phase: text, owner: text, rules: listOf(RULE, 'All rules of the phase.') })

const STEP = titledObject(
  'ExplainedStep',
  {
    module: text,
    owner: { ...text, description: 'Id of the route or edge.' },
    on: words(['connect', 'request', 'response']),
    outcome: words(['continued', 'responded', 'closed', 'led_on', 'not_judged']),
    reason: { ...text, description: 'Why it was not judged.' },
    phases: listOf(PHASE, 'What a traffic policy ran.')
  },
  ['reason']
)

const POLICY = {
  owner: { ...text, description: 'Id of the route or edge; default: the policy that the options name.' },
  source: { ...text, description: 'Where the text is, for people: a file or a URI.' },
  digest: { ...text, description: 'SHA-256 of the text, hex: another one means that the text has changed.' }
} as const

const MATCH = words(['exact', 'prefix'])

/** The decision on one exchange. */
export const DECISION = object({
  outcome: words(['forwarded', 'answered', 'closed']),
  status: { ...integer, description: '0: no answer.' },
  code: textOrNull,
  reason: {
    ...textOrNull,
    description: 'Why it was refused or failed, in one sentence; null: it passed.'
  },
  by: orNull(object({ phase: text, rule: text, action: text }))
})

/** Results of the actions of the web application firewall. */
export const WAF_RESULTS = listOf(
  object({
    action: text,
    owner: { ...text, description: 'Id of the route or edge whose policy has the action.' },
    path: { ...text, description: 'Path of the request as the policy saw it.' },
    decision: { ...text, description: 'allow, deny, would_deny or error.' },
    score: integer,
    threshold: integer,
    digest: { ...text, description: 'SHA-256 of the rules, hex.' },
    rules: listOf(
      object({
        id: integer,
        message: text,
        severity: text,
        score: { ...integer, description: 'How much the rule added.' },
        variable: { ...text, description: 'The examined variable: ARGS:q.' },
        value: { ...text, description: 'Its value after the transformations.' },
        transformations: listOf(text)
      }),
      'The rules that matched.'
    ),
    omitted: { ...integer, description: 'How many more rules matched.' }
  }),
  'What the web application firewall found; empty if no rule matched.'
)

/** The decision on one request, step by step. */
export const EXPLANATION = {
  ...titledObject(
    'Explanation',
    {
      at: time,
      revision: { ...integer, description: 'Of the configuration that decides.' },
      request: object({ method: text, url: text, client_ip: text, headers: FIELDS }),
      listener: text,
      edge: orNull(object({ id: text, name: text, host: text, port: integer })),
      other_ports: listOf(integer, 'Ports at which edges have the host, where none of them is that of the listener.'),
      route: orNull(object({ id: text, name: text, path: text, match: MATCH })),
      other_routes: listOf(
        object({ id: text, path: text, match: MATCH, why: text }),
        'Routes that did not take it, and why.'
      ),
      steps: listOf(STEP, 'Modules in the order of their run.'),
      policies: listOf(object(POLICY), 'The policies that ran; GET /explain/policies/{owner} has their texts.'),
      decision: DECISION,
      waf: WAF_RESULTS,
      upstream: orNull(object({ backend: text, name: text, form: text, method: text, uri: text, headers: FIELDS })),
      response: orNull(object({ status: integer, headers: FIELDS, body: textOrNull })),
      omitted: { ...integer, description: 'Records that were left out because there were too many.' },
      not_asked: listOf(
        text,
        'Servers that a policy would have asked: it was told that they cannot be reached. Left out for an exchange of a client.'
      )
    },
    ['not_asked']
  ),
  description: 'How one request is decided. What sounds like a secret is [redacted].'
}

/** Explanations of imagined requests. */
export const EXPLANATION_LIST = titledObject('ExplanationList', {
  explanations: listOf(EXPLANATION, 'One for each request.')
})

/** The text of a policy that serves. */
export const EXPLAINED_POLICY = titledObject('ExplainedPolicy', { ...POLICY, text })

/** Explanation of one request. */
export type Explanation = ValueOf<typeof EXPLANATION>
export type ExplainedPolicy = ValueOf<typeof EXPLAINED_POLICY>
type ExplainedStep = ValueOf<typeof STEP>
export type ExplainedPhase = ValueOf<typeof PHASE>
export type ExplainedRule = ValueOf<typeof RULE>
/** Result of one action of the web application firewall. */
export type WafResult = Explanation['waf'][number]
/** One action that ran. */
export type ExplainedAction = ValueOf<typeof ACTION>
/** One expression with the values of its parts. */
export type ExplainedExpression = ValueOf<typeof EXPRESSION>
export type ExplainedPart = ValueOf<typeof PART>
/** An explained step under construction. */
export type StepDraft = Draft<ExplainedStep>
