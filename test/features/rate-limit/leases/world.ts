import { LeasedBucket, type Outcome } from '../../../../src/features/rate-limit/leases/bucket.js'
import { Member, type OutgoingCall } from '../../../../src/features/rate-limit/leases/member.js'
import type { LedgerAnswer, StoreLoss } from '../../../../src/lib/limit-ledger.js'
import { random } from '../limiter/support/random.js'
import { MemoryLedger } from './memory-ledger.js'

/** A world to live through. Milliseconds of true time, which is that of the ledger. */
export interface WorldOf {
  readonly seed: number
  readonly nodes: number
  readonly capacity: number
  readonly rate: number
  /** Requests a second to all nodes. */
  readonly requests: number
  readonly lasts: number
  readonly loss: StoreLoss
  /** Mean time from a node to the ledger. */
  readonly way: number
  /** How uneven the nodes are asked: 1 is even. */
  readonly skew?: number
  /** Most permits that a request costs. */
  readonly cost?: number
  /** Means between what goes wrong, milliseconds; absent: never. */
  readonly faults?: {
    readonly pause?: number
    readonly crash?: number
    readonly partition?: number
    readonly away?: number
    readonly lost?: number
    readonly promoted?: number
    /** Of messages: are lost, come late, come twice. */
    readonly messages?: number
    readonly longest?: number
  }
}

interface Event {
  readonly at: number
  readonly run: () => void
}

/** What comes next, by time. */
class Agenda {
  readonly #heap: Event[] = []

  put(event: Event): void {
    const heap = this.#heap
    heap.push(event)
    let i = heap.length - 1
    while (i > 0) {
      const parent = (i - 1) >> 1
      if ((heap[parent] as Event).at <= event.at) break
      heap[i] = heap[parent] as Event
      i = parent
    }
    heap[i] = event
  }

  take(): Event | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined || heap.length === 0) return first
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && (heap[child + 1] as Event).at < (heap[child] as Event).at) child += 1
      if ((heap[child] as Event).at >= last.at) break
      heap[i] = heap[child] as Event
      i = child
    }
    heap[i] = last
    return first
  }
}

/** One process: a member with a clock of its own, that may stand still. */
class Node {
  readonly member: Member
  readonly bucket: LeasedBucket
  readonly #world: World
  readonly #skew: number
  readonly #drift: number
  pausedUntil = 0
  cutUntil = 0
  lives = true
  /** Admitted without the ledger: true times. */
  local: number[] = []

  constructor(world: World, name: string) {
    this.#world = world
    this.#skew = (world.next() - 0.5) * 7_200_000
    this.#drift = 1 + (world.next() - 0.5) * 0.02
    this.member = new Member(name)
    this.bucket = new LeasedBucket('bucket', world.of.rate, world.of.loss, () => undefined)
    this.#tick()
  }

  get now(): number {
    return 1e9 + this.#skew + this.#world.now * this.#drift
  }

  /** Runs when the node is not paused. */
  at(time: number, run: () => void): void {
    this.#world.at(time, () => {
      if (!this.lives) return
      if (this.#world.now < this.pausedUntil) this.at(this.pausedUntil, run)
      else run()
    })
  }

  request(cost: number, done: (admitted: boolean) => void): void {
    const { member, bucket, now } = this
    member.add(bucket)
    const outcome = member.take(bucket, this.#world.capacity, cost, now)
    const settle = (decided: Outcome) => done(decided === 'admitted' || (decided === 'lost' && this.#locally(cost)))
    if (outcome === undefined) member.wait(bucket, this.#world.capacity, cost, now, settle)
    else settle(outcome)
    this.#pump()
  }

  /** By the share of this node alone. */
  #locally(cost: number): boolean {
    const { of, now, capacity } = this.#world
    if (of.loss === 'open') return true
    if (of.loss === 'closed') return false
    const own = this.now
    const most = this.member.share.of(capacity, of.rate, own)
    this.local = this.local.filter((at) => at > now - of.rate * 1.02)
    if (this.local.length + cost > most) return false
    for (let i = 0; i < cost; i += 1) this.local.push(now)
    this.member.share.used(own)
    return true
  }

  #tick(): void {
    this.at(this.#world.now + (this.member.waits ? 10 : 50), () => {
      this.member.tick(this.now)
      this.#pump()
      this.#tick()
    })
  }

  #pump(): void {
    const call = this.member.outgoing(this.now)
    if (call === undefined) return
    this.#world.send(this, call, (answer) =>
      this.at(this.#world.now + this.#world.way(), () => {
        this.member.answered(call, answer, this.now)
        this.#pump()
      })
    )
  }
}

export interface Lived {
  readonly arrivals: number
  readonly admitted: number
  readonly ideal: number
  /** Most that were admitted in one window, less the capacity. */
  readonly over: number
  readonly calls: number
  readonly waited: number
  readonly locally: number
}

/** Processes, the ways between them and the ledger, and their requests, in simulated time. */
export class World {
  readonly of: WorldOf
  readonly next: () => number
  readonly ledger: MemoryLedger
  now = 0
  capacity: number
  calls = 0
  readonly #agenda = new Agenda()
  readonly #nodes: Node[] = []
  readonly #admitted: { at: number; cost: number }[] = []
  #names = 0
  #awayUntil = 0
  #waited = 0
  #locally = 0
  /** What the ledger was at some moment; a copy lags by less than a minute. */
  #copy: { readonly of: number; readonly promote: () => void } | undefined

  constructor(of: WorldOf) {
    this.of = of
    this.capacity = of.capacity
    this.next = random(of.seed)
    this.ledger = new MemoryLedger(() => 1.7e12 + this.now)
    this.ledger.listen((id, cleared) => {
      for (const node of this.#nodes) node.at(this.now + this.way(), () => node.member.recalled(id, cleared, node.now))
    })
  }

  at(at: number, run: () => void): void {
    this.#agenda.put({ at, run })
  }

  /** Time of a message that nothing holds up. */
  way(): number {
    return this.of.way * (0.5 + this.next())
  }

  send(node: Node, call: OutgoingCall, answer: (answer: LedgerAnswer) => void): void {
    this.calls += 1
    const { messages = 0 } = this.of.faults ?? {}
    const deliver = (after: number) =>
      this.at(this.now + after, () => {
        if (this.now < this.#awayUntil) return
        const said = this.ledger.decide(call)
        const times = this.next() < messages ? (this.next() < 0.5 ? 0 : 2) : 1
        for (let i = 0; i < times; i += 1) {
          if (this.next() < messages) this.at(this.now + this.next() * 3_000, () => answer(said))
          else answer(said)
        }
      })
    if (this.now < node.cutUntil) {
      if (this.next() < 0.2) deliver(node.cutUntil - this.now + this.way())
      return
    }
    const fate = this.next()
    if (fate < messages) {
      if (fate < messages / 2) deliver(this.next() * 5_000)
      return
    }
    deliver(this.way())
    if (this.next() < messages) deliver(this.next() * 5_000)
  }

  live(): Lived {
    const { of } = this
    for (let i = 0; i < of.nodes; i += 1) this.#nodes.push(this.#node())
    let arrivals = 0
    let [ideal, idealFirst]: [number[], number] = [[], 0]
    const weights = Array.from({ length: of.nodes }, (_, i) => (of.skew ?? 1) ** -i)
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    const arrive = () => {
      if (this.now > of.lasts) return
      arrivals += 1
      const cost = 1 + Math.floor(this.next() * (of.cost ?? 1))
      while (idealFirst < ideal.length && (ideal[idealFirst] as number) + of.rate <= this.now) idealFirst += 1
      if (ideal.length - idealFirst + cost <= this.capacity) for (let i = 0; i < cost; i += 1) ideal.push(this.now)
      let pick = this.next() * total
      let at = 0
      while (at < of.nodes - 1 && pick > (weights[at] as number)) pick -= weights[at++] as number
      const node = this.#nodes[at] as Node
      const came = this.now
      node.at(this.now, () =>
        node.request(cost, (admitted) => {
          if (this.now > came) this.#waited += 1
          if (!admitted) return
          if (node.local.at(-1) === this.now) this.#locally += cost
          this.#admitted.push({ at: this.now, cost })
        })
      )
      this.at(this.now - Math.log(1 - this.next()) * (1_000 / of.requests), arrive)
    }
    arrive()
    this.#faults()
    for (let event = this.#agenda.take(); event !== undefined && event.at <= of.lasts; event = this.#agenda.take()) {
      this.now = event.at
      event.run()
    }
    const admitted = this.#admitted.reduce((sum, { cost }) => sum + cost, 0)
    const { calls } = this
    return {
      arrivals,
      admitted,
      ideal: ideal.length,
      over: this.#over(),
      calls,
      waited: this.#waited,
      locally: this.#locally
    }
  }

  #over(): number {
    let [most, sum, first] = [0, 0, 0]
    for (const { at, cost } of this.#admitted) {
      sum += cost
      for (
        let one = this.#admitted[first];
        one !== undefined && one.at <= at - this.of.rate;
        one = this.#admitted[first]
      ) {
        sum -= one.cost
        first += 1
      }
      most = Math.max(most, sum)
    }
    return most - this.of.capacity
  }

  #node(): Node {
    return new Node(this, `node${++this.#names}`)
  }

  #faults(): void {
    const { pause, crash, partition, away, lost, promoted, longest = 15_000 } = this.of.faults ?? {}
    const some = () => this.#nodes[Math.floor(this.next() * this.#nodes.length)] as Node
    const often = (mean: number | undefined, run: () => void) => {
      if (mean === undefined) return
      const again = () =>
        this.at(this.now - Math.log(1 - this.next()) * mean, () => {
          run()
          again()
        })
      again()
    }
    const until = () => this.now + this.next() ** 2 * longest
    often(pause, () => {
      some().pausedUntil = this.now + this.next() * 12_000
    })
    often(crash, () => {
      const i = Math.floor(this.next() * this.#nodes.length)
      const node = this.#nodes[i] as Node
      node.lives = false
      this.#nodes[i] = this.#node()
    })
    often(partition, () => {
      some().cutUntil = until()
    })
    often(away, () => {
      this.#awayUntil = until()
    })
    often(lost, () => this.#remember())
    often(promoted, () => {
      this.#copy?.promote()
      this.#copy = undefined
    })
  }

  /** A copy of the ledger that takes its place later: the ledger sees that by its history. */
  #remember(): void {
    if (this.#copy !== undefined && this.now - this.#copy.of < 50_000) return
    const { ledger } = this
    const rows = structuredClone(ledger.rows)
    const members = structuredClone(ledger.members)
    const promote = () => {
      ledger.rows = rows
      ledger.members = members
      ledger.closedAt = Math.floor(1.7e12 + this.now)
    }
    this.#copy = { of: this.now, promote }
  }
}
