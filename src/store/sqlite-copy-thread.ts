import { parentPort, workerData } from 'node:worker_threads'
import { openDatabase, type SqliteDatabase } from './sqlite-driver.js'
import { copySqlite, failureOf } from './sqlite-file.js'
import type { SqliteCopyData, SqliteOpening } from './sqlite-protocol.js'

/** Copies one file on a separate connection, reports the result and exits. */
function copy({ from, to }: SqliteCopyData): SqliteOpening {
  let database: SqliteDatabase | undefined
  try {
    database = openDatabase(from)
    copySqlite(database, to)
    return { opened: true }
  } catch (error) {
    return { opened: false, failure: failureOf(error) }
  } finally {
    database?.close()
  }
}

parentPort?.postMessage(copy(workerData as SqliteCopyData))
