import { isDeepStrictEqual } from 'node:util'
import { type AddressRules, type Cidr, CidrSet, judge, parseCidr } from '../lib/ip.js'
import { ShardedMap } from '../lib/sharded-map.js'
import { atOnce, Passes, type Steps } from '../lib/slices.js'
import type { IpRuleUnit, RestrictionUnit } from './plan.js'
import { asKind, type UnitChange } from './plan-changes.js'

/** Tables of a snapshot that address filters read. */
interface RestrictedSnapshot {
  readonly tables: { readonly restrictions: Restrictions; readonly ipPolicies: IpPolicies }
  ipPolicy(id: string): AddressRules | undefined
}

/** Numbers of addresses refused, and of addresses that an unenforced restriction would have refused. */
export interface AddressFilterCounts {
  readonly refused: number
  readonly warned: number
}

/** A class of traffic that an IP restriction can be for. */
export type FilteredTraffic = 'agent' | 'api' | 'dashboard' | 'endpoints'

interface AddressFilterParts {
  readonly log: { info(fields: object, message: string): void }
  /** Called for each address that the restriction does not allow. */
  readonly refused?: (enforced: boolean) => void
}

/** IP restriction of one class of traffic. Without a restriction every address is allowed; an unenforced one only logs and counts. */
export class AddressFilter {
  readonly #traffic: FilteredTraffic
  readonly #parts: AddressFilterParts
  readonly #counts = { refused: 0, warned: 0 }

  constructor(traffic: FilteredTraffic, parts: AddressFilterParts) {
    this.#traffic = traffic
    this.#parts = parts
  }

  get counts(): AddressFilterCounts {
    return this.#counts
  }

  /** Returns true if the address is allowed. `about`: extra fields of the log line. */
  admits(snapshot: RestrictedSnapshot, address: string | undefined, about?: object): boolean {
    const against = refusal(snapshot, this.#traffic, address)
    if (against === undefined) return true
    const { enforced, network } = against
    this.#parts.refused?.(enforced)
    this.#counts[enforced ? 'refused' : 'warned']++
    if (enforced) return false
    const fields = { client: address, type: this.#traffic, network, ...about }
    this.#parts.log.info(fields, 'an IP restriction that is not enforced would refuse this address')
    return true
  }
}

/** Returns true if this snapshot refuses `address`. Logs and counts nothing. */
export function refuses(snapshot: RestrictedSnapshot, traffic: FilteredTraffic, address: string | undefined): boolean {
  return refusal(snapshot, traffic, address)?.enforced === true
}

/** Returns why an address is refused, or undefined if it is allowed. `network`: the network that decided, if any. */
function refusal(snapshot: RestrictedSnapshot, traffic: FilteredTraffic, address: string | undefined) {
  const restriction = snapshot.tables.restrictions.get(traffic)
  if (restriction === undefined) return undefined
  const policies = restriction.policies.map((id) => snapshot.ipPolicy(id))
  const { passes, network } = judge(policies, address)
  return passes ? undefined : { enforced: restriction.enforced, network }
}

/** Returns true if both snapshots restrict this traffic in the same way, rules of the policies included. */
export function sameRestriction(one: RestrictedSnapshot, other: RestrictedSnapshot, traffic: FilteredTraffic): boolean {
  if (sameAddressRules(one, other)) return true
  const [now, then] = [one, other].map((snapshot) => snapshot.tables.restrictions.get(traffic))
  if (!isDeepStrictEqual(now, then)) return false
  // Snapshots share rule objects until a write changes them.
  return now?.policies.every((id) => one.ipPolicy(id) === other.ipPolicy(id)) ?? true
}

/** Returns true if both snapshots refuse the same addresses. May return false for equal rules. */
export function sameAddressRules(one: RestrictedSnapshot, other: RestrictedSnapshot): boolean {
  return one.tables.restrictions === other.tables.restrictions && one.tables.ipPolicies === other.tables.ipPolicies
}

/** Networks that a change adds to and removes from one action of one policy. */
interface Edit {
  readonly put: Cidr[]
  readonly drop: Cidr[]
}

type PolicyEdit = Readonly<Record<IpRuleUnit['action'], Edit>>

/**
 * IP policies by id. A policy exists as long as its own unit; rules without a policy wait for theirs. Immutable; the cost of a change
 * depends on the changed rules alone.
 */
export class IpPolicies {
  readonly #sets: ShardedMap<AddressRules>
  readonly #known: ShardedMap<true>

  private constructor(sets: ShardedMap<AddressRules>, known: ShardedMap<true>) {
    this.#sets = sets
    this.#known = known
  }

  static readonly empty = new IpPolicies(ShardedMap.empty(), ShardedMap.empty())

  get(id: string): AddressRules | undefined {
    return this.#known.has(id) ? (this.#sets.get(id) ?? NO_RULES) : undefined
  }

  with(changes: readonly UnitChange[]): IpPolicies {
    return atOnce(this.editing(changes))
  }

  /** Does the work of `with` in steps. */
  *editing(changes: readonly UnitChange[]): Steps<IpPolicies> {
    const edits = new Map<string, PolicyEdit>()
    const editOf = ({ policy, action }: IpRuleUnit): Edit => {
      const edit = edits.get(policy) ?? { allow: { put: [], drop: [] }, deny: { put: [], drop: [] } }
      edits.set(policy, edit)
      return edit[action]
    }
    const known: [string, true][] = []
    const gone: string[] = []
    const passes = new Passes()
    for (const { before, after } of changes) {
      if (passes.due()) yield
      const policy = asKind(before, 'ip_policy')
      if (policy !== undefined && after === undefined) gone.push(policy.id)
      const made = asKind(after, 'ip_policy')
      if (made !== undefined) known.push([made.id, true])
      const former = asKind(before, 'ip_rule')
      if (former !== undefined) editOf(former).drop.push(...networkOf(former))
      const rule = asKind(after, 'ip_rule')
      if (rule !== undefined) editOf(rule).put.push(...networkOf(rule))
    }
    if (edits.size === 0 && known.length === 0 && gone.length === 0) return this
    const put: [string, AddressRules][] = []
    const drop: string[] = []
    for (const [id, { allow, deny }] of edits) {
      const running = this.#sets.get(id) ?? NO_RULES
      yield
      const next = { allow: yield* edited(running.allow, allow), deny: yield* edited(running.deny, deny) }
      if (next.allow.size + next.deny.size > 0) put.push([id, next])
      else drop.push(id)
    }
    return new IpPolicies(yield* this.#sets.editing(put, drop), yield* this.#known.editing(known, gone))
  }
}

const NO_RULES: AddressRules = { allow: new CidrSet([]), deny: new CidrSet([]) }

/** Returns no network if the text is invalid; such a rule is never added, so dropping it changes nothing. */
function networkOf({ cidr }: IpRuleUnit): readonly Cidr[] {
  const network = parseCidr(cidr)
  return network === undefined ? [] : [network]
}

function* edited(set: CidrSet, { put, drop }: Edit): Steps<CidrSet> {
  return put.length === 0 && drop.length === 0 ? set : yield* set.editing(put, drop)
}

/** IP restriction of each class of traffic. Immutable. */
export class Restrictions {
  readonly #byTraffic: ReadonlyMap<string, RestrictionUnit>

  private constructor(byTraffic: ReadonlyMap<string, RestrictionUnit>) {
    this.#byTraffic = byTraffic
  }

  static readonly empty = new Restrictions(new Map())

  get(traffic: string): RestrictionUnit | undefined {
    return this.#byTraffic.get(traffic)
  }

  *editing(changes: readonly UnitChange[]): Steps<Restrictions> {
    const passes = new Passes()
    const gone: RestrictionUnit[] = []
    const put: RestrictionUnit[] = []
    for (const { before, after } of changes) {
      const former = asKind(before, 'restriction')
      if (former !== undefined) gone.push(former)
      const unit = asKind(after, 'restriction')
      if (unit !== undefined) put.push(unit)
      if (passes.due()) yield
    }
    if (gone.length === 0 && put.length === 0) return this
    const byTraffic = new Map(this.#byTraffic)
    for (const { traffic } of gone) byTraffic.delete(traffic)
    for (const unit of put) byTraffic.set(unit.traffic, unit)
    return new Restrictions(byTraffic)
  }
}
