import { ipPolicy } from '../ip-policy.js'
import { module } from '../objects.js'
import { refs } from '../references.js'

/** Refuses addresses that the policies do not allow. */
export function ipRestrictionModule() {
  return module('Refuses clients whose address the policies do not allow.', {
    ip_policies: refs(ipPolicy, {
      description: 'The policies that decide.',
      required: true,
      min: 1,
      onTargetDelete: 'keep'
    })
  })
}
