import { rename, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { asker } from '../api/asking.js'
import { startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'

const DAMAGES: Record<string, (path: string) => Promise<void>> = {
  deleted: (path) => unlink(path),
  replaced: async (path) => {
    await writeFile(`${path}.new`, 'x'.repeat(8192))
    await rename(`${path}.new`, path)
  }
}

for (const [what, damage] of Object.entries(DAMAGES)) {
  t.test(`a store that is ${what} while the process runs refuses reads and writes with the reason`, async (t) => {
    const data = join(t.testdir(), 'data')
    const sluice = await startSluice(t, { options: { DATA: data } })
    const ask = asker('127.0.0.1', sluice.apiPort)
    const key = sluice.apiKey
    const body = { name: 'main' }
    t.equal((await ask('/vaults', { key, method: 'POST', body })).status, 201)
    t.equal((await ask('/readyz', {})).json.status, 'ready')
    await damage(join(data, 'sluice.db'))
    for (const asked of [{ method: 'POST', body: { name: 'other' } }, { method: 'GET' }]) {
      const { status, json } = await ask('/vaults', { key, ...asked })
      t.match({ status, msg: json.msg }, { status: 503, msg: /the file of the store was deleted, emptied or replaced/ })
    }
    await until(async () => (await ask('/readyz', {})).json.reasons?.includes('store_failing') === true)
  })
}
