import { CidrSet, parseAddress, parseCidr } from '../lib/cidr.js'
import { ipPolicy } from '../resources/ip-policy.js'
import { ipPolicyRule } from '../resources/ip-policy-rule.js'
import { ipRestriction } from '../resources/ip-restriction.js'
import type { RecordOf } from '../resources/resource.js'
import type { StoreLog, StoreReader } from '../store/store.js'
import type { Touched } from './derive.js'
import { everyRecord } from './records.js'

const RULE_POLICY = 'ip_policy'
/** The class of traffic that the API is. */
const API_TRAFFIC = 'api'

/** The IP restriction of one class of traffic, ready to be asked. */
export interface Restriction {
  readonly enforced: boolean
  readonly policies: ReadonlySet<string>
  readonly allow: CidrSet
  readonly deny: CidrSet
}

/** Deny beats allow; what nothing allows is refused, and so is what is no address. */
export function allows({ allow, deny }: Restriction, address: string | undefined): boolean {
  const parsed = address === undefined ? undefined : parseAddress(address)
  if (parsed === undefined || deny.matchAddress(parsed) !== undefined) return false
  return allow.matchAddress(parsed) !== undefined
}

/** Who may call the API by address. Nothing restricts it until there is a restriction of type `api`. */
export class ApiGate {
  readonly #log: StoreLog
  #restriction: Restriction | undefined

  constructor(log: StoreLog) {
    this.#log = log
  }

  admits(address: string | undefined): boolean {
    const restriction = this.#restriction
    if (restriction === undefined || allows(restriction, address)) return true
    if (restriction.enforced) return false
    this.#log.warn({ address }, 'an IP restriction that is not enforced would refuse this address')
    return true
  }

  /** Can these changes move the gate? */
  concerns(touched: readonly Touched[]): boolean {
    const policies = this.#restriction?.policies
    return touched.some(({ kind, id, after }) => {
      if (kind === ipRestriction.name) return true
      if (policies === undefined) return false
      if (kind === ipPolicy.name) return policies.has(id)
      if (kind !== ipPolicyRule.name) return false
      return after === undefined || policies.has(String(after.body[RULE_POLICY]))
    })
  }

  set(restriction: Restriction | undefined): void {
    this.#restriction = restriction
  }
}

/** The restriction of the API as the store has it; undefined when there is none. A policy that is gone has no rules. */
export async function readRestriction(reader: StoreReader): Promise<Restriction | undefined> {
  const keeper = await reader.keeperOf('ip_restriction_type', API_TRAFFIC)
  const stored = keeper === undefined ? undefined : await reader.get(keeper.kind, keeper.id)
  if (stored === undefined) return undefined
  const { enforced, ip_policies } = stored.body as unknown as RecordOf<typeof ipRestriction>['body']
  const networks = { allow: [] as string[], deny: [] as string[] }
  for (const id of ip_policies) {
    const to = { kind: ipPolicy.name, id }
    for await (const page of everyRecord(reader, ipPolicyRule.name, { field: RULE_POLICY, to })) {
      for (const rule of page) {
        const { action, cidr } = rule.body as unknown as RecordOf<typeof ipPolicyRule>['body']
        networks[action === 'allow' ? 'allow' : 'deny'].push(cidr)
      }
    }
  }
  const { allow, deny } = networks
  return { enforced, policies: new Set(ip_policies), allow: setOf(allow), deny: setOf(deny) }
}

function setOf(networks: readonly string[]): CidrSet {
  return new CidrSet(networks.flatMap((network) => parseCidr(network) ?? []))
}
