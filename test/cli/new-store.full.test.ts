import { readdir, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { mustNotBeLost } from '../../src/options/catalogue.js'
import { sluice } from '../capabilities/transfer/transfer-stand.js'
import { until } from '../helpers/until.js'
import { LISTEN, started } from './keyed-process.js'

t.test('no store is made in silence where one was', async (t) => {
  const cwd = t.testdir()
  const data = join(cwd, 'data')
  const first = await started(t, cwd)
  await until(async () => (await readdir(data)).includes('configuration.copy'))
  await first.stop()
  for (const end of ['', '-wal', '-shm', '.lock']) await rm(join(data, `sluice.db${end}`), { force: true })
  const refused = await sluice(t, cwd, ['start', ...LISTEN])
  t.match(refused, { code: 1, err: /there is no store .*sluice\.db, but .* a copy of one.*restore.*--new-store/ })
  t.notOk((await readdir(data)).includes('sluice.db'))
  await (await started(t, cwd, ['--new-store'])).stop()
  await (await started(t, cwd)).stop()
})

t.test(
  'a store that was emptied is refused like one that is not there, and its copy stays',
  { timeout: 90_000 },
  async (t) => {
    const cwd = t.testdir()
    const data = join(cwd, 'data')
    const copies = async () => (await readdir(data)).filter((name) => name.startsWith('configuration.copy')).sort()
    const first = await started(t, cwd)
    await until(async () => (await copies()).includes('configuration.copy'))
    await first.stop()
    for (const end of ['-wal', '-shm']) await rm(join(data, `sluice.db${end}`), { force: true })
    await truncate(join(data, 'sluice.db'))
    const empty = { code: 1, err: /the store .*sluice\.db is empty, but .* a copy of one.*restore.*--new-store/ }
    t.match(await sluice(t, cwd, ['start', ...LISTEN]), empty)
    t.same(await copies(), ['configuration.copy'])
    await (await started(t, cwd, ['--new-store'])).stop()
    t.ok((await copies()).includes('configuration.copy.1'), 'what is made on purpose sets the copy aside')
  }
)

t.test('a store is gone where its copy shows that there was one; a key alone shows nothing', (t) => {
  const files = { 'seal.key': 'key', 'configuration.copy': 'copy' }
  for (const store of [undefined, '', 'x'.repeat(511)]) {
    const file = store === undefined ? {} : { 'sluice.db': store }
    const folder = t.testdir({ ...files, ...file })
    t.throws(() => mustNotBeLost(join(folder, 'sluice.db'), folder), { code: 'STORE_ABSENT' }, `${store?.length}`)
    for (const key of [{}, { 'seal.key': files['seal.key'] }]) {
      const fresh = t.testdir({ ...key, ...file })
      t.doesNotThrow(() => mustNotBeLost(join(fresh, 'sluice.db'), fresh), 'nothing shows it')
    }
  }
  const folder = t.testdir({ ...files, 'sluice.db': 'x'.repeat(512) })
  t.doesNotThrow(() => mustNotBeLost(join(folder, 'sluice.db'), folder), 'SQLite says what is wrong with it')
  const mounted = t.testdir({ 'configuration.copy': {} })
  t.doesNotThrow(() => mustNotBeLost(join(mounted, 'sluice.db'), mounted), 'a folder is no copy')
  for (const address of [':memory:', 'postgres://user@host/name']) t.doesNotThrow(() => mustNotBeLost(address, folder))
  t.end()
})
