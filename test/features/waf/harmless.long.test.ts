import t from 'tap'
import { setRequestBody } from '../../../src/features/waf/engine/body-values.js'
import { setRequestHead } from '../../../src/features/waf/engine/request-values.js'
import { Transaction } from '../../../src/features/waf/engine/transaction.js'
import { atOnce } from '../../../src/lib/slices.js'
import { compileCrs, crsFolder } from './crs-suite.js'
import { FALSE_POSITIVES, HARMLESS_SETTINGS, harmlessRequests } from './harmless.js'

const skip = crsFolder === undefined ? 'there is no folder of the Core Rule Set: set SLUICE_CRS' : false

/** Ids of the rules that detect attacks, and not of those that set up a transaction or sum up scores. */
const isDetection = (id: number) => id >= 911_000 && id < 949_000

t.test(
  'rules of paranoia level 1 deny only those harmless requests that ModSecurity denies, too',
  { skip },
  async (t) => {
    const rules = await compileCrs(crsFolder as string, HARMLESS_SETTINGS)
    const plan = rules.plan(1)
    const matched: Record<string, readonly number[]> = {}
    for (const { name, method, uri, headers, body } of harmlessRequests) {
      const transaction = new Transaction({ budget: 1_000_000_000, fixed: plan.fixed })
      const list = Object.entries(headers).flat()
      setRequestHead(transaction, {
        id: 'r1',
        method,
        target: uri,
        protocol: 'HTTP/1.1',
        headers: list.map((text) => Buffer.from(text, 'utf8').toString('latin1')),
        clientAddress: '192.0.2.10',
        clientPort: 40_000,
        serverName: 'app.example.com',
        serverPort: 443
      })
      atOnce(plan.run(1, transaction))
      if (body !== undefined) setRequestBody(transaction, { bytes: Buffer.from(body), truncated: false }, list)
      atOnce(plan.run(2, transaction))
      const ids = [...new Set(transaction.reported.map(({ id }) => id))].filter(isDetection)
      if (transaction.denied !== undefined || ids.length > 0) matched[name] = ids
    }
    t.ok(harmlessRequests.length >= 150, `${harmlessRequests.length} requests`)
    t.same(matched, Object.fromEntries(Object.entries(FALSE_POSITIVES).map(([name, { rules }]) => [name, rules])))
  }
)
