import type { Flow } from '../../flow/flow.js'
import type { Verdict } from '../../flow/verdict.js'
import type { Scope } from '../action.js'
import { type ClaimRules, claimsProblem } from './claims.js'
import type { JwtConfig } from './config.js'
import { type Found, membersOfBody, type Place, tokenInBody, tokenInHeader } from './locations.js'
import type { JwtProblem } from './problems.js'
import type { Token } from './token.js'
import type { TokenVerifier, Verified } from './verifier.js'

/** One token of a request. */
export interface Checked {
  readonly location: 'header' | 'body'
  readonly property: string
  /** As far as it could be read. */
  readonly token: Token | undefined
  readonly problem: JwtProblem | undefined
}

/** Finds and checks one token. A verdict: its body cannot be had, and the exchange ends. Throws `EvaluationError`. */
export type TokenCheck = (flow: Flow) => Checked | Promise<Checked | Verdict>

export interface TokenCheckParts {
  readonly verifier: TokenVerifier
  readonly rules: (flow: Flow) => ClaimRules
  readonly scope: Scope
}

type TokenConfig = JwtConfig['http']['tokens'][number]

/** Compiles the tokens, those in headers first: a request without them is refused before its body is read. */
export function compileTokens(tokens: readonly TokenConfig[], parts: TokenCheckParts): readonly TokenCheck[] {
  const compiled = tokens.map((token, i) => ({ method: token.method, check: compileToken(token, i, parts) }))
  return ['header', 'body'].flatMap((method) => compiled.flatMap((one) => (one.method === method ? [one.check] : [])))
}

function compileToken(token: TokenConfig, index: number, { verifier, rules, scope }: TokenCheckParts): TokenCheck {
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
  return async (flow) => {
    const members = await membersOfBody(flow, bodies)
    return typeof members === 'object' && 'kind' in members ? members : check(tokenInBody(place, members, flow), flow)
  }
}
