import { ipPolicy } from '../../resources/ip-policy.js'
import { ipPolicyRule } from '../../resources/ip-policy-rule.js'
import { ipRestriction } from '../../resources/ip-restriction.js'
import { planned } from './planned.js'

export const ipPolicies = planned(
  ipPolicy,
  (id) => [`ip_policy:${id}`],
  ({ record: { id } }) => [[`ip_policy:${id}`, { kind: 'ip_policy', id }]]
)

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
