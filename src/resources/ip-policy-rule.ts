import { choice, described, text } from './fields.js'
import { ipPolicy } from './ip-policy.js'
import { ref } from './references.js'
import { defineResource } from './resource.js'

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
      description: 'IPv4 or IPv6 network in CIDR notation.',
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
