import { type CidrSet, parseAddress } from './cidr.js'

/** Networks that may pass and networks that may not. */
export interface AddressRules {
  readonly allow: CidrSet
  readonly deny: CidrSet
}

export interface Judgement {
  readonly passes: boolean
  /** The network that decided, in canonical text; undefined when none holds the address. */
  readonly network: string | undefined
}

const NOBODY: Judgement = { passes: false, network: undefined }

/**
 * Does `address` pass all of these rules taken together? Deny beats allow; what nothing allows is refused, and so is what is no
 * address. Rules that are gone (undefined) allow nothing.
 */
export function judge(rules: readonly (AddressRules | undefined)[], address: string | undefined): Judgement {
  const parsed = address === undefined ? undefined : parseAddress(address)
  if (parsed === undefined) return NOBODY
  let allowed: string | undefined
  for (const one of rules) {
    const denied = one?.deny.matchAddress(parsed)
    if (denied !== undefined) return { passes: false, network: denied }
    allowed ??= one?.allow.matchAddress(parsed)
  }
  return allowed === undefined ? NOBODY : { passes: true, network: allowed }
}
