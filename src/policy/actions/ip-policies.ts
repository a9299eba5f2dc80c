import type { Flow } from '../../flow/flow.js'
import { type AddressRules, parseAddress } from '../../lib/ip.js'
import type { Scope } from '../action.js'
import type { NodePath } from '../problem.js'
import { isPlaceholderWord } from './placeholder.js'

/** `ipp_` and a KSUID; samples and old accounts have shorter ones. */
export const ID = /^ipp_[0-9A-Za-z]{1,64}$/

/** The network of one of the policies that holds `address`, among those that allow or those that deny. */
export type IpPolicyLookup = (action: keyof AddressRules, address: string, flow: Flow) => string | undefined

/**
 * Compiles ids of IP policies. What they hold is looked up when a flow asks, in the configuration that serves it: rules
 * change without the policy document, and an id that stands for nothing has no rules.
 */
export function compileIpPolicies(ids: readonly string[], at: NodePath, scope: Scope): IpPolicyLookup {
  for (const [i, id] of ids.entries()) {
    if (ID.test(id)) {
      scope.names({ kind: 'ip-policy', id }, [...at, i])
      continue
    }
    if (isPlaceholderWord(id))
      scope.unavailable([...at, i], `"${id}" is a placeholder: put an id in its place`, 'PLACEHOLDER')
    else scope.problem([...at, i], 'CONFIG_INVALID', `"${id}" is no id of an IP policy: those begin with ipp_`)
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
