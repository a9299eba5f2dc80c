import { EvaluationError } from '../expression/expression.js'
import { flowErrors, requestErrors } from '../flow/error-codes.js'
import type { Flow } from '../flow/flow.js'
import { closeConnection, refuse, type Verdict } from '../flow/verdict.js'
import { defineErrors } from '../lib/errors.js'
import { type AddressRules, type Cidr, CidrSet, judge, parseAddress, parseCidr } from '../lib/ip.js'
import { type ConfinedCheck, defineAction, ERROR_RESULTS, type Scope } from '../policy/action.js'
import { config, enforce } from '../policy/fields.js'
import { type NodePath, policyErrors } from '../policy/problems.js'
import { decisionCounters } from '../policy/services.js'
import { isPlaceholderWord } from '../policy/values.js'
import { NETWORK, valueLike, wordLike } from '../schema/editor.js'
import { IP_POLICY, refs } from '../schema/references.js'
import { list, optional, template, text } from '../schema/values.js'
import {
  allowOrBlock,
  defineFeature,
  defineModule,
  type EventRecord,
  lastResults,
  type ModuleUnits
} from './contract.js'

/** Problem codes of the action restrict-ips. */
const ipRestrictionProblems = defineErrors({
  NOTHING_ALLOWED: {
    text: 'The action allows no address, so it refuses every client.',
    help: 'Name addresses, networks or IP policies.'
  }
})

/** Maximum number of parsed texts cached per list. */
const KEPT = 256

/** Returns the entry that contains `address` (canonical text), or undefined. Throws `EvaluationError`. */
type IpList = (address: string, flow: Flow) => string | undefined

/** Compiles a list of addresses and networks; entries with `${…}` are parsed at run time. */
function compileIpList(sources: readonly string[], at: NodePath, scope: Scope): IpList {
  const constant: Cidr[] = []
  const dynamic: ((address: string, flow: Flow) => string | undefined)[] = []
  for (const [i, source] of sources.entries()) {
    const template = scope.template(source, [...at, i])
    if (template.constant === undefined) dynamic.push(interpolated((flow) => template.value(flow)))
    else {
      const cidr = parseCidr(template.constant.trim())
      if (cidr !== undefined) constant.push(cidr)
      else if (isPlaceholderWord(source)) {
        const message = `"${source}" is a placeholder: put an address or a network in its place`
        scope.unavailable([...at, i], message, policyErrors.PLACEHOLDER)
      } else
        scope.problem(
          [...at, i],
          policyErrors.CONFIG_INVALID,
          `"${source}" is no IP address and no network such as 192.0.2.0/24`
        )
    }
  }
  const set = new CidrSet(constant)
  if (dynamic.length === 0) return (address) => set.match(address)
  return (address, flow) => {
    const found = set.match(address)
    if (found !== undefined) return found
    for (const entry of dynamic) {
      const match = entry(address, flow)
      if (match !== undefined) return match
    }
    return undefined
  }
}

/** Returns the matcher for an entry whose text or list comes from an expression. */
function interpolated(value: (flow: Flow) => unknown): (address: string, flow: Flow) => string | undefined {
  const kept = new Map<string, CidrSet>()
  return (address, flow) => {
    const given = value(flow)
    for (const text of Array.isArray(given) ? given : [given]) {
      const match = setOf(text, kept).match(address)
      if (match !== undefined) return match
    }
    return undefined
  }
}

function setOf(text: unknown, kept: Map<string, CidrSet>): CidrSet {
  const known = typeof text === 'string' ? kept.get(text) : undefined
  if (known !== undefined) return known
  const cidr = typeof text === 'string' ? parseCidr(text.trim()) : undefined
  if (cidr === undefined)
    throw new EvaluationError('failed', 'an entry is no IP address and no network after interpolation')
  const set = new CidrSet([cidr])
  if (kept.size >= KEPT) kept.clear()
  kept.set(text as string, set)
  return set
}

/** `ipp_` and a KSUID; samples and old accounts have shorter ones. */
const ID = /^ipp_[0-9A-Za-z]{1,64}$/

/** Returns the network with `address` among those that the policies allow or deny. */
type IpPolicyLookup = (action: keyof AddressRules, address: string, flow: Flow) => string | undefined

/**
 * Compiles ids of IP policies. Their rules are looked up in the flow's configuration: rules change independently of the document, and an
 * unknown id has no rules.
 */
function compileIpPolicies(ids: readonly string[], at: NodePath, scope: Scope): IpPolicyLookup {
  for (const [i, id] of ids.entries()) {
    if (ID.test(id)) {
      scope.names({ kind: 'ip-policy', id }, [...at, i])
      continue
    }
    if (isPlaceholderWord(id))
      scope.unavailable([...at, i], `"${id}" is a placeholder: put an id in its place`, policyErrors.PLACEHOLDER)
    else
      scope.problem([...at, i], policyErrors.CONFIG_INVALID, `"${id}" is no id of an IP policy: those begin with ipp_`)
  }
  if (ids.length === 0) return () => undefined
  const missing = new Set<string>()
  const { log } = scope.services
  return (action, text, { units }) => {
    const address = parseAddress(text)
    if (address === undefined) return undefined
    for (const id of ids) {
      const rules = units.ipPolicy(id)
      if (rules === undefined && !missing.has(id)) {
        missing.add(id)
        log.warn(
          { owner: scope.owner, rule: scope.rule, ip_policy: id },
          'there is no such IP policy: it allows nobody'
        )
      }
      const network = rules?.[action].matchAddress(address)
      if (network !== undefined) return network
    }
    return undefined
  }
}

const NOTHING_ALLOWED =
  'without an entry in allow nobody passes; allow 0.0.0.0/0 and ::/0 to refuse only what deny holds'

function addresses(description: string) {
  return optional(
    list(template({ description: 'An IP address or a network such as 192.0.2.0/24.', editor: valueLike(NETWORK) }), {
      description
    })
  )
}

/**
 * Allows a client only if its address is in `allow` or allowed by one of `ip_policies`, and denied by neither `deny` nor a policy. The
 * address is that of the peer, or the one from trusted proxies; a client's own header never counts.
 */
const restrictIps = defineAction({
  type: 'restrict-ips',
  summary: 'Refuses addresses by lists and IP policies.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: restrict-ips
        config:
          allow: ['10.0.0.0/8']
          deny: ['10.9.0.0/16']
`,
    request: 'GET /',
    status: 403
  },
  misnamed: ['ip-restriction'],
  confined: {
    guest: withoutIpPolicies('the policy of an agent does not use IP policies'),
    agent: withoutIpPolicies('an agent has no IP policies')
  },
  phases: ['on_tcp_connect', 'on_http_request', 'on_http_response'],
  config: config({
    enforce: enforce(),
    allow: addresses('Who may pass.'),
    deny: addresses('Who may not, even if allowed.'),
    ip_policies: optional(
      list(
        text({
          description: 'Id of an IP policy; one that does not exist allows nobody.',
          editor: wordLike(ID.source)
        }),
        {
          description: 'IP policies to apply beside allow and deny.'
        }
      )
    )
  }),
  configOptional: false,
  terminates: 'sometimes',
  denies: ({ enforce = true }) => enforce,
  results: {
    name: 'restrict_ips',
    fields: {
      action: ['string', 'allow or deny.'],
      matched_cidr: ['string', 'The network that decided; empty when none did.'],
      ...ERROR_RESULTS
    }
  },
  compile({ enforce = true, allow = [], deny = [], ip_policies = [] }, scope) {
    if (allow.length === 0 && ip_policies.length === 0)
      scope.warn([], ipRestrictionProblems.NOTHING_ALLOWED, NOTHING_ALLOWED)
    const allowed = compileIpList(allow, ['allow'], scope)
    const denied = compileIpList(deny, ['deny'], scope)
    const policies = compileIpPolicies(ip_policies, ['ip_policies'], scope)
    const verdict = scope.phase === 'on_tcp_connect' ? closeConnection : refuse(flowErrors.IP_RESTRICTED)
    return (flow) => {
      const { clientAddress } = flow
      const denying = denied(clientAddress, flow) ?? policies('deny', clientAddress, flow)
      const match = denying ?? allowed(clientAddress, flow) ?? policies('allow', clientAddress, flow)
      const passes = denying === undefined && match !== undefined
      publish(flow, passes, match)
      return passes || !enforce ? undefined : verdict
    }
  }
})

function publish(flow: Flow, passes: boolean, match: string | undefined): void {
  flow.publish('restrict_ips', {
    action: passes ? 'allow' : 'deny',
    matched_cidr: match ?? '',
    'error.code': '',
    'error.message': ''
  })
}

const RESTRICTED = refuse(flowErrors.IP_RESTRICTED)

/**
 * Allows a client only if the policies together allow its address: deny overrides allow. Policies are looked up at run time, so that rule
 * changes do not affect routes; a missing policy allows no address.
 */
const routeModule = defineModule({
  name: 'ip_restriction',
  description: 'Refuses clients whose address the policies do not allow.',
  on: ['https', 'tcp', 'tls'],
  fields: {
    ip_policies: refs(IP_POLICY, {
      description: 'The policies that decide.',
      required: true,
      min: 1,
      onTargetDelete: 'keep'
    })
  },
  compile({ ip_policies: ids }, { owner, services }) {
    const counters = decisionCounters(services.meter, owner, 'ip_restriction', ['allow', 'deny'])
    const step =
      (refusal: Verdict) =>
      (flow: Flow, units: ModuleUnits): Verdict | undefined => {
        const { passes, network } = judge(
          ids.map((id) => units.ipPolicy(id)),
          flow.clientAddress
        )
        const decision = passes ? 'allow' : 'deny'
        counters[decision].inc()
        flow.publish('ip_policy', { decision, matched_cidr: network ?? '' })
        return passes ? undefined : refusal
      }
    return { request: step(RESTRICTED), connect: step(closeConnection) }
  }
})

/** Returns `restrict-ips` for a context without IP policies; `why` is the message. */
function withoutIpPolicies(why: string): ConfinedCheck {
  return (config, scope) => {
    if (!('ip_policies' in config)) return
    const message = `${why}; write the networks into allow and deny`
    scope.problem(['ip_policies'], policyErrors.ACTION_UNSUPPORTED, message)
  }
}

function ipDecision({ flow, code }: EventRecord): string | null {
  const found = [lastResults(flow, 'ip_policy')?.decision, lastResults(flow, 'restrict_ips')?.action]
  if (code === requestErrors.restricted.code || found.includes('deny')) return allowOrBlock(false)
  return found.includes('allow') ? allowOrBlock(true) : null
}

export const ipRestriction = defineFeature({
  name: 'ip-restriction',
  summary: 'Lets clients pass or refuses them by their address.',
  actions: [restrictIps],
  modules: [routeModule],
  eventFields: {
    connection: {
      'ip_policy.decision': {
        type: 'string',
        description:
          'allow or block, by the IP restriction of all endpoints when it refused, the module or the action restrict-ips; null when none of them judged.',
        read: ipDecision
      }
    }
  },
  problems: [ipRestrictionProblems]
})
