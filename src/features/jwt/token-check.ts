import type { Template } from '../../expression/expression.js'
import type { BodyBuffers } from '../../flow/body-buffers.js'
import { type Flow, flowSlot } from '../../flow/flow.js'
import type { Verdict } from '../../flow/verdict.js'
import { formFieldsCalled } from '../../lib/form-fields.js'
import { JsonValue, jsonMembers } from '../../lib/json-members.js'
import { appendTo } from '../../lib/lists.js'
import { Passes, Slices, type Steps } from '../../lib/slices.js'
import { isUtf8Throughout } from '../../lib/utf8-text.js'
import type { Scope } from '../../policy/action.js'
import { type ClaimRules, claimsProblem, type JwtConfig } from './config.js'
import { type JwtProblem, MAX_DEPTH, type Token } from './token.js'
import type { TokenVerifier, Verified } from './verifier.js'

/** Text of a token, or why it is missing. */
type Found = { readonly text: string } | { readonly problem: JwtProblem }

/** Name and prefix of a token's location. */
interface Place {
  readonly name: Template
  readonly prefix: Template | undefined
}

/** Values of a body by lower-case name, or a problem. */
type Members = ReadonlyMap<string, readonly (string | JsonValue)[]> | JwtProblem

/** Flow slot for members of the body, with their names and source bytes. */
const bodyMembers = flowSlot<{ readonly bytes: Uint8Array; readonly wanted: string; readonly members: Members }>(
  'jwt.body'
)
const BODY_METHODS = new Set(['POST', 'PUT', 'PATCH'])
const MEDIA_TYPE = /^(application\/json|application\/x-www-form-urlencoded)[ \t]*(?:;|$)/i

/** Returns the token in a header. A repeated header is refused: the upstream might use the other one. */
function tokenInHeader({ name, prefix }: Place, flow: Flow): Found {
  const values = flow.request?.headers.values(name.text(flow)) ?? []
  if (values.length > 1) return { problem: 'JWT_REPEATED' }
  return stripped(values[0], prefix, flow)
}

/** Returns the members of a body with these lower-case names, read once for all tokens, or a verdict. */
async function membersOfBody(flow: Flow, bodies: BodyBuffers, names: ReadonlySet<string>): Promise<Members | Verdict> {
  const { request } = flow
  if (request === undefined || !BODY_METHODS.has(request.method)) return 'JWT_BODY_METHOD'
  const types = request.headers.values('content-type')
  const type = MEDIA_TYPE.exec(types.length === 1 ? (types[0] as string) : '')?.[1]
  const coding = request.headers.get('content-encoding')
  if (type === undefined || (coding !== undefined && coding.toLowerCase() !== 'identity')) return 'JWT_BODY_TYPE'
  const bytes = await bodies.request(flow)
  if (!(bytes instanceof Uint8Array)) return bytes
  const known = flow.get(bodyMembers)
  const wanted = JSON.stringify([...names])
  if (known?.bytes === bytes && known.wanted === wanted) return known.members
  const isJson = type.toLowerCase() === 'application/json'
  const members = await new Slices().run(isJson ? readJson(bytes, names) : readForm(bytes, names))
  flow.set(bodyMembers, { bytes, wanted, members })
  return members
}

/** Returns the token in a body. Names are case-insensitive, and a repeated one is refused. */
async function tokenInBody({ name, prefix }: Place, members: Members, flow: Flow): Promise<Found> {
  if (typeof members === 'string') return { problem: members }
  const values = members.get(name.text(flow).toLowerCase()) ?? []
  if (values.length > 1) return { problem: 'JWT_REPEATED' }
  const [found] = values
  const value = found instanceof JsonValue ? ((await new Slices().run(found.scalar())) ?? found) : found
  return value === undefined || typeof value === 'string' ? stripped(value, prefix, flow) : { problem: 'JWT_MALFORMED' }
}

function stripped(value: string | undefined, prefix: Template | undefined, flow: Flow): Found {
  if (value === undefined || value === '') return { problem: 'JWT_MISSING' }
  if (prefix === undefined) return { text: value }
  const before = prefix.text(flow)
  // RFC 9110 11.1: the Authorization scheme is case-insensitive.
  if (value.slice(0, before.length).toLowerCase() !== before.toLowerCase()) return { problem: 'JWT_PREFIX' }
  const text = value.slice(before.length).trim()
  return text === '' ? { problem: 'JWT_MISSING' } : { text }
}

function* byLowerCase<V extends string | JsonValue>(
  entries: readonly (readonly [string, V])[],
  names: ReadonlySet<string>
): Steps<Members> {
  const members = new Map<string, V[]>()
  const passes = new Passes()
  for (const [written, value] of entries) {
    if (passes.due()) yield
    const name = written.toLowerCase()
    if (names.has(name)) appendTo(members, name, value)
  }
  return members
}

function* readJson(bytes: Uint8Array, names: ReadonlySet<string>): Steps<Members> {
  const members = yield* jsonMembers(bytes, { called: [...names], depth: MAX_DEPTH })
  return members === undefined ? 'JWT_BODY_JSON' : yield* byLowerCase(members, names)
}

function* readForm(bytes: Uint8Array, names: ReadonlySet<string>): Steps<Members> {
  if (!(yield* isUtf8Throughout(bytes))) return 'JWT_BODY_FORM'
  return yield* byLowerCase(yield* formFieldsCalled(bytes, [...names]), names)
}

/** Checked token of a request. */
export interface Checked {
  readonly location: 'header' | 'body'
  readonly property: string
  /** The parsed part of the token. */
  readonly token: Token | undefined
  readonly problem: JwtProblem | undefined
}

/** Finds and checks one token. Returns a verdict if its body is unavailable. Throws `EvaluationError`. */
export type TokenCheck = (flow: Flow) => Checked | Promise<Checked | Verdict>

interface TokenCheckParts {
  readonly verifier: TokenVerifier
  readonly rules: (flow: Flow) => ClaimRules
  readonly scope: Scope
}

type TokenConfig = JwtConfig['http']['tokens'][number]

/** Compiles the tokens, those in headers first: a request without them is refused before its body is read. */
export function compileTokens(tokens: readonly TokenConfig[], parts: TokenCheckParts): readonly TokenCheck[] {
  const inBody: Template[] = []
  const compiled = tokens.map((token, i) => ({ method: token.method, check: compileToken(token, i, parts, inBody) }))
  return ['header', 'body'].flatMap((method) => compiled.flatMap((one) => (one.method === method ? [one.check] : [])))
}

/** Compiles a token. `inBody`: names of the action's tokens in bodies, to which this one is added. */
function compileToken(
  token: TokenConfig,
  index: number,
  { verifier, rules, scope }: TokenCheckParts,
  inBody: Template[]
): TokenCheck {
  const at = ['http', 'tokens', index]
  const place: Place = {
    name: scope.template(token.name, [...at, 'name']),
    prefix: token.prefix === undefined ? undefined : scope.template(token.prefix, [...at, 'prefix'])
  }
  const { bodies, clock } = scope.services
  const { type, method: location } = token
  const judge = ({ token, problem }: Verified, flow: Flow): Checked => ({
    location,
    property: place.name.text(flow),
    token,
    problem: problem ?? claimsProblem(token as Token, type, rules(flow), clock.wall() / 1_000)
  })
  const check = (found: Found, flow: Flow): Checked | Promise<Checked> => {
    if ('problem' in found) return judge({ token: undefined, problem: found.problem }, flow)
    const verified = verifier.verify(found.text, flow)
    return verified instanceof Promise ? verified.then((late) => judge(late, flow)) : judge(verified, flow)
  }
  if (location === 'header') return (flow) => check(tokenInHeader(place, flow), flow)
  inBody.push(place.name)
  return async (flow) => {
    const names = new Set(inBody.map((name) => name.text(flow).toLowerCase()))
    const members = await membersOfBody(flow, bodies, names)
    return typeof members === 'object' && 'kind' in members
      ? members
      : check(await tokenInBody(place, members, flow), flow)
  }
}
