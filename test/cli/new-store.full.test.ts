import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { LISTEN, started } from './keyed-process.js'
import { sluice } from './transfer-stand.js'

t.test('no store is made in silence where one was', async (t) => {
  const cwd = t.testdir()
  const data = join(cwd, 'data')
  await (await started(t, cwd)).stop()
  for (const end of ['', '-wal', '-shm', '.lock']) await rm(join(data, `sluice.db${end}`), { force: true })
  const refused = await sluice(t, cwd, ['start', ...LISTEN])
  t.match(refused, { code: 1, err: /there is no store .*sluice\.db, but .* sealing key.*restore.*--new-store/ })
  t.notOk((await readdir(data)).includes('sluice.db'))
  await (await started(t, cwd, ['--new-store'])).stop()
  await (await started(t, cwd)).stop()
})
