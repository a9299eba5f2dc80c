import { isDeepStrictEqual } from 'node:util'
import { type AddressRules, type Cidr, CidrSet, judge, parseCidr } from '../lib/ip.js'
import { ShardedMap } from '../lib/sharded-map.js'
import { atOnce, Passes, type Steps } from '../lib/slices.js'
import type { IpRuleUnit, RestrictionUnit } from './plan.js'
import { asKind, type UnitChange } from './plan-changes.js'

/** The part of a snapshot that decides by address. */
interface RestrictedSnapshot {
  readonly tables: { readonly restrictions: Restrictions; readonly ipPolicies: IpPolicies }
  ipPolicy(id: string): AddressRules | undefined
}

/** How often an address filter has refused an address, and how often it only would have. */
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

/**
 * The IP restriction of one class of traffic: which addresses may come in. Nothing restricts a class until there is a
 * restriction for it; one that is not enforced is only logged and counted.
 */
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

  /** Judges one that comes in. `about`: further fields of the log line. */
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

/** Would this snapshot keep `address` out? Counts and logs nothing. */
export function refuses(snapshot: RestrictedSnapshot, traffic: FilteredTraffic, address: string | undefined): boolean {
  return refusal(snapshot, traffic, address)?.enforced === true
}

/** What speaks against an address; undefined when it passes. `network`: the one that decided, if any did. */
function refusal(snapshot: RestrictedSnapshot, traffic: FilteredTraffic, address: string | undefined) {
  const restriction = snapshot.tables.restrictions.get(traffic)
  if (restriction === undefined) return undefined
  const policies = restriction.policies.map((id) => snapshot.ipPolicy(id))
  const { passes, network } = judge(policies, address)
  return passes ? undefined : { enforced: restriction.enforced, network }
}

/** Is the restriction of this traffic the same in these two, with what its policies say? */
export function sameRestriction(one: RestrictedSnapshot, other: RestrictedSnapshot, traffic: FilteredTraffic): boolean {
  if (sameAddressRules(one, other)) return true
  const [now, then] = [one, other].map((snapshot) => snapshot.tables.restrictions.get(traffic))
  if (!isDeepStrictEqual(now, then)) return false
  // Rules are shared as long as no write touches them.
  return now?.policies.every((id) => one.ipPolicy(id) === other.ipPolicy(id)) ?? true
}

/** Do these two keep out the same addresses? false also when they only may differ. */
export function sameAddressRules(one: RestrictedSnapshot, other: RestrictedSnapshot): boolean {
  return one.tables.restrictions === other.tables.restrictions && one.tables.ipPolicies === other.tables.ipPolicies
}

/** What a change adds to and takes from the networks of one action of one policy. */
interface Edit {
  readonly put: Cidr[]
  readonly drop: Cidr[]
}

type PolicyEdit = Readonly<Record<IpRuleUnit['action'], Edit>>

/**
 * IP policies by id. A policy is there as long as its own unit is; rules of others wait for theirs. Immutable; a change costs
 * what it touches, however many rules its policy has.
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

  /** As `with`, in steps. */
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

/** None when the text is no network: then it was never one, so adding and dropping it agree. */
function networkOf({ cidr }: IpRuleUnit): readonly Cidr[] {
  const network = parseCidr(cidr)
  return network === undefined ? [] : [network]
}

function* edited(set: CidrSet, { put, drop }: Edit): Steps<CidrSet> {
  return put.length === 0 && drop.length === 0 ? set : yield* set.editing(put, drop)
}

/** The IP restriction of each class of traffic. Immutable. */
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
