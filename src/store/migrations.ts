import { type Kysely, sql, type Transaction } from 'kysely'
import { StoreError } from './errors.js'
import { createLimitLedger } from './limit-ledger-schema.js'
import type { Database, Tables } from './tables.js'

/** Step of the schema; its position in the list is the version that it creates. Steps are never changed or removed. */
type Migration = (
  schema: Kysely<Tables>['schema'],
  bytes: Database['bytes'],
  transaction: Transaction<Tables>
) => Promise<void>

const records: Migration = async (schema, bytes) => {
  await schema
    .createTable('records')
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('id', 'text', (column) => column.notNull())
    .addColumn('sequence', 'bigint', (column) => column.notNull())
    .addColumn('revision', 'bigint', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('body', 'text', (column) => column.notNull())
    .addColumn('sealed', bytes)
    .addPrimaryKeyConstraint('records_key', ['kind', 'id'])
    .execute()
  await schema
    .createIndex('records_newest')
    .unique()
    .on('records')
    .columns(['kind', 'created_at', 'sequence'])
    .execute()
  await schema
    .createTable('references')
    .addColumn('from_kind', 'text', (column) => column.notNull())
    .addColumn('from_id', 'text', (column) => column.notNull())
    .addColumn('field', 'text', (column) => column.notNull())
    .addColumn('position', 'integer', (column) => column.notNull())
    .addColumn('to_kind', 'text', (column) => column.notNull())
    .addColumn('to_id', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('references_key', ['from_kind', 'from_id', 'field', 'position'])
    .addForeignKeyConstraint('references_from', ['from_kind', 'from_id'], 'records', ['kind', 'id'], (key) =>
      key.onDelete('cascade')
    )
    .execute()
  await schema.createIndex('references_to').on('references').columns(['to_kind', 'to_id']).execute()
  await schema
    .createTable('claims')
    .addColumn('space', 'text', (column) => column.notNull())
    .addColumn('value', 'text', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('id', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('claims_key', ['space', 'value'])
    .addForeignKeyConstraint('claims_keeper', ['kind', 'id'], 'records', ['kind', 'id'], (key) =>
      key.onDelete('cascade')
    )
    .execute()
  await schema.createIndex('claims_of').on('claims').columns(['kind', 'id']).execute()
}

const history: Migration = async (schema) => {
  await schema
    .createTable('revisions')
    .addColumn('revision', 'bigint', (column) => column.primaryKey())
    .addColumn('operation_id', 'text', (column) => column.notNull().unique())
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addColumn('detail', 'text', (column) => column.notNull())
    .execute()
  await schema
    .createTable('changes')
    .addColumn('revision', 'bigint', (column) => column.notNull())
    .addColumn('position', 'integer', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('id', 'text', (column) => column.notNull())
    .addColumn('operation', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('changes_key', ['revision', 'position'])
    .addForeignKeyConstraint('changes_revision', ['revision'], 'revisions', ['revision'], (key) =>
      key.onDelete('cascade')
    )
    .execute()
  await schema
    .createTable('tombstones')
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('id', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('sequence', 'bigint', (column) => column.notNull())
    .addColumn('revision', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('tombstones_key', ['kind', 'id'])
    .execute()
  await schema.createIndex('tombstones_age').on('tombstones').column('revision').execute()
  await schema
    .alterTable('meta')
    .addColumn('history_from', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute()
}

const processes: Migration = async (schema) => {
  await schema
    .createTable('processes')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('applied_revision', 'bigint', (column) => column.notNull())
    .addColumn('last_error', 'text')
    .addColumn('seen_at', 'bigint', (column) => column.notNull())
    .execute()
}

const outbox: Migration = async (schema) => {
  await schema
    .createTable('outbox')
    .addColumn('destination', 'text', (column) => column.notNull())
    .addColumn('revision', 'bigint', (column) => column.notNull())
    .addColumn('position', 'integer', (column) => column.notNull())
    .addColumn('body', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('outbox_key', ['destination', 'revision', 'position'])
    .execute()
  await schema.createIndex('outbox_age').on('outbox').column('revision').execute()
  await schema
    .createTable('deliveries')
    .addColumn('destination', 'text', (column) => column.primaryKey())
    .addColumn('delivered', 'bigint', (column) => column.notNull())
    .addColumn('waiting', 'bigint', (column) => column.notNull())
    .addColumn('failures', 'bigint', (column) => column.notNull())
    .addColumn('last_error', 'text')
    .addColumn('last_failure_at', 'bigint')
    .addColumn('last_success_at', 'bigint')
    .execute()
  await schema
    .createTable('leases')
    .addColumn('destination', 'text', (column) => column.primaryKey())
    .addColumn('holder', 'text', (column) => column.notNull())
    .addColumn('number', 'bigint', (column) => column.notNull())
    .execute()
  await schema.alterTable('meta').addColumn('account_id', 'text').execute()
}

const board: Migration = async (schema, bytes) => {
  await schema
    .alterTable('processes')
    .addColumn('calls', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute()
  await schema
    .createTable('entries')
    .addColumn('process', 'text', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('id', 'text', (column) => column.notNull())
    .addColumn('rank', bytes, (column) => column.notNull())
    .addColumn('body', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('entries_key', ['kind', 'id', 'process'])
    .addForeignKeyConstraint('entries_process', ['process'], 'processes', ['id'], (key) => key.onDelete('cascade'))
    .execute()
  await schema.createIndex('entries_of').on('entries').column('process').execute()
  await schema.createIndex('entries_newest').on('entries').columns(['kind', 'rank']).execute()
  await schema
    .createTable('calls')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('process', 'text', (column) => column.notNull())
    .addColumn('caller', 'text', (column) => column.notNull())
    .addColumn('body', 'text', (column) => column.notNull())
    .addColumn('answer', 'text')
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addForeignKeyConstraint('calls_process', ['process'], 'processes', ['id'], (key) => key.onDelete('cascade'))
    .execute()
  await schema.createIndex('calls_for').on('calls').column('process').execute()
}

const divergence: Migration = async (schema) => {
  await schema.alterTable('processes').addColumn('diverged_at', 'bigint').execute()
}

const endedSessions: Migration = async (schema) => {
  await schema
    .createTable('ended_sessions')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('number', 'bigint', (column) => column.notNull())
    .addColumn('begun', 'bigint', (column) => column.notNull())
    .addColumn('ends', 'bigint', (column) => column.notNull())
    .execute()
  for (const column of ['number', 'begun', 'ends'])
    await schema.createIndex(`ended_sessions_${column}`).on('ended_sessions').column(column).execute()
}

const sealKey: Migration = async (schema) => {
  await schema.alterTable('meta').addColumn('seal_key', 'text').execute()
}

/** Index that answers which records refer to a record, each once and in order. */
const namedBy: Migration = async (schema) => {
  await schema.dropIndex('references_to').execute()
  await schema
    .createIndex('references_named')
    .on('references')
    .columns(['to_kind', 'to_id', 'from_kind', 'field', 'from_id'])
    .execute()
}

const deadLetters: Migration = async (schema) => {
  await schema
    .createTable('dead_letters')
    .addColumn('destination', 'text', (column) => column.notNull())
    .addColumn('number', 'bigint', (column) => column.notNull())
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addColumn('event_id', 'text')
    .addColumn('event_type', 'text')
    .addColumn('event_timestamp', 'text')
    .addColumn('attempts', 'bigint', (column) => column.notNull())
    .addColumn('reason', 'text', (column) => column.notNull())
    .addColumn('size', 'bigint', (column) => column.notNull())
    .addColumn('body', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('dead_letters_key', ['destination', 'number'])
    .execute()
  for (const column of ['letters_added', 'letters_dropped'])
    await schema
      .alterTable('deliveries')
      .addColumn(column, 'bigint', (definition) => definition.notNull().defaultTo(0))
      .execute()
}

/** Only a database shared by processes has a rate-limit ledger. */
const limitLedger: Migration = async (_schema, bytes, transaction) => {
  if (bytes === 'bytea') await createLimitLedger(transaction)
}

const loginSessions: Migration = async (schema) => {
  const table = schema
    .createTable('login_sessions')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('number', 'bigint', (column) => column.notNull())
    .addColumn('needed', 'integer', (column) => column.notNull())
    .addColumn('size', 'bigint', (column) => column.notNull())
    .addColumn('ends', 'bigint', (column) => column.notNull())
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addColumn('holder', 'text')
    .addColumn('held_at', 'bigint', (column) => column.notNull())
    .addColumn('sealed', 'text')
  await table.execute()
  const create = schema.createIndex('login_sessions_size').on('login_sessions')
  await create.columns(['needed', 'at', 'id', 'size']).execute()
  await schema.createIndex('login_sessions_ends').on('login_sessions').column('ends').execute()
}

const visitors: Migration = async (schema) => {
  const users = ['provider', 'issuer', 'user_id', 'name', 'email']
  const sessions = ['session', 'visitor', 'by_user', 'by_session', 'owner', 'url', 'address', 'agent']
  for (const [name, texts, times] of [
    ['visitors', users, ['created_at', 'seen_at', 'login_at']],
    ['visits', sessions, ['begun', 'seen_at', 'ends']]
  ] as const) {
    let table = schema.createTable(name).addColumn('id', 'text', (column) => column.primaryKey())
    for (const column of texts) table = table.addColumn(column, 'text', (definition) => definition.notNull())
    for (const column of times) table = table.addColumn(column, 'bigint', (definition) => definition.notNull())
    await table.execute()
    await schema.createIndex(`${name}_seen`).on(name).column('seen_at').execute()
  }
  await schema.createIndex('visitors_user').unique().on('visitors').columns(['issuer', 'user_id']).execute()
  await schema.createIndex('visits_session').unique().on('visits').column('session').execute()
  for (const column of ['visitor', 'by_user', 'by_session', 'ends'])
    await schema.createIndex(`visits_${column}`).on('visits').column(column).execute()
}

const MIGRATIONS: readonly Migration[] = [
  records,
  history,
  processes,
  outbox,
  board,
  divergence,
  endedSessions,
  sealKey,
  namedBy,
  deadLetters,
  limitLedger,
  loginSessions,
  visitors
]

/** Schema version of this code. */
export const SCHEMA_VERSION = MIGRATIONS.length

/**
 * Migrates the schema to `target` in one transaction, forward only. Two starting processes wait for each other. Fails with
 * `STORE_SCHEMA_NEWER` if the data is newer than this code.
 */
export async function migrate(database: Database, target = SCHEMA_VERSION): Promise<{ from: number; to: number }> {
  return await database.writes.transaction().execute(async (transaction) => {
    await database.holdForMigration(transaction)
    const from = await currentVersion(transaction)
    if (from > SCHEMA_VERSION) throw newerSchema(database.name, from)
    for (const migration of MIGRATIONS.slice(from, target)) {
      await migration(transaction.schema, database.bytes, transaction)
    }
    const to = Math.max(from, target)
    if (to > from) await transaction.updateTable('meta').set({ schema_version: to }).execute()
    return { from, to }
  })
}

/** Returns the error for data of a newer version. */
export function newerSchema(name: string, version: number): StoreError {
  const message = `${name} has schema version ${version}, this version of sluice knows ${SCHEMA_VERSION}: run the newer one`
  return new StoreError('STORE_SCHEMA_NEWER', message)
}

async function currentVersion(transaction: Transaction<Tables>): Promise<number> {
  await transaction.schema
    .createTable('meta')
    .ifNotExists()
    .addColumn('one', 'integer', (column) => column.primaryKey().check(sql`one = 1`))
    .addColumn('revision', 'bigint', (column) => column.notNull())
    .addColumn('sequence', 'bigint', (column) => column.notNull())
    .addColumn('schema_version', 'integer', (column) => column.notNull())
    .execute()
  const fresh = sql`insert into meta (one, revision, sequence, schema_version) values (1, 0, 0, 0) on conflict do nothing`
  await fresh.execute(transaction)
  const meta = await transaction.selectFrom('meta').select('schema_version').executeTakeFirstOrThrow()
  return meta.schema_version
}
