import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { rehearse } from '../../app/app.js'
import type { Capability } from '../../app/capability.js'
import type { Host } from '../../app/foundation.js'
import { isShared, storeAddress } from '../../options/catalogue.js'
import type { Options } from '../../options/options.js'
import { IN_MEMORY } from '../../options/values.js'
import { inspectStore } from '../../store/inspection.js'
import { SCHEMA_VERSION } from '../../store/migrations.js'
import { backUpSqlite } from '../../store/sqlite-backup.js'

/** The copy that the rehearsal opens, in the data folder, and the files that SQLite makes beside it. */
const COPY = 'take-over.rehearsal'
/** Suffixes of the files that SQLite creates. */
const BESIDE = ['', '-wal', '-shm', '.lock']
/** Limiter memory of a rehearsal, which limits nothing (bytes). */
const SMALLEST_BUDGET = 256 * 1024

/** Result of loading the configuration in a rehearsal. */
export interface Rehearsed {
  /** The schema that it brings the store to. */
  readonly schema: number
  /** Stored records that could not be applied, or null. */
  readonly incomplete: string | null
}

/**
 * Opens a copy of the running process's store, migrates it to the schema of this version, and compiles all stored and
 * configured policies. The store is only read. PostgreSQL is not copied: it is read directly, unless its schema is older.
 * Rejects with the errors of a start.
 */
export async function rehearsed(options: Options, host: Host, capabilities: readonly Capability[]): Promise<Rehearsed> {
  const { file: _, ...recorder } = options.recorder
  const quiet: Options = {
    ...options,
    cache: false,
    access_log: false,
    limiter: { ...options.limiter, budget: SMALLEST_BUDGET },
    otlp: { ...options.otlp, enabled: false },
    recorder
  }
  const silent: Host = { ...host, log: host.log.child({}, { level: 'silent' }) }
  const address = storeAddress(options)
  const run = async (store: string) => ({
    schema: SCHEMA_VERSION,
    incomplete: await rehearse({ ...quiet, store }, silent, capabilities)
  })
  if (address === IN_MEMORY) return await run(address)
  if (isShared(address)) {
    const { schema } = await inspectStore(address, { thorough: false })
    return schema.here === schema.known ? await run(address) : { schema: schema.known, incomplete: null }
  }
  const copy = join(options.data, COPY)
  const clear = () => Promise.all(BESIDE.map((end) => rm(`${copy}${end}`, { force: true })))
  await clear()
  try {
    backUpSqlite(address, copy, [])
    return await run(copy)
  } finally {
    await clear()
  }
}
