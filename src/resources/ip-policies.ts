import { choice, described, flag, text } from '../schema/fields.js'
import { IP_POLICY, ref, refs } from '../schema/references.js'
import { defineResource } from './resource.js'
import { planned } from './units.js'

/** Set of IP rules. Restricts nothing until an IP restriction or a module refers to it. */
export const ipPolicy = defineResource({
  ...IP_POLICY,
  description: 'A set of IP policy rules. It restricts no traffic until an IP restriction or a module refers to it.',
  listKey: 'ip_policies',
  events: 'ip_policy',
  fields: { ...described }
})

/** One network of an IP policy. */
export const ipPolicyRule = defineResource({
  name: 'ip_policy_rule',
  description: 'A network that an IP policy allows or denies. Deny beats allow.',
  path: '/ip_policy_rules',
  listKey: 'ip_policy_rules',
  idPrefix: 'ipr',
  events: 'ip_policy_rule',
  fields: {
    ...described,
    cidr: text({
      description: 'IPv4 or IPv6 network in CIDR notation, or one address.',
      form: 'cidr',
      bytes: 64,
      required: true,
      unique: 'ip_policy_rule_cidr',
      within: ['ip_policy'],
      examples: ['192.0.2.0/24']
    }),
    ip_policy: ref(ipPolicy, {
      description: 'The policy that the rule belongs to; deleted with it.',
      required: true,
      fixed: true,
      onTargetDelete: 'cascade'
    }),
    action: choice(['allow', 'deny'], { description: 'What the rule does.', required: true, fixed: true })
  }
})

/** Applies IP policies to one class of traffic; logs only if not enforced. */
export const ipRestriction = defineResource({
  name: 'ip_restriction',
  description: 'Attaches IP policies to one class of traffic. When it is not enforced, it only warns.',
  path: '/ip_restrictions',
  listKey: 'ip_restrictions',
  idPrefix: 'ipx',
  events: 'ip_restriction',
  fields: {
    ...described,
    enforced: flag({ description: 'true: refuses. false: warns.', default: false }),
    type: choice(['dashboard', 'api', 'agent', 'endpoints'], {
      description: 'The traffic that is restricted; one restriction for each.',
      required: true,
      fixed: true,
      unique: 'ip_restriction_type'
    }),
    ip_policies: refs(ipPolicy, {
      description: 'The policies that decide.',
      required: true,
      min: 1,
      onTargetDelete: 'keep'
    })
  }
})

/** Units of IP policies; their rules are separate units. */
export const ipPolicies = planned(
  ipPolicy,
  (id) => [`ip_policy:${id}`],
  ({ record: { id } }) => [[`ip_policy:${id}`, { kind: 'ip_policy', id }]]
)

/** Units of the rules of IP policies. */
export const ipRules = planned(
  ipPolicyRule,
  (id) => [`ip_rule:${id}`],
  ({ record: { id, body } }) => [
    [
      `ip_rule:${id}`,
      { kind: 'ip_rule', policy: body.ip_policy as string, cidr: body.cidr, action: body.action as 'allow' | 'deny' }
    ]
  ]
)

/** Units of IP restrictions. */
export const ipRestrictions = planned(
  ipRestriction,
  (id) => [`restriction:${id}`],
  ({ record: { id, body } }) => [
    [
      `restriction:${id}`,
      { kind: 'restriction', traffic: body.type, enforced: body.enforced, policies: body.ip_policies }
    ]
  ]
)
