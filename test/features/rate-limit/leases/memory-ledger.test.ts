import t from 'tap'
import { ledgerSuite } from './ledger-suite.js'
import { MemoryLedger } from './memory-ledger.js'

ledgerSuite(t, async (_t, time) => new MemoryLedger(() => time.now))
