import { texts } from '../fields.js'
import type { RuleView } from '../members.js'
import { module } from '../objects.js'

const patterns = (description: string) => texts({ description, form: 'regex', bytes: 1024, max: 50 })

/** Refuses user agents by their name. */
export function userAgentFilterModule() {
  return module(
    'Lets user agents pass or refuses them by patterns of their name.',
    {
      allow: patterns('Regular expressions (RE2); what one matches may pass, whatever deny says. Needs deny.'),
      deny: patterns('Regular expressions (RE2); what one matches is refused, unless one of allow matches.')
    },
    [{ on: ['allow', 'deny'], check: exceptions }]
  )
}

/** Patterns that allow are exceptions: alone they would look like a list of those who may pass, and let everybody pass. */
function exceptions({ body, report }: RuleView): void {
  const [allow, deny] = [body.allow, body.deny] as (readonly string[])[]
  if (allow?.length === 0 || deny?.length !== 0) return
  report('deny', 'FIELD_REQUIRED', 'is required with allow, which only makes exceptions; ".*" refuses everybody else')
}
