import { CidrSet, parseAddress, parseCidr } from '../lib/cidr.js'
import { ipPolicy } from '../resources/ip-policy.js'
import { ipPolicyRule } from '../resources/ip-policy-rule.js'
import { ipRestriction } from '../resources/ip-restriction.js'
import type { RecordOf } from '../resources/resource.js'
import type { StoreLog, StoreReader } from '../store/store.js'
import type { Touched } from './derive.js'
import { everyRecord } from './records.js'

const RULE_POLICY = 'ip_policy'

/** The classes of traffic that the management listener carries: calls of the API, and pages for people. */
const ENTRANCES = ['api', 'dashboard'] as const
export type Entrance = (typeof ENTRANCES)[number]

/** The IP restriction of one class of traffic, ready to be asked. */
export interface AddressRule {
  readonly enforced: boolean
  readonly policies: ReadonlySet<string>
  readonly allow: CidrSet
  readonly deny: CidrSet
}

/** What restricts who reaches the management listener; an entrance without a rule is open. */
export type Restriction = { readonly [E in Entrance]?: AddressRule }

/** How often a rule has refused an address, and how often it only would have. */
export interface GateCounts {
  readonly refused: number
  readonly warned: number
}

/** Deny beats allow; what nothing allows is refused, and so is what is no address. */
export function allows({ allow, deny }: AddressRule, address: string | undefined): boolean {
  const parsed = address === undefined ? undefined : parseAddress(address)
  if (parsed === undefined || deny.matchAddress(parsed) !== undefined) return false
  return allow.matchAddress(parsed) !== undefined
}

/** Who may come in by address. Nothing restricts an entrance until there is a restriction of its type. */
export class ApiGate {
  readonly #log: StoreLog
  readonly #counts = { api: { refused: 0, warned: 0 }, dashboard: { refused: 0, warned: 0 } }
  #restriction: Restriction = {}

  constructor(log: StoreLog) {
    this.#log = log
  }

  admits(address: string | undefined, entrance: Entrance): boolean {
    const rule = this.#restriction[entrance]
    if (rule === undefined || allows(rule, address)) return true
    const counts = this.#counts[entrance]
    if (rule.enforced) {
      counts.refused++
      return false
    }
    counts.warned++
    this.#log.warn({ address, type: entrance }, 'an IP restriction that is not enforced would refuse this address')
    return true
  }

  get counts(): Readonly<Record<Entrance, GateCounts>> {
    return this.#counts
  }

  /** Can these changes move the gate? */
  concerns(touched: readonly Touched[]): boolean {
    const rules = Object.values(this.#restriction)
    const has = (policy: string) => rules.some(({ policies }) => policies.has(policy))
    return touched.some(({ kind, id, after }) => {
      if (kind === ipRestriction.name) return true
      if (rules.length === 0) return false
      if (kind === ipPolicy.name) return has(id)
      if (kind !== ipPolicyRule.name) return false
      return after === undefined || has(String(after.record.body[RULE_POLICY]))
    })
  }

  set(restriction: Restriction): void {
    this.#restriction = restriction
  }
}

/** What restricts the listener as the store has it. */
export async function readRestriction(reader: StoreReader): Promise<Restriction> {
  const found: { [E in Entrance]?: AddressRule } = {}
  for (const entrance of ENTRANCES) {
    const rule = await readRule(reader, entrance)
    if (rule !== undefined) found[entrance] = rule
  }
  return found
}

/** Undefined when there is no restriction of this type. A policy that is gone has no rules. */
async function readRule(reader: StoreReader, entrance: Entrance): Promise<AddressRule | undefined> {
  const keeper = await reader.keeperOf('ip_restriction_type', entrance)
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
