import t from 'tap'
import { statuses } from './codes.js'
import { apiStatusOf } from './product.js'
import { sameAsRecorded } from './recorded.js'

/**
 * Codes of refusals, failures and problems with their HTTP statuses. `error-tables.test.ts` says that these are all of
 * them. Recorded again with SLUICE_RECORD=1 (see `recorded.ts`).
 */

t.test('codes and their statuses', async (t) => {
  const lines = [...statuses].map(([code, of]) => `${code} ${of.join(' ')}`.trim()).sort()
  await sameAsRecorded(t, 'error-codes', lines)
})

t.test('the status that the API gives to each code of a refusal', async (t) => {
  const lines = [...statuses.keys()].sort().map((code) => `${code} ${apiStatusOf(code)}`)
  await sameAsRecorded(t, 'api-error-statuses', lines)
})
