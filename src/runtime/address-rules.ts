import { type AddressRules, type Cidr, CidrSet, parseCidr } from '../lib/ip.js'
import { ShardedMap } from '../lib/sharded-map.js'
import { atOnce, type Steps } from '../lib/slices.js'
import { asKind, type IpRuleUnit, type RestrictionUnit, type UnitChange } from './plan.js'

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
    for (const { before, after } of changes) {
      yield
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
    const gone: RestrictionUnit[] = []
    const put: RestrictionUnit[] = []
    for (const { before, after } of changes) {
      const former = asKind(before, 'restriction')
      if (former !== undefined) gone.push(former)
      const unit = asKind(after, 'restriction')
      if (unit !== undefined) put.push(unit)
      yield
    }
    if (gone.length === 0 && put.length === 0) return this
    const byTraffic = new Map(this.#byTraffic)
    for (const { traffic } of gone) byTraffic.delete(traffic)
    for (const unit of put) byTraffic.set(unit.traffic, unit)
    return new Restrictions(byTraffic)
  }
}
