import t from 'tap'
import { setRequestBody } from '../../../src/features/waf/engine/body-values.js'
import { setRequestHead } from '../../../src/features/waf/engine/request-values.js'
import { Transaction } from '../../../src/features/waf/engine/transaction.js'
import { atOnce } from '../../../src/lib/slices.js'
import { compileCrs, crsFolder } from './crs-suite.js'
import { harmlessRequests } from './harmless.js'

const skip = crsFolder === undefined ? 'there is no folder of the Core Rule Set: set SLUICE_CRS' : false

/** Methods and types of APIs, which an operator permits in `crs-setup.conf`. */
const SETTINGS = `
SecAction "id:900200,phase:1,pass,nolog,setvar:'tx.allowed_methods=GET HEAD POST OPTIONS PUT PATCH DELETE',\\
  setvar:'tx.allowed_request_content_type=|application/x-www-form-urlencoded| |multipart/form-data| |application/json| |application/xml| |text/plain|'"
`

/** Requests that match patterns of the rules as written: every engine blocks them. Operators exclude these rules for such routes. */
const BLOCKED_BY_RULES: Readonly<Record<string, readonly number[]>> = {
  // `"load ` begins a statement of MySQL.
  'search with quotes': [942360],
  // `{ node ` is a command of a shell, and `User(` a function of SQL.
  'GraphQL query': [932235, 942190]
}

t.test('no harmless request is blocked at paranoia level 1', { skip }, async (t) => {
  const rules = await compileCrs(crsFolder as string, SETTINGS)
  const plan = rules.plan(1)
  const blocked: string[] = []
  for (const { name, method, uri, headers, body } of harmlessRequests) {
    const transaction = new Transaction({ budget: 1_000_000_000, fixed: plan.fixed })
    const bytes = Buffer.from(body ?? '')
    const list = Object.entries(headers).flat()
    if (body !== undefined) list.push('content-length', String(bytes.length))
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
    if (body !== undefined) setRequestBody(transaction, { bytes, truncated: false }, list)
    atOnce(plan.run(2, transaction))
    if (transaction.denied === undefined) continue
    const ids = transaction.reported.filter(({ severity }) => severity !== '').map(({ id }) => id)
    const unexpected = ids.filter((id) => id < 949_000 && BLOCKED_BY_RULES[name]?.includes(id) !== true)
    if (unexpected.length > 0 || BLOCKED_BY_RULES[name] === undefined) blocked.push(`${name}: ${ids.join(', ')}`)
  }
  t.ok(harmlessRequests.length >= 60, `${harmlessRequests.length} requests`)
  t.same(blocked, [])
})
