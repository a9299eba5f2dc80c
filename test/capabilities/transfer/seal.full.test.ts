import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parseSealKey, Sealer } from '../../../src/lib/seal.js'
import { SluiceProcess } from '../../cli/process.js'
import { startPostgres } from '../../store/postgres-server.js'
import { allOpen, freshKey, keysOn, manySecrets, printed, sealerIn, sluice, withStore } from './transfer-stand.js'

t.test('the key changes, every secret opens with the new one, and the old one is gone', async (t) => {
  const cwd = t.testdir()
  const data = join(cwd, 'data')
  const old = await sealerIn(data)
  await withStore(t, join(data, 'sluice.db'), (store) => manySecrets(store, old, 2500))
  const { code, out, err } = await sluice(t, cwd, ['seal', 'rotate', '--data', data])
  t.equal(code, 0, err)
  t.match(out, /^1000 encrypted again\n2000 encrypted again\n2500 values encrypted again; the key is now [0-9a-f]{16}$/)
  const keys = await keysOn(data)
  t.equal(keys.length, 1)
  t.not(keys[0]?.keyId, old.keyId)
  t.equal((await stat(join(data, 'seal.key'))).mode & 0o777, 0o600)
  t.same(
    (await readdir(data)).filter((name) => name.startsWith('seal.')),
    ['seal.key']
  )
  await withStore(t, join(data, 'sluice.db'), (store) => allOpen(t, store, keys, 2500))
})

t.test('kill -9 at any moment leaves secrets that open with the keys on disk, and a second run ends it', async (t) => {
  const cwd = t.testdir()
  const data = join(cwd, 'data')
  const first = await sealerIn(data)
  const count = 4000
  await withStore(t, join(data, 'sluice.db'), (store) => manySecrets(store, first, count))
  const moments = [
    (process: SluiceProcess) => printed(process, '1000 encrypted again'),
    (process: SluiceProcess) => printed(process, '3000 encrypted again'),
    (process: SluiceProcess) => printed(process, '4000 encrypted again')
  ]
  for (const moment of moments) {
    const rotating = new SluiceProcess(t, ['seal', 'rotate', '--data', data], { cwd })
    await moment(rotating)
    rotating.child.kill('SIGKILL')
    await rotating.ended()
    const keys = await keysOn(data)
    const used = await withStore(t, join(data, 'sluice.db'), (store) => allOpen(t, store, keys, count))
    t.equal(used.size, 1, 'all of them or none')
  }
  const { code, out } = await sluice(t, cwd, ['seal', 'rotate', '--data', data])
  t.equal(code, 0)
  t.match(out, /the key is now/)
  const keys = await keysOn(data)
  t.equal(keys.length, 1)
  t.not(keys[0]?.keyId, first.keyId)
  await withStore(t, join(data, 'sluice.db'), (store) => allOpen(t, store, keys, count))
})

t.test('a change that died between the commit and the end goes on', async (t) => {
  const cwd = t.testdir()
  const data = join(cwd, 'data')
  await sealerIn(data)
  const next = await sealerIn(join(data, 'seal.next'))
  await withStore(t, join(data, 'sluice.db'), (store) => manySecrets(store, next, 10))
  const { code, out } = await sluice(t, cwd, ['seal', 'rotate', '--data', data])
  t.equal(code, 0)
  t.match(out, /resuming an interrupted key rotation.*\n0 values encrypted again/)
  t.match(await keysOn(data), [{ keyId: next.keyId }])
})

t.test('keys of the environment, on PostgreSQL', async (t) => {
  const server = await startPostgres(t)
  const url = await server.database()
  const [old, next] = [freshKey(), freshKey()]
  const cwd = t.testdir()
  await withStore(t, url, (store) => manySecrets(store, new Sealer(parseSealKey(old)), 20))
  const words = ['seal', 'rotate', '--store', url]
  const half = await sluice(t, cwd, words, { SLUICE_SEAL_KEY: old })
  t.equal(half.code, 2)
  t.match(half.err, /SLUICE_SEAL_KEY_NEW/)
  const same = await sluice(t, cwd, words, { SLUICE_SEAL_KEY: old, SLUICE_SEAL_KEY_NEW: old })
  t.equal(same.code, 1)
  t.match(same.err, /the new sealing key is the old one/)
  const wrong = await sluice(t, cwd, words, { SLUICE_SEAL_KEY: freshKey(), SLUICE_SEAL_KEY_NEW: next })
  t.equal(wrong.code, 1)
  t.match(wrong.err, /is sealed by the key [0-9a-f]{16}, which is not here/)
  await withStore(t, url, (store) =>
    store.reportProcess({ id: 'proc_1', appliedRevision: 1, lastError: null, divergedAt: null })
  )
  const { code, out, err } = await sluice(t, cwd, words, { SLUICE_SEAL_KEY: old, SLUICE_SEAL_KEY_NEW: next })
  t.equal(code, 0, err)
  t.match(out, /20 values encrypted again/)
  for (const text of [out, err, wrong.err, same.err]) for (const key of [old, next]) t.notMatch(text, key)
  await withStore(t, url, (store) => allOpen(t, store, [new Sealer(parseSealKey(next))], 20))
  t.same(await readdir(cwd), [], 'no key was written')
})

t.test('it refuses what it cannot do', async (t) => {
  const cwd = t.testdir()
  const nothing = await sluice(t, cwd, ['seal', 'rotate', '--data', join(cwd, 'none')])
  t.equal(nothing.code, 1)
  t.match(nothing.err, /there is no store/)
  t.same(await readdir(cwd), [], 'and makes nothing')
  const data = join(cwd, 'data')
  await withStore(t, join(data, 'sluice.db'), async () => undefined)
  const keyless = await sluice(t, cwd, ['seal', 'rotate', '--data', data])
  t.equal(keyless.code, 1)
  t.match(keyless.err, /there is no sealing key/)
  await sealerIn(data)
  const key = await readFile(join(data, 'seal.key'), 'utf8')
  await withStore(t, join(data, 'sluice.db'), async () => {
    const locked = await sluice(t, cwd, ['seal', 'rotate', '--data', data])
    t.equal(locked.code, 1)
    t.match(locked.err, /is in use by process \d+/)
  })
  t.equal(await readFile(join(data, 'seal.key'), 'utf8'), key)
})
