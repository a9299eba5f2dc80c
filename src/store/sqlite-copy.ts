import { closeSync, fsyncSync, openSync } from 'node:fs'
import type { SqliteDatabase } from './sqlite-driver.js'

const OWNER_ONLY = 0o600

/**
 * Writes what the database holds, as of one moment, into a new file that only its owner reads; writers are not held up.
 * The content is on the disk when this returns, the name of the file only once its folder is. Fails with the system's
 * error (`EEXIST`: there is such a file) or with SQLite's.
 */
export function copySqlite(database: SqliteDatabase, to: string): void {
  // SQLite would make it readable for every user.
  const file = openSync(to, 'wx', OWNER_ONLY)
  try {
    database.prepare('vacuum into ?').run([to])
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
