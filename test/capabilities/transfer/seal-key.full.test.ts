import { copyFile, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parseSealKey } from '../../../src/lib/seal.js'
import { LISTEN, started } from '../../cli/keyed-process.js'
import { freshKey, manySecrets, sealerIn, sluice, withStore } from './transfer-stand.js'

t.test('a missing or a wrong key is refused with what to do, and never replaced in silence', async (t) => {
  const cwd = t.testdir()
  const data = join(cwd, 'data')
  const path = join(data, 'seal.key')
  await withStore(t, join(data, 'sluice.db'), async (store) => manySecrets(store, await sealerIn(data), 3))
  await (await started(t, cwd)).stop()
  await rename(path, join(cwd, 'kept.key'))
  for (const words of [['start', ...LISTEN], ['export']]) {
    const missing = await sluice(t, cwd, words)
    t.match(
      missing,
      { code: 1, err: /there is no .*seal\.key.*has secrets.*put it back as.*--new-seal-key/ },
      words.join(' ')
    )
    t.notOk((await readdir(data)).includes('seal.key'), 'none was made')
  }
  const other = await sealerIn(data)
  for (const words of [['start', ...LISTEN], ['export']]) {
    const wrong = await sluice(t, cwd, words)
    t.match(wrong, { code: 1, err: /secrets of 3 records are sealed by the key .*put it back.*--new-seal-key/ })
  }
  const given = await sluice(t, cwd, ['start', ...LISTEN], { SLUICE_SEAL_KEY: freshKey() })
  t.match(given, { code: 1, err: /are sealed by the key/ })

  await copyFile(join(cwd, 'kept.key'), path)
  await (await started(t, cwd)).stop()

  await rm(path)
  const lost = await started(t, cwd, ['--new-seal-key'])
  const said = await lost.running.logged('the store goes on with another sealing key').catch(() => undefined)
  t.match(said, { records: 3 })
  const { json } = await lost.ask('/vault_secrets')
  t.equal(json.secrets.length, 3)
  const id = json.secrets[0].id
  t.match(await lost.ask(`/vault_secrets/${id}`, { method: 'PATCH', body: { value: 'anew' } }), { status: 200 })
  await lost.stop()
  const again = await started(t, cwd)
  t.match((await again.ask('/healthz')).json, { status: 'degraded' })
  await again.stop()
  t.not(parseSealKey(await readFile(path, 'utf8')).id, other.keyId)
})
