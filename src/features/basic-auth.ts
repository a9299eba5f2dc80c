import { createHash, timingSafeEqual } from 'node:crypto'
import { EvaluationError } from '../expression/expression.js'
import type { Flow } from '../flow/flow.js'
import { refuse, type Verdict } from '../flow/verdict.js'
import { defineErrors } from '../lib/errors.js'
import { defineAction, type Scope } from '../policy/action.js'
import { config, enforce } from '../policy/fields.js'
import { type NodePath, policyErrors } from '../policy/problems.js'
import { templateLike } from '../schema/editor.js'
import { either, list, object, optional, template, text } from '../schema/values.js'
import { allowOrBlock, defineFeature, lastResults } from './contract.js'

/** Codes of the action basic-auth. */
const basicAuthErrors = defineErrors({
  BASIC_AUTH: {
    status: 401,
    text: 'User name or password are missing or wrong.',
    help: 'Send credentials that the policy names.'
  }
})

const MIN_PASSWORD = 8
const MAX_PASSWORD = 128
const COLON = 0x3a
const BASIC = /^basic +([A-Za-z0-9+/]+={0,2})$/i

/** What a request presented: the user name as text, and the digest of `user:password`. */
interface Presented {
  readonly username: string
  readonly digest: Uint8Array
}

/** One accepted credential: the digest of its `user:password`. Throws `EvaluationError`. */
type Credential = (flow: Flow) => Uint8Array

/**
 * Reads an `Authorization` value of the scheme Basic (RFC 7617 2): base64 of `user:password`, the first colon splits.
 * Undefined when it is none. The bytes are compared, not a decoded text, so that invalid UTF-8 equals only itself.
 */
function presentedIn(authorization: string): Presented | undefined {
  const encoded = BASIC.exec(authorization)?.[1]
  if (encoded === undefined) return undefined
  const bytes = Buffer.from(encoded, 'base64')
  const colon = bytes.indexOf(COLON)
  if (colon === -1) return undefined
  return { username: bytes.toString('utf8', 0, colon), digest: digestOf(bytes) }
}

/** Compares digests in a time that says nothing about how much of them is equal. */
function sameDigest(a: Uint8Array, b: Uint8Array): boolean {
  return timingSafeEqual(a, b)
}

/** Compiles `user:password`; no problem and no error repeats any of it. */
function compilePair(source: string, at: NodePath, scope: Scope): Credential {
  const template = scope.template(source, at)
  if (template.constant !== undefined) {
    const refusal = refusalOf(template.constant)
    if (refusal !== undefined) scope.problem(at, policyErrors.CONFIG_INVALID, refusal)
    return constant(template.constant)
  }
  const colon = colonInText(source)
  if (colon === -1) {
    if (!WHOLE.test(source)) {
      scope.problem(
        at,
        policyErrors.CONFIG_INVALID,
        'a credential is user:password; write the ":" outside of ${…}, or one ${…} alone'
      )
    }
    return (flow) => digestOfChecked(template.text(flow))
  }
  // The problems of both halves have been reported with the whole.
  const user = scope.services.expressions.template(source.slice(0, colon), scope.phase)
  const password = scope.services.expressions.template(source.slice(colon + 1), scope.phase)
  if (!user.ok || !password.ok) return constant('')
  return (flow) => digestOfHalves(user.value.text(flow), password.value.text(flow))
}

/** Compiles a user name and a password that stand in fields of their own. */
function compileFields(username: string, password: string, at: NodePath, scope: Scope): Credential {
  const user = scope.template(username, [...at, 'username'])
  const secret = scope.template(password, [...at, 'password'])
  if (user.constant !== undefined && (user.constant === '' || user.constant.includes(':'))) {
    scope.problem([...at, 'username'], policyErrors.CONFIG_INVALID, 'a user name is not empty and holds no ":"')
  }
  if (secret.constant !== undefined && !passwordFits(secret.constant)) {
    scope.problem([...at, 'password'], policyErrors.CONFIG_INVALID, PASSWORD_LENGTH)
  }
  if (user.constant !== undefined && secret.constant !== undefined)
    return constant(`${user.constant}:${secret.constant}`)
  return (flow) => digestOfHalves(user.text(flow), secret.text(flow))
}

const WHOLE = /^\$\{.*\}$/s
const PASSWORD_LENGTH = `a password has ${MIN_PASSWORD} to ${MAX_PASSWORD} characters`

function constant(pair: string): Credential {
  const digest = digestOf(Buffer.from(pair, 'utf8'))
  return () => digest
}

function digestOfHalves(user: string, password: string): Uint8Array {
  // Otherwise the end of one half could pass for the beginning of the other.
  if (user.includes(':')) throw new EvaluationError('failed', 'the user name of a credential holds a ":"')
  return digestOfChecked(`${user}:${password}`)
}

function digestOfChecked(pair: string): Uint8Array {
  const refusal = refusalOf(pair)
  if (refusal !== undefined) throw new EvaluationError('failed', refusal)
  return digestOf(Buffer.from(pair, 'utf8'))
}

function refusalOf(pair: string): string | undefined {
  const colon = pair.indexOf(':')
  if (colon < 1) return 'a credential is user:password'
  return passwordFits(pair.slice(colon + 1)) ? undefined : PASSWORD_LENGTH
}

function passwordFits(password: string): boolean {
  return password.length >= MIN_PASSWORD && password.length <= MAX_PASSWORD
}

function digestOf(bytes: Uint8Array): Uint8Array {
  return createHash('sha256').update(bytes).digest()
}

/** Index of the first colon that stands outside of every `${…}`, or -1. */
function colonInText(source: string): number {
  for (let i = 0; i < source.length; i++) {
    if (source[i] === ':') return i
    if (source.startsWith('${', i)) i = endOfExpression(source, i + 2)
  }
  return -1
}

/** Index of the brace that closes an expression; braces in its strings do not count. */
function endOfExpression(source: string, start: number): number {
  let depth = 1
  let quote = ''
  for (let i = start; i < source.length; i++) {
    const character = source[i] as string
    if (quote !== '') {
      if (character === '\\') i++
      else if (character === quote) quote = ''
    } else if (character === '"' || character === "'") quote = character
    else if (character === '{') depth++
    else if (character === '}' && --depth === 0) return i
  }
  return source.length
}

const PRINTABLE = /^[\x20-\x7e]*$/

const pair = template({
  description: 'user:password; the first colon splits. ${…} may give either half or the whole.',
  editor: templateLike('^[^:]+:[\\s\\S]{8,128}$')
})
const fields = object(
  {
    username: template({ description: 'User name; holds no colon.', editor: templateLike('^[^:]+$') }),
    password: template({ description: 'Password, 8 to 128 characters.', editor: templateLike('^[\\s\\S]{8,128}$') })
  },
  { description: 'A user name with its password.' }
)

/** Asks for a user name and a password (RFC 7617). Every accepted credential is compared, in constant time. */
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
    credentials: list(
      either([pair, fields], { description: 'A user name with its password, in one text or in two.' }),
      {
        description: 'Who may pass.',
        min: 1,
        max: 10
      }
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
  results: {
    name: 'basic_auth',
    fields: {
      'credentials.presented': ['bool', 'Did the request bring a user name and a password?'],
      'credentials.username': ['string', 'The user name that it brought, right or wrong.'],
      'credentials.authorized': ['bool', 'May the user pass?']
    }
  },
  compile({ credentials, realm = 'sluice', enforce = true }, scope) {
    if (!PRINTABLE.test(realm))
      scope.problem(['realm'], policyErrors.CONFIG_INVALID, 'a realm holds printable ASCII characters only')
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
  return refuse(basicAuthErrors.BASIC_AUTH, ['www-authenticate', `Basic realm="${quoted}", charset="UTF-8"`])
}

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
