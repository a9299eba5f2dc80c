import { refuse } from '../flow/verdict.js'
import { defineErrors } from '../lib/errors.js'
import { compileRegex, type Regex } from '../lib/regex.js'
import { decisionCounters } from '../policy/services.js'
import { texts } from '../schema/fields.js'
import type { RuleView } from '../schema/objects.js'
import { defineFeature, defineModule } from './contract.js'

/** Error codes of the module user_agent_filter. */
const userAgentErrors = defineErrors({
  USER_AGENT_REFUSED: {
    status: 403,
    text: 'The filter of user agents excludes the client.',
    help: 'Look at allow and deny of the module if the client should have access.'
  }
})

/** Maximum length of a name: no client has a longer one, and fifty patterns over a complete header would block other requests. */
const LONGEST = 2_048
/** Maximum steps of all patterns for one name: about ten milliseconds. */
const MAX_STEPS = 300_000
/** Maximum number of cached names; clients of a route have few, and invented ones must not grow the cache. */
const REMEMBERED = 256
/** Maximum length of a cached name. */
const LONGEST_REMEMBERED = 256
/** Names of a request without the field. */
const NAMELESS = ['']
/** Verdict for a refused name. */
const REFUSED = refuse(userAgentErrors.USER_AGENT_REFUSED)

const patterns = (description: string) =>
  texts({ description, item: 'A pattern.', form: 'regex', bytes: 1024, max: 50 })

/**
 * Refuses requests whose `User-Agent` matches a `deny` pattern and no `allow` pattern, names longer than 2,048 characters, and names that
 * exceed the step limit. Without the field the name is ''; each of several fields is checked.
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
      // An undecided name at the step limit is refused.
      const denied = deny.some((pattern) => pattern.testWithin(name, meter) !== false)
      return denied && !allow.some((pattern) => pattern.testWithin(name, meter) === true)
    })
    // Without a `deny` pattern no request is refused.
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

/** Compiles a pattern that the resource has validated with the same compiler. */
function compiled(pattern: string): Regex {
  const result = compileRegex(pattern)
  if (!result.ok) throw new Error(`a pattern of a user agent filter does not compile: ${result.message}`)
  return result.regex
}

/** Rejects `allow` without `deny`: allow patterns are exceptions, and alone would look like an allowlist but admit all. */
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
