import type { Flow } from '../../flow/flow.js'
import { refuse, type Verdict } from '../../flow/verdict.js'
import { defineErrors } from '../../lib/errors.js'
import { defineAction } from '../../policy/action.js'
import { config, enforce } from '../../policy/fields.js'
import { policyErrors } from '../../policy/problems.js'
import { templateLike } from '../../schema/editor.js'
import { either, list, object, optional, template, text } from '../../schema/values.js'
import { allowOrBlock, defineFeature, lastResults } from '../contract.js'
import {
  comparePlain,
  compileFields,
  compilePair,
  type HashedCredential,
  type Presented,
  presentedIn
} from './credentials.js'
import { BUSY, type HashChecker, hashChecker } from './hash-checker.js'
import { compileUserFile } from './user-file.js'

/** Error codes of the action basic-auth. */
const basicAuthErrors = defineErrors({
  BASIC_AUTH: {
    status: 401,
    text: 'User name or password are missing or wrong.',
    help: 'Send credentials that the policy names.'
  },
  BASIC_AUTH_BUSY: {
    status: 503,
    text: 'Too many passwords are being checked, so this one was not.',
    help: 'Try again; a rate-limit before the action keeps clients from guessing.'
  }
})

const NO_USERS: ReadonlyMap<string, string> = new Map()
/** Maximum number of users in a document; use a file for more. */
const MAX_CREDENTIALS = 1_000

const PRINTABLE = /^[\x20-\x7e]*$/

const pair = template({
  description:
    'user:password, or user:hash as htpasswd writes it; the first colon splits. ${…} may give either half or the whole.',
  editor: templateLike('^[^:]+:[\\s\\S]{8,128}$')
})
const fields = object(
  {
    username: template({ description: 'User name; holds no colon.', editor: templateLike('^[^:]+$') }),
    password: optional(
      template({ description: 'Password, 8 to 128 characters.', editor: templateLike('^[\\s\\S]{8,128}$') })
    ),
    password_hash: optional(
      template({ description: 'In its place the hash of one: bcrypt, argon2id or apr1, from `sluice hash-password`.' })
    )
  },
  { description: 'A user name with its password, or the hash of one.' }
)

/** Requires a user name and password (RFC 7617). Compares every accepted credential in constant time. */
const action = defineAction({
  type: 'basic-auth',
  summary: 'Asks for a user name and a password (RFC 7617).',
  example: {
    policy: `on_http_request:
  - expressions: ["req.url.path.startsWith('/admin')"]
    actions:
      - type: basic-auth
        config:
          realm: staff
          credentials: ['anna:correct-horse-battery']
`,
    request: 'GET /admin',
    status: 401
  },
  phases: ['on_http_request'],
  config: config({
    credentials: optional(
      list(either([pair, fields], { description: 'A user name with its password, in one text or in two.' }), {
        description: 'Who may pass.',
        min: 1,
        max: MAX_CREDENTIALS
      })
    ),
    file: optional(
      text({
        description:
          'Further users, from a file of htpasswd in a folder that the operator allows (jwt.key_folders); a change of the file counts after about ten seconds.',
        max: 4096
      })
    ),
    realm: optional(
      text({
        description: 'Shown by clients that ask for the password; ASCII.',
        max: 128,
        default: 'sluice',
        editor: { pattern: PRINTABLE.source }
      })
    ),
    enforce: enforce()
  }),
  configOptional: false,
  terminates: 'sometimes',
  denies: ({ enforce = true }) => enforce,
  leaves: ({ enforce = true }) => ['actions.service.basic_auth', ...(enforce ? ['req.headers["authorization"]'] : [])],
  results: {
    name: 'basic_auth',
    fields: {
      'credentials.presented': ['bool', 'Did the request bring a user name and a password?'],
      'credentials.username': ['string', 'The user name that it brought, right or wrong.'],
      'credentials.authorized': ['bool', 'May the user pass?']
    }
  },
  compile({ credentials = [], file, realm = 'sluice', enforce = true }, scope) {
    if (!PRINTABLE.test(realm))
      scope.problem(['realm'], policyErrors.CONFIG_INVALID, 'a realm holds printable ASCII characters only')
    if (credentials.length === 0 && file === undefined)
      scope.problem([], policyErrors.CONFIG_INVALID, 'basic-auth needs credentials or a file')
    const accepted = credentials.map((credential, i) =>
      typeof credential === 'string'
        ? compilePair(credential, ['credentials', i], scope)
        : compileFields(credential, ['credentials', i], scope)
    )
    const users = file === undefined ? undefined : compileUserFile(file, ['file'], scope)
    const checker = scope.service(hashChecker)
    const challenge = challengeFor(realm)
    const settle = (flow: Flow, presented: Presented | undefined, found: boolean | typeof BUSY) => {
      flow.publish('basic_auth', outcome(presented, found === true))
      if (found === true || !enforce) return undefined
      return found === BUSY ? refuse(basicAuthErrors.BASIC_AUTH_BUSY, ['retry-after', '1']) : challenge
    }
    return (flow) => {
      const values = flow.request?.headers.values('authorization') ?? []
      const presented = values.length === 1 ? presentedIn(values[0] as string) : undefined
      if (presented === undefined) return settle(flow, undefined, false)
      const { matches, hashed } = comparePlain(presented, accepted, flow)
      const inFile = users?.current() ?? NO_USERS
      if (matches || (hashed.length === 0 && inFile.size === 0)) return settle(flow, presented, matches)
      const found = checkHashed(presented, hashed, inFile, checker)
      return found === true ? settle(flow, presented, true) : found.then((result) => settle(flow, presented, result))
    }
  }
})

/**
 * Checks a password against the user's hash. For an unknown user it checks another hash and fails, so that the time does not reveal which
 * users exist.
 */
function checkHashed(
  { username, password }: Presented,
  hashed: readonly HashedCredential[],
  inFile: ReadonlyMap<string, string>,
  checker: HashChecker
): true | Promise<boolean | typeof BUSY> {
  const mine = hashed.find((one) => one.username === username)?.hash ?? inFile.get(username)
  const [other = ''] = hashed.length > 0 ? hashed.map(({ hash }) => hash) : inFile.values()
  const found = checker.check(password, mine ?? other, mine === undefined ? undefined : username)
  if (mine !== undefined) return found
  return found === true ? Promise.resolve(false) : found.then((result) => (result === BUSY ? BUSY : false))
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
  return refuse(basicAuthErrors.BASIC_AUTH, ['www-authenticate', `Basic realm="${quoted}", charset="UTF-8"`])
}

/** Action basic-auth with its codes and event fields. */
export const basicAuth = defineFeature({
  name: 'basic-auth',
  summary: 'Asks for a user name and a password.',
  actions: [action],
  eventFields: {
    http: {
      'basic_auth.decision': {
        type: 'string',
        description: 'allow or block, by the action basic-auth; null when it did not run.',
        read: ({ flow }) => allowOrBlock(lastResults(flow, 'basic_auth')?.['credentials.authorized'])
      },
      'basic_auth.username': {
        type: 'string',
        description: 'User name that was presented, right or wrong; null when there was none.',
        read: ({ flow }) => {
          const found = lastResults(flow, 'basic_auth')
          return found?.['credentials.presented'] === true ? found['credentials.username'] : null
        }
      }
    }
  },
  errors: [basicAuthErrors]
})
