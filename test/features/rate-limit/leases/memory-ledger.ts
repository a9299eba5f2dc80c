import { TERMS } from '../../../../src/features/rate-limit/leases/local-share.js'
import type {
  LedgerAnswer,
  LedgerCall,
  LedgerEntry,
  LedgerGrant,
  LimitLedger
} from '../../../../src/lib/limit-ledger.js'

interface Account {
  readonly member: string
  readonly number: number
  readonly known: number
  readonly open: number
  readonly until: number
}

interface Row {
  at: number
  /** When uses leave, and how many do. */
  uses: Map<number, number>
  accounts: Account[]
  recalled: number
  cleared: number
}

interface MemberRow {
  serial: number
  acked: number
  share: number
  localAt: number
  admits: boolean
}

/** The rules of the ledger in plain code: what the one in PostgreSQL is compared with. */
export class MemoryLedger implements LimitLedger {
  rows = new Map<string, Row>()
  members = new Map<string, MemberRow>()
  closedAt = Number.NEGATIVE_INFINITY
  readonly #now: () => number
  readonly #listeners = new Set<(id: string, cleared: boolean) => void>()

  constructor(now: () => number) {
    this.#now = now
  }

  async exchange(call: LedgerCall): Promise<LedgerAnswer> {
    return this.decide(call)
  }

  decide(call: LedgerCall): LedgerAnswer {
    const now = Math.floor(this.#now())
    const known = this.members.get(call.member)
    if (known !== undefined && known.serial >= call.serial)
      return { now, share: undefined, silent: [], grants: undefined }
    if ((known?.serial ?? 0) < call.answered) this.closedAt = Math.max(this.closedAt, now)
    const member = {
      serial: call.serial,
      acked: known === undefined ? now : Math.max(known.acked, call.seen),
      share: known?.share ?? 0,
      localAt: call.local ? now : (known?.localAt ?? Number.NEGATIVE_INFINITY),
      admits: call.share !== undefined || known?.admits === true
    }
    this.members.set(call.member, member)
    const grants = call.entries.map((entry) => this.#entry(call, entry, now))
    if (call.share === undefined) return { now, share: undefined, silent: [], grants }
    const share = this.#offer(call.member, now)
    member.share = Math.max(call.share, share)
    return { now, share, silent: this.#silent(call.member, now), grants }
  }

  async clear(id: string): Promise<void> {
    const row = this.#row(id)
    row.uses = new Map()
    row.cleared = Math.max(row.at, Math.floor(this.#now()))
    this.#notify(id, true)
  }

  async sweep(): Promise<void> {
    for (const [id, { uses, accounts }] of this.rows) {
      const over = [...uses.keys(), ...accounts.map(() => Number.POSITIVE_INFINITY)].every((at) => at < this.#now())
      if (over) this.rows.delete(id)
    }
  }

  async leave(member: string): Promise<void> {
    const row = this.members.get(member)
    if (row !== undefined && row.localAt < Math.floor(this.#now()) - TERMS.gone) this.members.delete(member)
  }

  listen(recalled: (id: string, cleared: boolean) => void): () => void {
    this.#listeners.add(recalled)
    return () => this.#listeners.delete(recalled)
  }

  async close(): Promise<void> {}

  #silent(member: string, now: number): string[] {
    const silent = [...this.members].filter(([id, { acked }]) => id !== member && acked < now - TERMS.silent)
    return silent
      .map(([id]) => id)
      .sort()
      .slice(0, 20)
  }

  #notify(id: string, cleared: boolean): void {
    for (const listener of this.#listeners) listener(id, cleared)
  }

  #row(id: string): Row {
    const row = this.rows.get(id) ?? {
      at: 0,
      uses: new Map(),
      accounts: [],
      recalled: Number.NEGATIVE_INFINITY,
      cleared: Number.NEGATIVE_INFINITY
    }
    this.rows.set(id, row)
    return row
  }

  #offer(id: string, now: number): number {
    for (const [other, { acked }] of this.members)
      if (other !== id && acked < now - TERMS.gone) this.members.delete(other)
    let others = 0
    for (const [other, { share }] of this.members) if (other !== id) others += share
    const admitting = [...this.members.values()].filter(({ admits }) => admits).length
    return Math.max(0, Math.min(1 / admitting, 1 - others))
  }

  #reserved(call: LedgerCall, { loss, rate, capacity }: LedgerEntry, now: number): number {
    if (loss !== 'local') return 0
    let share = 0
    for (const [id, { acked, localAt, share: own }] of this.members) {
      if ((id !== call.member && acked < now - TERMS.silent) || localAt > now - rate - TERMS.margin) share += own
    }
    return Math.floor(share * capacity)
  }

  #entry(call: LedgerCall, entry: LedgerEntry, calledAt: number): LedgerGrant {
    const row = this.#row(entry.id)
    const now = Math.max(calledAt, row.at)
    row.at = now
    const span = entry.rate + TERMS.margin
    const coarse = row.uses.size >= 64 ? Math.max(1, Math.floor(entry.rate / 400)) : 1
    const counts = (until: number, count: number) => {
      const at = Math.ceil(until / coarse) * coarse
      if (at > now && count > 0) row.uses.set(at, (row.uses.get(at) ?? 0) + count)
    }
    let mine: { known: number; open: number } | undefined
    let leased = 0
    const accounts: Account[] = []
    for (const account of row.accounts) {
      if (account.until <= now) counts(account.until + span, account.open)
      else if (account.member !== call.member) {
        accounts.push(account)
        leased += account.open
      } else if (account.number === entry.account) {
        let { known } = account
        for (const [i, total] of entry.totals.entries()) {
          if (total <= known) continue
          counts(now - (entry.ages[i] as number) + span, total - known)
          known = total
        }
        const left = account.open - (known - account.known)
        mine = { known, open: Math.max(0, Math.min(entry.held, left)) }
      } else if (call.answered === 0 || account.number <= call.answered) counts(now + span, account.open)
    }
    let used = 0
    let last = now
    for (const [at, count] of row.uses) {
      if (at <= now) row.uses.delete(at)
      else {
        used += count
        last = Math.max(last, at)
      }
    }
    const own = mine?.open ?? 0
    const shutUntil = this.closedAt + entry.rate + TERMS.ledgerLease + TERMS.margin
    const shut = entry.loss !== 'open' && now < shutUntil && row.cleared <= this.closedAt
    const reserved = this.#reserved(call, entry, now)
    const left = Math.max(0, entry.capacity - used - leased - own - reserved)
    const free = shut ? 0 : left
    const fair = accounts.length === 0 ? free : Math.floor(free / 2)
    const granted = entry.want > 0 && free >= entry.least ? Math.min(entry.want, free, Math.max(entry.least, fair)) : 0
    const number = own + granted === 0 ? 0 : mine === undefined ? call.serial : entry.account
    if (number !== 0) {
      const until = now + TERMS.ledgerLease
      accounts.push({ member: call.member, number, known: mine?.known ?? 0, open: own + granted, until })
    }
    row.accounts = accounts
    if ((entry.recall || (entry.want > 0 && granted < entry.least)) && leased > 0 && now - row.recalled >= 50) {
      row.recalled = now
      this.#notify(entry.id, false)
    }
    const next = () => {
      if (free >= entry.least) return 0
      if (shut) return shutUntil - now
      let over = used + leased + own + reserved + entry.least - entry.capacity
      const passed = [...row.uses]
        .sort(([a], [b]) => a - b)
        .find(([, count]) => {
          over -= count
          return over <= 0
        })
      const waits = passed === undefined ? entry.rate : passed[0] - now
      return leased > 0 ? Math.min(1_000, waits) : waits
    }
    const reset = leased + own + granted > 0 ? entry.rate : last - now
    return { account: number, granted, free: free - granted, used, leased, next: next(), reset }
  }
}
