import { boolean, choice, described } from './fields.js'
import { ipPolicy } from './ip-policy.js'
import { refs } from './references.js'
import { defineResource } from './resource.js'

/** Attaches IP policies to one class of traffic; when not enforced it only warns. */
export const ipRestriction = defineResource({
  name: 'ip_restriction',
  description: 'Attaches IP policies to one class of traffic. When it is not enforced, it only warns.',
  path: '/ip_restrictions',
  listKey: 'ip_restrictions',
  idPrefix: 'ipx',
  events: 'ip_restriction',
  fields: {
    ...described,
    enforced: boolean({ description: 'true: refuses. false: warns.', default: false }),
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
