import { config, enforce } from '../../policy/fields.js'
import { choice, either, expression, flag, integer, list, object, optional, text } from '../../schema/values.js'

/** Maximum of `body_limit` (bytes). */
export const MAX_BODY = 131_072

const rule = either(
  [
    integer({ description: 'Id of a rule.', min: 900_000, max: 999_999 }),
    text({ description: 'All rules with a tag: `tag:attack-sqli`.', min: 5, max: 128, pattern: '^tag:.+$' })
  ],
  { description: 'A rule by its id, or all with a tag.' }
)

const exclusion = object(
  {
    when: optional(expression({ description: 'CEL: the exclusion holds only for these requests. Default: for all.' })),
    rules: list(rule, { description: 'Rules that the exclusion is about.', min: 1, max: 100 }),
    targets: optional(
      list(text({ description: 'A variable of the rules: `ARGS:q`.', min: 1, max: 256 }), {
        description: 'Values that the rules do not examine. Default: the rules are not evaluated at all.',
        min: 1,
        max: 100
      })
    )
  },
  { description: 'Rules that match harmless messages.' }
)

/** Config of both actions. */
export const wafConfig = config({
  on_error: optional(
    choice(['halt', 'continue'], {
      description: 'continue: a denial or failure is published in the results, and the exchange continues.',
      default: 'halt'
    })
  ),
  process_body: optional(flag({ description: 'Examine the beginning of the body too.', default: false })),
  exclude_rule_ids: optional(
    list(integer({ description: 'Id of a rule.', min: 900_000, max: 999_999 }), {
      description: 'Rules that are not evaluated.',
      max: 1_000
    })
  ),
  enforce: enforce(),
  paranoia: optional(
    integer({
      description:
        'Paranoia level: higher ones evaluate more rules, which also match more harmless messages. Default: that of crs-setup.conf, or 1.',
      min: 1,
      max: 4
    })
  ),
  threshold: optional(
    integer({
      description:
        'Score at which a message is denied. Default: that of crs-setup.conf, or 5 for requests and 4 for responses.',
      min: 1,
      max: 100_000
    })
  ),
  body_limit: optional(
    either(
      [
        integer({ description: 'Bytes.', min: 1, max: MAX_BODY }),
        text({ description: 'A size such as 16KiB.', pattern: '^[0-9]+ ?(?:[KM]iB|B)?$', max: 16 })
      ],
      { description: 'How much of the beginning of a body is examined: bytes, or a size up to 128KiB. Default: 4KiB.' }
    )
  ),
  exclusions: optional(
    list(exclusion, { description: 'Rules that some messages or values are exempt from.', max: 200 })
  )
})
