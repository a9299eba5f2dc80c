import t from 'tap'
import { PostgresLimitLedger } from '../../src/store/limit-ledger.js'
import { migrate } from '../../src/store/migrations.js'
import { PostgresDriver, postgresDatabase } from '../../src/store/postgres.js'
import { ledgerSuite } from '../features/rate-limit/leases/ledger-suite.js'
import { Lines } from './opened.js'
import { startPostgres } from './postgres-server.js'

const server = await startPostgres(t)
const empty = await server.database()
const database = postgresDatabase(new PostgresDriver(empty, new Lines()))
await migrate(database)
await database.close()

ledgerSuite(t, async (t, time) => {
  const ledger = new PostgresLimitLedger(await server.database(empty), { log: new Lines(), now: () => time.now })
  t.teardown(() => ledger.close())
  return ledger
})
