import type { Flow } from '../../flow/flow.js'
import type { Verdict } from '../../flow/verdict.js'
import { messageOf } from '../../lib/errors.js'
import { parseDuration } from '../../lib/units.js'
import { defineAction, ERROR_RESULTS, type Scope } from '../../policy/action.js'
import { policyErrors } from '../../policy/problems.js'
import { type Counter, decisionCounters } from '../../policy/services.js'
import { defineFeature } from '../contract.js'
import { type ClaimRules, type JwtConfig, jwtConfig } from './config.js'
import { keySets } from './key-sources.js'
import { compileKeys, jwtProblems } from './keys.js'
import { exactPayload, type JwtProblem, jwtErrors, USUAL_LENGTH, verdictOf } from './token.js'
import { type Checked, compileTokens, type TokenCheck } from './token-check.js'
import { SignatureMemory, TokenVerifier } from './verifier.js'

/**
 * Allows requests with valid JSON Web Tokens (RFC 7519, RFC 8725).
 *
 * Every listed token must be present, signed by an accepted key with an accepted algorithm, from an accepted issuer, for an accepted
 * audience, and currently valid with `leeway` seconds (default 30). Keys come from fetched key sets (`additional_jkus`), from the document
 * (`inline`, `shared_secrets`) and from local files (`files`); no issuer is asked for its keys, and key information in a token is used only
 * for comparing `kid`. A failure is 401 with a challenge; 503 `JWT_KEYS_UNAVAILABLE` if keys are unavailable.
 */
const action = defineAction({
  type: 'jwt-validation',
  summary: 'Refuses requests without a valid JSON Web Token.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: jwt-validation
        config:
          issuer:
            allow_list: [{ value: https://issuer.example.com/ }]
          http:
            tokens: [{ type: jwt, method: header, name: Authorization, prefix: "Bearer " }]
          jws:
            allowed_algorithms: [RS256]
            keys:
              sources:
                additional_jkus: ['https://issuer.example.com/jwks.json']
`,
    request: 'GET /',
    status: 401
  },
  misnamed: ['jwt'],
  phases: ['on_http_request'],
  config: jwtConfig,
  configOptional: false,
  terminates: 'sometimes',
  denies: ({ enforce = true }) => enforce,
  leaves: ({ enforce = true, http }) => {
    const tokens = 'actions.service.jwt_validation.tokens'
    // The issuer defines the members of a payload.
    const members = ['header', 'location', 'location_property', 'payload', 'signature', 'verified']
    const each = http.tokens.flatMap((_, i) => members.map((member) => `${tokens}[${i}]["${member}"]`))
    return ['actions.service.jwt_validation', ...(enforce ? [`size:${tokens}`, ...each] : [])]
  },
  results: {
    name: 'jwt_validation',
    fields: {
      tokens: [
        'list<dyn>',
        'The tokens that were found: header, payload, signature, location, location_property, and whether they are verified.'
      ],
      ...ERROR_RESULTS
    }
  },
  compile(config, scope) {
    const { services, owner } = scope
    const { enforce = true, max_token_length: longest = USUAL_LENGTH } = config
    const { chosen, memory } = scope.keep(['jwt-validation'], () => ({
      chosen: scope.service(keySets).chosen(),
      memory: new SignatureMemory()
    }))
    const algorithms = new Set<string>(config.jws.allowed_algorithms)
    const verifier = new TokenVerifier({ ...compileKeys(config.jws, chosen, scope), algorithms, memory, longest })
    const checks = compileTokens(config.http.tokens, { verifier, rules: compileRules(config, scope), scope })
    const counters = decisionCounters(services.meter, owner, 'jwt_validation', DECISIONS)
    const finish = (checked: readonly Checked[], flow: Flow): Verdict | undefined => {
      const problem = checked.at(-1)?.problem
      flow.publish('jwt_validation', results(checked, problem))
      counterOf(problem, enforce, counters).inc()
      return problem === undefined || !enforce ? undefined : verdictOf(problem)
    }
    return (flow) => checkFrom(checks, [], flow, finish)
  }
})

const DECISIONS = ['allow', 'deny', 'would_deny', 'unavailable'] as const

type Finish = (checked: readonly Checked[], flow: Flow) => Verdict | undefined

/** Checks the remaining tokens and stops at the first problem. Waits only for unavailable data. */
function checkFrom(
  checks: readonly TokenCheck[],
  checked: Checked[],
  flow: Flow,
  finish: Finish
): Verdict | undefined | Promise<Verdict | undefined> {
  for (let i = checked.length; i < checks.length; i++) {
    const outcome = (checks[i] as TokenCheck)(flow)
    if (outcome instanceof Promise) {
      return outcome.then((late) => {
        if ('kind' in late) return late
        checked.push(late)
        return late.problem === undefined ? checkFrom(checks, checked, flow, finish) : finish(checked, flow)
      })
    }
    checked.push(outcome)
    if (outcome.problem !== undefined) break
  }
  return finish(checked, flow)
}

function compileRules({ issuer, audience, leeway = '30s' }: JwtConfig, scope: Scope): (flow: Flow) => ClaimRules {
  const issuers = issuer.allow_list.map(({ value }, i) => scope.template(value, ['issuer', 'allow_list', i, 'value']))
  const accepted = audience?.allow_list?.map(({ value }) => value)
  if (audience !== undefined && accepted === undefined) {
    scope.warn(
      ['audience'],
      policyErrors.CONFIG_UNUSED,
      'audience without allow_list checks nothing: every audience is accepted'
    )
  }
  const fixed = {
    audiences: accepted === undefined ? undefined : new Set(accepted),
    leeway: (parseDuration(leeway) ?? 0) / 1_000
  }
  if (issuers.every(({ constant }) => constant !== undefined)) {
    const rules = { ...fixed, issuers: new Set(issuers.map(({ constant }) => constant as string)) }
    return () => rules
  }
  return (flow) => ({ ...fixed, issuers: new Set(issuers.map((one) => one.text(flow))) })
}

function results(checked: readonly Checked[], problem: JwtProblem | undefined): Readonly<Record<string, unknown>> {
  return {
    get tokens() {
      return tokensOf(checked, problem === undefined)
    },
    'error.code': problem ?? '',
    'error.message': problem === undefined ? '' : messageOf(jwtErrors[problem])
  }
}

function tokensOf(checked: readonly Checked[], verified: boolean): unknown[] {
  return checked.flatMap(({ location, property, token }) =>
    token === undefined
      ? []
      : [
          {
            header: token.header,
            location,
            location_property: property,
            payload: exactPayload(token),
            signature: token.signature,
            verified
          }
        ]
  )
}

function counterOf(
  problem: JwtProblem | undefined,
  enforce: boolean,
  counters: Readonly<Record<(typeof DECISIONS)[number], Counter>>
): Counter {
  if (problem === undefined) return counters.allow
  if (!enforce) return counters.would_deny
  return problem === 'JWT_KEYS_UNAVAILABLE' ? counters.unavailable : counters.deny
}

/** Feature: JSON Web Tokens (RFC 7519). */
export const jwt = defineFeature({
  name: 'jwt',
  summary: 'Lets requests with valid JSON Web Tokens pass.',
  actions: [action],
  errors: [jwtErrors],
  problems: [jwtProblems]
})
