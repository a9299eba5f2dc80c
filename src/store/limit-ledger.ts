import type { LookupFunction } from 'node:net'
import { Backoff, FirstFailure } from '../lib/concurrency.js'
import type { LedgerAnswer, LedgerCall, LedgerGrant, LimitLedger } from '../lib/limit-ledger.js'
import { LIMITS_CHANNEL, MARKS } from './limit-ledger-schema.js'
import { type PostgresClient, PostgresDriver } from './postgres.js'
import type { StoreLog } from './store.js'

/** Separate connections, so that a busy store delays no request. A call times out after a second (ms). */
const POOL = { connections: 3, statement: 1_000, silence: 1_000, connect: 1_000 }
/** Buckets checked by one sweep: more than are created in a second. */
const SWEEP = 10_000
/** Delays between connection attempts (ms). */
const RECONNECTING = { first: 250, longest: 5_000 }

type Row = readonly [
  account: number,
  granted: number,
  free: number,
  used: number,
  leased: number,
  next: number,
  reset: number
]

type Said = readonly [now: number, share: number | null, grants: readonly Row[] | null, silent: readonly string[]]

interface PostgresLimitLedgerParts {
  readonly log: StoreLog
  readonly lookup?: LookupFunction | undefined
  /** Clock of the ledger in milliseconds, for tests. @default the server's clock */
  readonly now?: () => number
}

/** Ledger in the database of the records. Connects at the first call. */
export class PostgresLimitLedger implements LimitLedger {
  readonly #driver: PostgresDriver
  readonly #log: StoreLog
  readonly #now: () => number | null
  readonly #listeners = new Set<(id: string, cleared: boolean) => void>()
  readonly #backoff = new Backoff(RECONNECTING)
  readonly #failing = new FirstFailure()
  readonly #asking = new FirstFailure()
  /** Last bucket checked. */
  #swept = ''
  #listening: Promise<void> | undefined
  #unlisten: (() => Promise<void>) | undefined
  #again: NodeJS.Timeout | undefined
  #closed = false

  constructor(url: string, { log, lookup, now }: PostgresLimitLedgerParts) {
    this.#log = log
    this.#now = now ?? (() => null)
    this.#driver = new PostgresDriver(url, log, { lookup, pool: POOL })
  }

  async exchange(call: LedgerCall): Promise<LedgerAnswer> {
    const { member, serial, answered, seen, share, local, entries } = call
    const parameters = [this.#now(), member, serial, answered, seen, share ?? null, local, JSON.stringify(entries)]
    const said = await this.#ask('select sluice_limits_call($1, $2, $3, $4, $5, $6, $7, $8) as said', parameters)
    const [now, offered, rows, silent] = JSON.parse(said) as Said
    return { now, share: offered ?? undefined, silent, grants: rows?.map(grantOf) }
  }

  async clear(id: string): Promise<void> {
    await this.#ask('select sluice_limits_clear($1, $2)::text as said', [this.#now(), id])
  }

  async sweep(): Promise<void> {
    const last = await this.#ask('select sluice_limits_sweep($1, $2, $3) as said', [this.#now(), this.#swept, SWEEP])
    this.#swept = last
  }

  async leave(member: string): Promise<void> {
    await this.#ask('select sluice_limits_leave($1, $2)::text as said', [this.#now(), member])
  }

  listen(recalled: (id: string, cleared: boolean) => void): () => void {
    this.#listeners.add(recalled)
    this.#listening ??= this.#listen()
    return () => this.#listeners.delete(recalled)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#again)
    await this.#listening
    await this.#unlisten?.()
    await this.#driver.end()
  }

  async #ask(text: string, parameters: readonly unknown[]): Promise<string> {
    let client: PostgresClient | undefined
    try {
      client = await this.#driver.connect()
      const { rows } = await client.query<{ said: string }>(text, parameters)
      this.#asking.passed()
      return rows[0]?.said ?? ''
    } catch (error) {
      this.#asking.failed(() =>
        this.#log.warn({ err: error, store: this.#driver.name }, 'limits over the cluster get no answer from the store')
      )
      throw error
    } finally {
      client?.release()
    }
  }

  async #listen(): Promise<void> {
    const notified = (message: string) => {
      for (const listener of this.#listeners) listener(message.slice(1), message.startsWith(MARKS.cleared))
    }
    try {
      this.#unlisten = await this.#driver.listen({ [LIMITS_CHANNEL]: notified }, () => this.#lost())
      this.#backoff.reset()
      this.#failing.passed()
    } catch (error) {
      this.#failing.failed(() =>
        this.#log.warn({ err: error, store: this.#driver.name }, 'cannot listen for recalled permits of limits')
      )
      this.#lost()
    }
  }

  #lost(): void {
    this.#unlisten = undefined
    if (this.#closed) return
    this.#again = setTimeout(() => {
      this.#listening = this.#listen()
    }, this.#backoff.next())
    this.#again.unref()
  }
}

function grantOf([account, granted, free, used, leased, next, reset]: Row): LedgerGrant {
  return { account, granted, free, used, leased, next, reset }
}
