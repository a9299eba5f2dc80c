import type { Json } from '../../lib/json.js'
import type {
  BoardCall,
  BoardChange,
  BoardEntry,
  BoardPage,
  ClusterBoard,
  ProcessReport,
  Published,
  PublishedEntry,
  Reported
} from '../board.js'
import { StoreError } from '../errors.js'
import type { DeadLetters, Outbox } from '../outbox.js'
import type {
  Change,
  Claim,
  RecordKey,
  Reference,
  SealedRecord,
  StoredRecord,
  WholeRecord,
  WholeRequest
} from '../records.js'
import type {
  ChangeFeed,
  GivenAway,
  HistoryRequest,
  Outcome,
  Page,
  PageRequest,
  Place,
  RevisionEntry,
  Store,
  StoreTransaction,
  WantedChanges
} from '../store.js'
import type { CopiedStore } from './copied-store.js'

/** Board of the current store. Listeners stay registered when the store is replaced. */
class StandbyBoard implements ClusterBoard {
  #current: ClusterBoard
  readonly #listening = new Map<symbol, { readonly process: string; readonly notified: () => void; end: () => void }>()

  constructor(current: ClusterBoard) {
    this.#current = current
  }

  /** Switches to another board. */
  follow(board: ClusterBoard): void {
    this.#current = board
    for (const one of this.#listening.values()) {
      one.end()
      one.end = board.listen(one.process, one.notified)
      one.notified()
    }
  }

  publish(process: string, change: BoardChange): Promise<void> {
    return this.#current.publish(process, change)
  }

  clear(process: string): Promise<void> {
    return this.#current.clear(process)
  }

  list(kind: string, page: BoardPage, of: Published): Promise<BoardEntry[]> {
    return this.#current.list(kind, page, of)
  }

  get(kind: string, id: string, of: Published): Promise<PublishedEntry[]> {
    return this.#current.get(kind, id, of)
  }

  call(call: BoardCall): Promise<boolean> {
    return this.#current.call(call)
  }

  waiting(process: string): Promise<BoardCall[]> {
    return this.#current.waiting(process)
  }

  answer(call: Pick<BoardCall, 'id' | 'from'>, text: string): Promise<void> {
    return this.#current.answer(call, text)
  }

  answerTo(id: string): Promise<string | null | undefined> {
    return this.#current.answerTo(id)
  }

  withdraw(id: string): Promise<void> {
    return this.#current.withdraw(id)
  }

  listen(process: string, notified: () => void): () => void {
    const key = Symbol(process)
    const one = { process, notified, end: this.#current.listen(process, notified) }
    this.#listening.set(key, one)
    return () => {
      this.#listening.delete(key)
      one.end()
    }
  }
}

/** Grace period for reads of the copy before it is closed (ms). */
const LAST_READS = 5_000

/**
 * Store of a process that started from its copy: it reads from the copy and rejects writes (`STORE_DEGRADED`) until `goOver` switches to
 * the real store. Otherwise its users see no difference.
 */
export class StandbyStore implements Store {
  readonly board: StandbyBoard
  readonly outbox: Outbox
  readonly deadLetters: DeadLetters
  readonly endedSessions: Store['endedSessions']
  readonly loginSessions: Store['loginSessions']
  readonly visitors: Store['visitors']
  readonly #copied: CopiedStore
  readonly #stopTrying: () => void
  #current: Store
  #closing: NodeJS.Timeout | undefined
  #closed: Promise<void> | undefined

  /** `stopTrying` stops the connection attempts before everything is closed. */
  constructor(copied: CopiedStore, stopTrying: () => void) {
    this.#copied = copied
    this.#current = copied.store
    this.#stopTrying = stopTrying
    this.board = new StandbyBoard(copied.store.board)
    this.outbox = this.#outbox()
    this.deadLetters = this.#deadLetters()
    this.endedSessions = {
      add: async (sessions) => await this.#writable().endedSessions.add(sessions),
      // Logouts are not revisions, so the copy would lack the latest ones.
      since: async (number) =>
        this.degraded === null
          ? await this.#current.endedSessions.since(number)
          : { sessions: [], number: 0, before: 0, blind: true },
      forget: async (now, most) => await this.#writable().endedSessions.forget(now, most)
    }
    const sessions = async () => this.#writable().loginSessions
    this.loginSessions = {
      read: async (...words) => (await sessions()).read(...words),
      claim: async (...words) => (await sessions()).claim(...words),
      save: async (...words) => (await sessions()).save(...words),
      release: async (...words) => (await sessions()).release(...words),
      forget: async (...words) => (await sessions()).forget(...words)
    }
    const visitors = async () => this.#writable().visitors
    this.visitors = {
      add: async (news) => (await visitors()).add(news),
      visitors: async (page) => (await visitors()).visitors(page),
      visitor: async (id) => (await visitors()).visitor(id),
      visits: async (...words) => (await visitors()).visits(...words),
      visit: async (...words) => (await visitors()).visit(...words),
      remove: async (visitor) => (await visitors()).remove(visitor),
      forget: async (now) => (await visitors()).forget(now)
    }
  }

  /** Problem text for people; null once the real store is in use. */
  get degraded(): string | null {
    if (this.#current !== this.#copied.store) return null
    return `degraded: serving revision ${this.#copied.place.revision} from its own copy, the store is out of reach`
  }

  /** Switches to the real store, which is closed with this one. */
  goOver(store: Store): void {
    this.#current = store
    this.board.follow(store.board)
    this.#closing = setTimeout(() => void this.#copied.store.close(), LAST_READS).unref()
  }

  get(kind: string, id: string): Promise<StoredRecord | undefined> {
    return this.#current.get(kind, id)
  }

  getMany(keys: readonly RecordKey[]): Promise<StoredRecord[]> {
    return this.#current.getMany(keys)
  }

  list(kind: string, request: PageRequest): Promise<Page | undefined> {
    return this.#current.list(kind, request)
  }

  referencesTo(kind: string, id: string, limit?: number): Promise<Reference[]> {
    return this.#current.referencesTo(kind, id, limit)
  }

  referencesToAny(kind: string, ids: readonly string[]): Promise<Reference[]> {
    return this.#current.referencesToAny(kind, ids)
  }

  referencesFrom(kind: string, id: string): Promise<Reference[]> {
    return this.#current.referencesFrom(kind, id)
  }

  kinds(): Promise<string[]> {
    return this.#current.kinds()
  }

  keeperOf(space: string, value: string): Promise<RecordKey | undefined> {
    return this.#current.keeperOf(space, value)
  }

  keeperIn(space: string): Promise<RecordKey | undefined> {
    return this.#current.keeperIn(space)
  }

  claimsOf(kind: string, id: string): Promise<Claim[]> {
    return this.#current.claimsOf(kind, id)
  }

  changesAfter(after: Place | number, wanted?: WantedChanges): Promise<ChangeFeed> {
    return this.#current.changesAfter(after, wanted)
  }

  placeOf(revision: number): Promise<Place> {
    return this.#current.placeOf(revision)
  }

  revision(): Promise<number> {
    return this.#current.revision()
  }

  wholeRecords(request: WholeRequest): Promise<WholeRecord[]> {
    return this.#current.wholeRecords(request)
  }

  history(request: HistoryRequest): Promise<RevisionEntry[]> {
    return this.#current.history(request)
  }

  async amend(revision: number, from: Json, to: Json): Promise<boolean> {
    return await this.#writable().amend(revision, from, to)
  }

  changesOf(revision: number): Promise<Change[]> {
    return this.#current.changesOf(revision)
  }

  reportProcess(report: Omit<ProcessReport, 'seenAt'>): Promise<Reported> {
    return this.#current.reportProcess(report)
  }

  processes(): Promise<ProcessReport[]> {
    return this.#current.processes()
  }

  forgetProcesses(reports: readonly Pick<ProcessReport, 'id' | 'seenAt'>[]): Promise<void> {
    return this.#current.forgetProcesses(reports)
  }

  async transact<T>(operationId: string, work: (transaction: StoreTransaction) => Promise<T>): Promise<Outcome<T>> {
    return await this.#writable().transact(operationId, work)
  }

  sealKey(): Promise<string | null> {
    return this.#current.sealKey()
  }

  async writeUnder(key: string, instead: string | null): Promise<boolean> {
    return await this.#writable().writeUnder(key, instead)
  }

  sealedRecords(request: { readonly limit: number; readonly after?: RecordKey }): Promise<SealedRecord[]> {
    return this.#current.sealedRecords(request)
  }

  async copyTo(path: string): Promise<void> {
    await this.#writable().copyTo(path)
  }

  async forgetHistory(revision: number): Promise<void> {
    await this.#writable().forgetHistory(revision)
  }

  /** A copy cannot be handed over: the connection attempts for it continue. */
  async giveAway(): Promise<GivenAway | undefined> {
    return this.degraded === null ? await this.#current.giveAway() : undefined
  }

  async close(): Promise<void> {
    this.#closed ??= this.#close()
    await this.#closed
  }

  async #close(): Promise<void> {
    this.#stopTrying()
    clearTimeout(this.#closing)
    await this.#copied.store.close()
    if (this.#current !== this.#copied.store) await this.#current.close()
  }

  #writable(): Store {
    const { degraded } = this
    if (degraded !== null) throw new StoreError('STORE_DEGRADED', degraded)
    return this.#current
  }

  #deadLetters(): DeadLetters {
    const there = async () => this.#writable().deadLetters
    return {
      add: async (...words) => (await there()).add(...words),
      list: async (...words) => (await there()).list(...words),
      get: async (...words) => (await there()).get(...words),
      drop: async (...words) => (await there()).drop(...words),
      counts: async () => (await there()).counts()
    }
  }

  /** Deliveries and leases need the real store; the copy knows only the account. */
  #outbox(): Outbox {
    const there = async () => this.#writable().outbox
    return {
      next: async (...words) => (await there()).next(...words),
      postedAfter: async (...words) => (await there()).postedAfter(...words),
      count: async (...words) => (await there()).count(...words),
      delivered: async (...words) => (await there()).delivered(...words),
      report: async (...words) => (await there()).report(...words),
      reports: async () => (await there()).reports(),
      leases: async () => (await there()).leases(),
      take: async (...words) => (await there()).take(...words),
      renew: async (...words) => (await there()).renew(...words),
      release: async (...words) => (await there()).release(...words),
      account: (fresh) => this.#current.outbox.account(fresh)
    }
  }
}
