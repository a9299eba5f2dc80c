import { existsSync } from 'node:fs'
import type { LookupFunction } from 'node:net'
import { codeOf } from '../lib/errors.js'
import { isPostgresUrl } from '../lib/host.js'
import { keyIdOf } from '../lib/seal.js'
import { StoreError } from './errors.js'
import { newerSchema, SCHEMA_VERSION } from './migrations.js'
import { openToRead } from './sqlite-driver.js'
import { errorOf, failureOf, lockSqlite } from './sqlite-file.js'

/** Facts about a store for read-only inspection. */
export interface StoreFacts {
  /** Last revision; null if the database has no store yet. */
  readonly revision: number | null
  /** Schema version of the store and of this program. */
  readonly schema: { readonly here: number; readonly known: number }
  /** Id of the key that seals secrets; null: unknown. */
  readonly sealKey: string | null
  /** True if the store has sealed values. */
  readonly secrets: boolean
  /** When the last revision was committed, by the writer's clock. Milliseconds since the Unix epoch. @default no revision */
  readonly committedAt?: number
  /** Clock of the database server, milliseconds since the Unix epoch. */
  readonly serverTime?: number
  /** Description of the process that has a SQLite file open. @default not in use */
  readonly holder?: string
  /** Account id. @default none yet */
  readonly account?: string
  readonly certificates: readonly { readonly id: string; readonly notAfter: string }[]
}

type Rows = <R>(sql: string) => Promise<readonly R[]>

/**
 * Inspects a store without changes, also while processes use it. `address` as for `openStore`, but not in memory. `thorough`: reads the
 * whole SQLite file. Fails with a `StoreError`, also if the file is damaged.
 */
export async function inspectStore(
  address: string,
  { lookup, thorough }: { readonly lookup?: LookupFunction | undefined; readonly thorough: boolean }
): Promise<StoreFacts> {
  return isPostgresUrl(address) ? await inspectPostgres(address, lookup) : await inspectSqlite(address, thorough)
}

async function inspectSqlite(path: string, thorough: boolean): Promise<StoreFacts> {
  try {
    const database = openToRead(path)
    try {
      const rows: Rows = async <R>(query: string) => database.prepare(query).all([]) as R[]
      if (thorough) {
        const [found] = database.pragma('quick_check') as { readonly quick_check: string }[]
        if (found !== undefined && found.quick_check !== 'ok') {
          throw errorOf(path, { code: 'SQLITE_CORRUPT', message: found.quick_check })
        }
      }
      const [table] = await rows(`select name from sqlite_master where type = 'table' and name = 'meta'`)
      const holder = holderOf(path)
      return { ...(await factsOf(path, rows, table !== undefined)), ...(holder === undefined ? {} : { holder }) }
    } finally {
      database.close()
    }
  } catch (error) {
    throw error instanceof StoreError ? error : errorOf(path, failureOf(error))
  }
}

function holderOf(path: string): string | undefined {
  if (!existsSync(`${path}.lock`)) return undefined
  try {
    lockSqlite(path).release()
    return undefined
  } catch (error) {
    if (codeOf(error) !== 'STORE_LOCKED') throw error
    return /in use by (.*?);/.exec((error as Error).message)?.[1] ?? 'another process'
  }
}

const QUIET = { info: () => undefined, warn: () => undefined }

async function inspectPostgres(url: string, lookup: LookupFunction | undefined): Promise<StoreFacts> {
  const { PostgresDriver } = await import('./postgres.js')
  const driver = new PostgresDriver(url, QUIET, { lookup })
  try {
    const client = await driver.connect()
    try {
      const rows: Rows = async <R>(query: string) => (await client.query<R>(query, [])).rows as R[]
      const [time] = await rows<{ now: number }>('select (extract(epoch from clock_timestamp()) * 1000)::float8 as now')
      const [meta] = await rows<{ found: string | null }>(`select to_regclass('meta')::text as found`)
      const facts = await factsOf(driver.name, rows, meta?.found != null)
      return time === undefined ? facts : { ...facts, serverTime: time.now }
    } finally {
      client.release()
    }
  } finally {
    await driver.end()
  }
}

interface Meta {
  readonly revision: number
  readonly schema_version: number
  readonly seal_key?: string | null
  readonly account_id?: string | null
}

async function factsOf(name: string, rows: Rows, there: boolean): Promise<StoreFacts> {
  const [meta] = there ? await rows<Meta>('select * from meta') : []
  const known = SCHEMA_VERSION
  if (meta === undefined) {
    return { revision: null, schema: { here: 0, known }, sealKey: null, secrets: false, certificates: [] }
  }
  if (meta.schema_version > known) throw newerSchema(name, meta.schema_version)
  const [last] = await rows<{ at: number }>('select at from revisions order by revision desc limit 1')
  const sealed = await rows<{ sealed: Uint8Array | ArrayBuffer }>(
    'select sealed from records where sealed is not null limit 1'
  )
  const found = await rows<{ id: string; body: string }>(`select id, body from records where kind = 'tls_certificate'`)
  const certificates = found.flatMap(({ id, body }) => {
    const { not_after: notAfter } = JSON.parse(body) as { readonly not_after?: string }
    return typeof notAfter === 'string' ? [{ id, notAfter }] : []
  })
  return {
    revision: meta.revision,
    schema: { here: meta.schema_version, known },
    // Earlier versions did not store it.
    sealKey: meta.seal_key ?? (sealed[0] === undefined ? null : (keyIdOf(new Uint8Array(sealed[0].sealed)) ?? null)),
    secrets: sealed.length > 0,
    ...(typeof meta.account_id === 'string' ? { account: meta.account_id } : {}),
    ...(last === undefined ? {} : { committedAt: Number(last.at) }),
    certificates
  }
}
