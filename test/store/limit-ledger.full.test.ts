import t from 'tap'
import { PostgresLimitLedger } from '../../src/store/limit-ledger.js'
import { ledgerSuite } from '../features/rate-limit/leases/ledger-suite.js'
import { Lines } from './opened.js'
import { startPostgres } from './postgres-server.js'

const server = await startPostgres(t)
const migrated = await server.migrated()

ledgerSuite(t, async (t, time) => {
  const ledger = new PostgresLimitLedger(await server.database(migrated), { log: new Lines(), now: () => time.now })
  t.teardown(() => ledger.close())
  return ledger
})
