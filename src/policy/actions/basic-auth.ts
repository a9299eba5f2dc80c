import Type from 'typebox'
import type { Flow } from '../../flow/flow.js'
import { refuse, type Verdict } from '../../flow/verdict.js'
import { defineAction } from '../action.js'
import { templateLike } from '../editor.js'
import { config, enforce, template, text } from '../fields.js'
import { type Credential, compileFields, compilePair, type Presented, presentedIn, sameDigest } from './credentials.js'

const PRINTABLE = /^[\x20-\x7e]*$/

const pair = template({
  description: 'user:password; the first colon splits. ${…} may give either half or the whole.',
  editor: templateLike('^[^:]+:[\\s\\S]{8,128}$')
})
const fields = config({
  username: template({ description: 'User name; holds no colon.', editor: templateLike('^[^:]+$') }),
  password: template({ description: 'Password, 8 to 128 characters.', editor: templateLike('^[\\s\\S]{8,128}$') })
})

/** Asks for a user name and a password (RFC 7617). Every accepted credential is compared, in constant time. */
export const basicAuth = defineAction({
  type: 'basic-auth',
  phases: ['on_http_request'],
  config: config({
    credentials: Type.Array(Type.Union([pair, fields]), {
      description: 'Who may pass.',
      minItems: 1,
      maxItems: 10
    }),
    realm: Type.Optional(
      text({
        description: 'Shown by clients that ask for the password; ASCII.',
        maxLength: 128,
        default: 'sluice',
        editor: { pattern: PRINTABLE.source }
      })
    ),
    enforce: enforce()
  }),
  configOptional: false,
  terminates: 'sometimes',
  denies: ({ enforce = true }) => enforce,
  results: {
    name: 'basic_auth',
    fields: { 'credentials.presented': 'bool', 'credentials.username': 'string', 'credentials.authorized': 'bool' }
  },
  compile({ credentials, realm = 'sluice', enforce = true }, scope) {
    if (!PRINTABLE.test(realm))
      scope.problem(['realm'], 'CONFIG_INVALID', 'a realm holds printable ASCII characters only')
    const accepted = credentials.map((credential, i) =>
      typeof credential === 'string'
        ? compilePair(credential, ['credentials', i], scope)
        : compileFields(credential.username, credential.password, ['credentials', i], scope)
    )
    const challenge = challengeFor(realm)
    return (flow) => {
      const values = flow.request?.headers.values('authorization') ?? []
      const presented = values.length === 1 ? presentedIn(values[0] as string) : undefined
      const authorized = presented !== undefined && isAccepted(presented, accepted, flow)
      flow.publish('basic_auth', outcome(presented, authorized))
      return authorized || !enforce ? undefined : challenge
    }
  }
})

/** Compares with every credential, so that the time does not tell which one matched. */
function isAccepted(presented: Presented, accepted: readonly Credential[], flow: Flow): boolean {
  let authorized = false
  for (const credential of accepted) {
    if (sameDigest(presented.digest, credential(flow))) authorized = true
  }
  return authorized
}

function outcome(presented: Presented | undefined, authorized: boolean): Readonly<Record<string, unknown>> {
  return {
    'credentials.presented': presented !== undefined,
    'credentials.username': presented?.username ?? '',
    'credentials.authorized': authorized
  }
}

function challengeFor(realm: string): Verdict {
  const quoted = realm.replace(/["\\]/g, '\\$&')
  return refuse(401, 'BASIC_AUTH', ['www-authenticate', `Basic realm="${quoted}", charset="UTF-8"`])
}
