import {
  count,
  integer,
  listOf,
  object,
  orNull,
  text,
  textOrNull,
  titledObject,
  type ValueOf,
  words
} from '../../schema/answer.js'

const FINDING = object({
  route: { ...text, description: 'Name of the route or site whose policy has the action.' },
  action: text,
  path: { ...text, description: 'Path of the requests; * stands for ids.' },
  rule: { ...integer, description: 'Id of the rule.' },
  message: text,
  variable: { ...text, description: 'The examined variable: ARGS:q.' },
  exchanges: count,
  clients: count,
  denied: { ...count, description: 'Exchanges that the firewall denied, or would have denied if it were enforced.' },
  accepted: { ...count, description: 'Exchanges that the upstream answered with a status below 400.' },
  rejected: { ...count, description: 'Exchanges that the upstream answered with 4xx.' },
  signed_in: { ...count, description: 'Exchanges of clients that a certificate or the policy had verified.' },
  values: listOf(text, 'Examples of values, redacted.'),
  likelihood: words(['likely', 'possible', 'unlikely'], 'How likely the matches are false positives.'),
  reasons: listOf(text, 'Reasons for the likelihood.')
})

const EXCLUSION = object({ when: text, rules: listOf(integer), targets: listOf(text) }, ['when', 'targets'])

const PROPOSAL = object({
  route: { ...text, description: 'Name of the route or site whose policy has the action.' },
  action: { ...text, description: 'Type of the action that gets the exclusions.' },
  source: { ...textOrNull, description: 'Origin of the policy: a file, or a path of this API.' },
  exclusions: listOf(EXCLUSION),
  yaml: { ...text, description: 'The exclusions for the config of the action.' }
})

const COUNTED = object({ before: count, after: count })

const PROOF = object({
  exchanges: { ...count, description: 'Exchanges that were decided without and with the exclusions.' },
  not_judged: {
    ...count,
    description: 'Exchanges that cannot be decided again, such as those whose body was not recorded.'
  },
  denied: { ...COUNTED, description: 'Exchanges that the firewall denies, or would deny if it were enforced.' },
  hostile: {
    ...COUNTED,
    description:
      'Those of them that look like attacks: of scanners, or with a score that reaches the threshold without the excluded matches.'
  }
})

/** Rules of the firewall that matched in past exchanges, and exclusions for false positives. */
export const WAF_REPORT = titledObject('WafReport', {
  rules: {
    ...orNull(object({ name: text, size: count, digest: { ...text, description: 'SHA-256 of the rules, hex.' } })),
    description: 'The rules of the process; null without the option waf.rules.'
  },
  exchanges: count,
  clients: count,
  from: textOrNull,
  to: textOrNull,
  matched: { ...count, description: 'Exchanges in which a rule matched.' },
  denied: { ...count, description: 'Exchanges that the firewall denies, or would deny if it were enforced.' },
  not_judged: {
    ...count,
    description: 'Exchanges that cannot be decided again; of these the recorded matches count.'
  },
  findings: listOf(FINDING, 'Likely false positives first.'),
  omitted: { ...count, description: 'Findings that are not listed.' },
  proposals: listOf(PROPOSAL),
  withheld: listOf(
    object({ route: text, action: text, yaml: text, releases: count }),
    'Exclusions that would let exchanges pass that look like attacks, and how many.'
  ),
  proof: { ...orNull(PROOF), description: 'The exchanges without and with the exclusions; null: not requested.' }
})

export type WafReport = ValueOf<typeof WAF_REPORT>
