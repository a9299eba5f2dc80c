import type { Test as TapTest } from 'tap'
import type {
  LedgerAnswer,
  LedgerCall,
  LedgerEntry,
  LedgerGrant,
  LimitLedger
} from '../../../../src/lib/limit-ledger.js'
import { until } from '../../../helpers/until.js'
import { random, whole } from '../limiter/support/random.js'
import { MemoryLedger } from './memory-ledger.js'

/** Milliseconds that the ledger takes for the present. */
export class LedgerTime {
  now = 1_700_000_000_000
}

const RATE = 60_000

/** An entry with at most one total. */
type Said = Partial<LedgerEntry> & { readonly used?: number; readonly age?: number }

/** A member that declares what a test says. */
class Caller {
  readonly #ledger: LimitLedger
  readonly #member: string
  #serial = 0
  #answered = 0
  #seen = 0

  constructor(ledger: LimitLedger, member: string) {
    this.#ledger = ledger
    this.#member = member
  }

  call(entries: readonly Said[], more: Partial<LedgerCall> = {}): LedgerCall {
    return {
      member: this.#member,
      serial: ++this.#serial,
      answered: this.#answered,
      seen: this.#seen,
      local: false,
      entries: entries.map(({ used, age = 0, ...entry }) => ({
        ...NOTHING,
        ...entry,
        ...(used === undefined || used === 0 ? {} : { totals: [used], ages: [age] })
      })),
      ...more
    }
  }

  async exchange(call: LedgerCall): Promise<LedgerAnswer> {
    const answer = await this.#ledger.exchange(call)
    if (answer.grants !== undefined) {
      this.#answered = call.serial
      this.#seen = answer.now
    }
    return answer
  }

  async ask(entry: Said, more: Partial<LedgerCall> = {}): Promise<LedgerGrant> {
    const { grants } = await this.exchange(this.call([entry], more))
    return grants?.[0] as LedgerGrant
  }
}

const NOTHING: LedgerEntry = {
  id: 'bucket',
  rate: RATE,
  capacity: 10,
  account: 0,
  totals: [],
  ages: [],
  held: 0,
  want: 0,
  least: 1,
  loss: 'closed',
  recall: false
}

/** What every ledger does. `open` makes one that holds nothing, and takes its time from `time`. */
export function ledgerSuite(t: TapTest, open: (t: TapTest, time: LedgerTime) => Promise<LimitLedger>): void {
  const two = async (t: TapTest) => {
    const time = new LedgerTime()
    const ledger = await open(t, time)
    return { time, ledger, a: new Caller(ledger, 'a'), b: new Caller(ledger, 'b') }
  }

  t.test('permits are granted up to the capacity, and half of what is left while others have some', async (t) => {
    const { a, b } = await two(t)
    t.match(await a.ask({ want: 4 }), { account: 1, granted: 4, free: 6, used: 0, leased: 0, next: 0, reset: RATE })
    t.match(await b.ask({ want: 4 }), { account: 1, granted: 3, free: 3, leased: 4 })
    t.match(await a.ask({ account: 1, used: 3, held: 1 }), { account: 1, granted: 0, used: 3, leased: 3, free: 3 })
    t.match(await a.ask({ account: 1, used: 3, held: 0 }), { account: 0, used: 3, free: 4 }, 'given back')
    t.match(await b.ask({ account: 1, held: 1, want: 9, least: 7 }), { granted: 0, free: 6 }, 'too few are of no use')
  })

  t.test('a use counts from when it was, and leaves after the window', async (t) => {
    const { a, time } = await two(t)
    await a.ask({ want: 10 })
    time.now += 1_000
    t.match(await a.ask({ account: 1, used: 10, age: 400, want: 1 }), {
      account: 0,
      granted: 0,
      used: 10,
      next: 59_700
    })
    time.now += 59_699
    t.match(await a.ask({ want: 1 }), { granted: 0, next: 1, reset: 1 })
    time.now += 1
    t.match(await a.ask({ want: 1 }), { granted: 1, used: 0 })
  })

  t.test('what is declared twice counts once; what was granted and is not declared is free again', async (t) => {
    const { a } = await two(t)
    await a.ask({ want: 5 })
    t.match(await a.ask({ account: 1, used: 2, held: 3, want: 5 }), { account: 1, granted: 5, free: 0, used: 2 })
    t.match(await a.ask({ account: 1, used: 2, held: 3 }), { account: 1, used: 2, free: 5 }, 'the five never came')
  })

  t.test('a call that comes behind a later one changes nothing', async (t) => {
    const { a, ledger } = await two(t)
    const late = a.call([{ want: 5 }])
    await a.ask({ want: 2 })
    t.match(await ledger.exchange(late), { grants: undefined, share: undefined })
    t.match(await a.ask({ account: 2, held: 2 }), { account: 2, free: 8 })
  })

  t.test('an account that is not declared anew is over, and all of it counts', async (t) => {
    const { a, b, time } = await two(t)
    await a.ask({ want: 6 })
    time.now += 2_099
    t.match(await b.ask({ want: 10, least: 5 }), { granted: 0, leased: 6, free: 4 })
    time.now += 1
    t.match(await b.ask({}), { leased: 0, used: 6, free: 4, reset: RATE + 100 })
    t.match(await a.ask({ account: 1, used: 1, held: 5, want: 1 }), { account: 2, granted: 1, used: 6 })
  })

  t.test('an account that the member does not know counts as spent', async (t) => {
    const { a } = await two(t)
    await a.ask({ want: 6 })
    t.match(await a.ask({ want: 1 }), { account: 2, granted: 1, used: 6, free: 3 })
  })

  t.test('an account whose opening was never answered was not spent', async (t) => {
    const { a, ledger } = await two(t)
    await a.ask({ id: 'other', want: 1 })
    await ledger.exchange(a.call([{ want: 6 }]))
    t.match(await a.ask({ want: 1 }), { account: 3, granted: 1, used: 0, free: 9 })
  })

  t.test('a smaller capacity grants nothing until it fits', async (t) => {
    const { a, time } = await two(t)
    await a.ask({ want: 4 })
    await a.ask({ account: 1, used: 4 })
    time.now += 30_000
    await a.ask({ want: 4 })
    await a.ask({ account: 3, used: 4 })
    t.match(await a.ask({ capacity: 5, want: 1 }), { granted: 0, used: 8, free: 0, next: 30_100 })
    time.now += 30_100
    t.match(await a.ask({ capacity: 5, want: 1 }), { granted: 1, used: 4 })
  })

  t.test('who starves has the others asked, and so has who looks', async (t) => {
    const { a, b, ledger, time } = await two(t)
    const recalled: string[] = []
    t.teardown(ledger.listen((id) => recalled.push(id)))
    await a.ask({ want: 10 })
    const heard = (entry: Said) =>
      until(async () => {
        time.now += 50
        await a.ask({ account: 1, held: 10 })
        t.match(await b.ask(entry), { granted: 0, leased: 10, next: 1_000 })
        return recalled.length > 0
      })
    await heard({ want: 1 })
    t.equal(recalled[0], 'bucket')
    recalled.length = 0
    await heard({ recall: true })
    recalled.length = 0
    await until(async () => {
      await ledger.clear('another')
      return recalled.includes('another')
    })
  })

  t.test('a bucket that is cleared begins anew, but for what is leased', async (t) => {
    const { a, b, ledger } = await two(t)
    await a.ask({ want: 5 })
    await a.ask({ account: 1, used: 5, want: 5 })
    await ledger.clear('bucket')
    t.match(await b.ask({ want: 9, least: 5 }), { granted: 5, used: 0, leased: 5 })
    await ledger.clear('never seen')
  })

  t.test('buckets that are over are removed, and no others', async (t) => {
    const { a, ledger, time } = await two(t)
    for (let i = 0; i < 5; i++) await a.ask({ id: `over${i}`, want: 1 })
    time.now += RATE + 2_202
    await a.ask({ id: 'used', want: 1 })
    await a.ask({ id: 'used', account: 6, used: 1 })
    for (let i = 0; i < 3; i++) await ledger.sweep()
    t.match(await a.ask({ id: 'used' }), { used: 1 })
    t.match(await a.ask({ id: 'over1' }), { used: 0, free: 10 })
  })

  t.test('shares are never more than the whole, and those of the silent are kept', async (t) => {
    const { a, b, time } = await two(t)
    const share = async (member: Caller, share: number, local = false) =>
      (await member.exchange(member.call([], { share, local }))).share
    t.equal(await share(a, 0), 1)
    t.equal(await share(b, 0), 0, 'there is nothing left')
    t.equal(await share(a, 1), 0.5)
    t.equal(await share(b, 0), 0, 'until a has said that it knows')
    t.equal(await share(a, 0.5), 0.5)
    t.equal(await share(b, 0), 0.5)
    time.now += 15_001
    await share(b, 0.5)
    await share(b, 0.5)
    t.match(await b.ask({ loss: 'local', want: 10 }), { granted: 5, free: 0 }, 'half is kept for a')
    t.match(await b.ask({ id: 'other', loss: 'closed', want: 10 }), { granted: 10 })
    await share(a, 0.5, true)
    await share(a, 0.5)
    await b.ask({ account: 6, used: 5, loss: 'local' })
    t.match(await b.ask({ loss: 'local', want: 5 }), { granted: 0, free: 0 }, 'a has admitted by itself')
    time.now += RATE + 101
    await share(a, 0.5)
    await share(b, 0.5)
    await share(a, 0.5)
    await share(b, 0.5)
    t.match(await b.ask({ loss: 'local', want: 10 }), { granted: 10 })
  })

  t.test('a member that leaves frees its share; one that is silent for long is forgotten', async (t) => {
    const { a, b, ledger, time } = await two(t)
    await a.exchange(a.call([], { share: 0 }))
    await ledger.leave('a')
    t.equal((await b.exchange(b.call([], { share: 0 }))).share, 1)
    const c = new Caller(ledger, 'c')
    time.now += 900_001
    t.equal((await c.exchange(c.call([], { share: 0 }))).share, 1)
  })

  t.test('a ledger that lacks what it has said grants nothing for a window', async (t) => {
    const { a, b, time } = await two(t)
    await a.ask({ want: 1 })
    t.match(await b.ask({ want: 1 }, { answered: 7 }), { granted: 0, free: 0, next: RATE + 2_200 })
    t.match(await a.ask({ id: 'open', loss: 'open', want: 1 }), { granted: 1 })
    time.now += RATE + 2_200
    t.match(await b.ask({ want: 1 }), { granted: 1 })
  })

  t.test('many uses are kept, those that are near to each other as the later one', async (t) => {
    const { a, time } = await two(t)
    let account = 0
    let used = 0
    for (let i = 0; i < 150; i++) {
      const grant = await a.ask({ capacity: 1_000, account, used, held: 0, want: 1 })
      if (grant.account !== account) used = 0
      account = grant.account
      used += grant.granted
      time.now += 100
    }
    const last = await a.ask({ capacity: 1_000, account, used })
    t.match(last, { used: 150 })
    time.now += RATE - 14_900
    const half = await a.ask({ capacity: 1_000 })
    t.ok(half.used <= 150 && half.used >= 148, String(half.used))
  })

  t.test('any calls are answered as the rules say', async (t) => {
    for (let seed = 1; seed <= 12; seed++) {
      const next = random(seed)
      const time = new LedgerTime()
      const ledger = await open(t, time)
      const model = new MemoryLedger(() => time.now)
      const members = Array.from({ length: 3 }, (_, i) => ({ name: `m${seed}.${i}`, serial: 1, answered: 0, seen: 0 }))
      const known = new Map<string, { account: number; used: number; held: number }>()
      const capacity = whole(next, 1, 40)
      for (let step = 0; step < 120; step++) {
        time.now += whole(next, 0, next() < 0.1 ? 30_000 : 600)
        const member = members[whole(next, 0, 2)] as (typeof members)[number]
        member.serial += next() < 0.05 ? 0 : 1
        const ids = ['x', 'y', 'z'].filter(() => next() < 0.6).map((name) => `${seed}${name}`)
        const entries = ids.map((id): LedgerEntry => {
          const now = known.get(member.name + id) ?? { account: 0, used: 0, held: 0 }
          const spent = whole(next, 0, now.held)
          now.used += spent
          now.held = next() < 0.2 ? 0 : now.held - spent
          known.set(member.name + id, now)
          if (next() < 0.05) now.account = 0
          const [age, want, least] = [whole(next, 0, 900), whole(next, 0, 8), whole(next, 1, 2)]
          const loss = next() < 0.5 ? 'local' : 'closed'
          const { account, used, held } = now
          const totals = [used - Math.floor(spent / 2), used].filter((total, at, all) => total > (all[at - 1] ?? 0))
          const ages = totals.map((_, at) => age * (totals.length - at))
          return {
            ...NOTHING,
            account,
            totals,
            ages,
            held,
            id,
            capacity,
            want: Math.min(want, capacity),
            least,
            loss,
            rate: 20_000
          }
        })
        const { name, serial, answered, seen } = member
        const share = next() < 0.2 ? { share: 0.2 } : {}
        const call = {
          member: name,
          serial,
          answered: next() < 0.01 ? serial + 1 : answered,
          seen,
          ...share,
          local: next() < 0.03,
          entries
        }
        const [said, meant] = [await ledger.exchange(call), model.decide(call)]
        t.same(said, meant, `seed ${seed}, step ${step}`)
        if (said.grants === undefined || next() < 0.1) continue
        member.answered = serial
        member.seen = said.now
        for (const [i, grant] of said.grants.entries()) {
          const now = known.get(name + (ids[i] as string)) as { account: number; used: number; held: number }
          if (grant.account !== now.account) Object.assign(now, { account: grant.account, used: 0, held: 0 })
          now.held += grant.granted
        }
      }
    }
  })
}
