import { refuse } from '../flow/verdict.js'
import { defineErrors } from '../lib/errors.js'
import { compileRegex, type Regex } from '../lib/regex.js'
import { decisionCounters } from '../policy/services.js'
import { texts } from '../schema/fields.js'
import type { RuleView } from '../schema/objects.js'
import { defineFeature, defineModule } from './contract.js'

/** Codes of the module user_agent_filter. */
const userAgentErrors = defineErrors({
  USER_AGENT_REFUSED: {
    status: 403,
    text: 'The filter of user agents excludes the client.',
    help: 'Look at allow and deny of the module if the client should have access.'
  }
})

/** No client has a longer name, and fifty patterns over a whole header block would hold up everybody else. */
const LONGEST = 2_048
/** Steps that all patterns together may take for one name: some ten milliseconds. */
const MAX_STEPS = 300_000
/** Names whose fate is remembered; clients of one route have few, and what they make up must not grow it. */
const REMEMBERED = 256
const LONGEST_REMEMBERED = 256
const NAMELESS = ['']
const REFUSED = refuse(userAgentErrors.USER_AGENT_REFUSED)

const patterns = (description: string) =>
  texts({ description, item: 'A pattern.', form: 'regex', bytes: 1024, max: 50 })

/**
 * Refuses requests whose `User-Agent` one of the `deny` patterns matches, unless one of `allow` does, names longer than 2,048
 * characters, and those for which the patterns take too many steps. A request without the field has the name ''; of several fields each one counts.
 */
const routeModule = defineModule({
  name: 'user_agent_filter',
  description: 'Lets user agents pass or refuses them by patterns of their name.',
  on: ['https'],
  fields: {
    allow: patterns('Regular expressions (RE2); what one matches may pass, whatever deny says. Needs deny.'),
    deny: patterns('Regular expressions (RE2); what one matches is refused, unless one of allow matches.')
  },
  rules: [{ on: ['allow', 'deny'], check: exceptions }],
  compile(config, { owner, services }) {
    const [allow, deny] = [config.allow.map(compiled), config.deny.map(compiled)]
    const refuses = remembering((name) => {
      if (name.length > LONGEST) return true
      const meter = { budget: MAX_STEPS }
      // What is not known before the steps are used up counts against the client.
      const denied = deny.some((pattern) => pattern.testWithin(name, meter) !== false)
      return denied && !allow.some((pattern) => pattern.testWithin(name, meter) === true)
    })
    // Without a pattern that denies, no request is refused.
    if (deny.length === 0) return {}
    const counters = decisionCounters(services.meter, owner, 'user_agent_filter', ['allow', 'deny'])
    return {
      request: ({ request }) => {
        const names = request?.headers.values('user-agent') ?? NAMELESS
        const refused = (names.length === 0 ? NAMELESS : names).some(refuses)
        counters[refused ? 'deny' : 'allow'].inc()
        return refused ? REFUSED : undefined
      }
    }
  }
})

function remembering(refuses: (name: string) => boolean): (name: string) => boolean {
  const known = new Map<string, boolean>()
  return (name) => {
    const remembered = known.get(name)
    if (remembered !== undefined) return remembered
    const refused = refuses(name)
    if (known.size < REMEMBERED && name.length <= LONGEST_REMEMBERED) known.set(name, refused)
    return refused
  }
}

/** The resource has accepted the pattern, with the same compiler. */
function compiled(pattern: string): Regex {
  const result = compileRegex(pattern)
  if (!result.ok) throw new Error(`a pattern of a user agent filter does not compile: ${result.message}`)
  return result.regex
}

/** Patterns that allow are exceptions: alone they would look like a list of those who may pass, and let everybody pass. */
function exceptions({ body, report }: RuleView): void {
  const [allow, deny] = [body.allow, body.deny] as (readonly string[])[]
  if (allow?.length === 0 || deny?.length !== 0) return
  report('deny', 'FIELD_REQUIRED', 'is required with allow, which only makes exceptions; ".*" refuses everybody else')
}

export const userAgentFilter = defineFeature({
  name: 'user-agent-filter',
  summary: 'Refuses requests by patterns of their user agent.',
  modules: [routeModule],
  errors: [userAgentErrors]
})
