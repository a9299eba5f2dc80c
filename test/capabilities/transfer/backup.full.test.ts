import { watch } from 'node:fs'
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { checkBackup } from '../../../src/store/sqlite-backup.js'
import { SluiceProcess } from '../../cli/process.js'
import { until } from '../../helpers/until.js'
import { startPostgres } from '../../store/postgres-server.js'
import { startWriter } from '../../store/writing-process.js'
import { allOpen, keysOn, manySecrets, sealerIn, sluice, withStore } from './transfer-stand.js'

t.test('a backup with keys is all that a new folder needs', async (t) => {
  const cwd = t.testdir()
  const data = join(cwd, 'data')
  const seal = await sealerIn(data)
  await withStore(t, join(data, 'sluice.db'), (store) => manySecrets(store, seal, 10))
  await writeFile(join(data, 'api-keys.json'), '{"keys": []}')
  const plain = await sluice(t, cwd, ['backup', 'plain.db'])
  t.match(plain, { code: 0, out: 'plain.db: revision 1, without keys' }, plain.err)
  const key = (await readFile(join(data, 'seal.key'), 'utf8')).trim()
  t.notOk((await readFile(join(cwd, 'plain.db'))).includes(key), 'a key is there only when it was asked for')
  const keyed = await sluice(t, cwd, ['backup', '--with-keys', 'keyed.db'])
  t.match(keyed, { code: 0, out: 'keyed.db: revision 1, with api-keys.json, seal.key' }, keyed.err)
  for (const name of ['plain.db', 'keyed.db']) t.equal((await stat(join(cwd, name))).mode & 0o777, 0o600)

  const into = await sluice(t, cwd, ['restore', 'keyed.db', '--data', 'other'])
  t.match(into, { code: 0, out: /revision 1, with api-keys.json, seal.key/, err: '' })
  const other = join(cwd, 'other')
  t.equal((await stat(join(other, 'seal.key'))).mode & 0o777, 0o600)
  t.notOk((await readFile(join(other, 'sluice.db'))).includes(key), 'no key stays in the database')
  const keys = await keysOn(other)
  await withStore(t, join(other, 'sluice.db'), (store) => allOpen(t, store, keys, 10))
})

t.test('nothing is replaced without a word', async (t) => {
  const cwd = t.testdir()
  const data = join(cwd, 'data')
  await sealerIn(data)
  await withStore(t, join(data, 'sluice.db'), async () => undefined)
  t.equal((await sluice(t, cwd, ['backup', '--with-keys', 'b.db'])).code, 0)
  t.match(await sluice(t, cwd, ['backup', 'b.db']), { code: 1, err: /b\.db is there already; --overwrite/ })
  const self = await sluice(t, cwd, ['backup', join('data', 'sluice.db'), '--overwrite'])
  t.match(self, { code: 1, err: /is the store itself/ })
  await rm(join(data, 'seal.key'))
  const other = await sealerIn(data)
  const refused = await sluice(t, cwd, ['restore', 'b.db'])
  t.match(refused, { code: 1, err: /sluice\.db, .*seal\.key already there; --overwrite replaces them/ })
  t.equal((await keysOn(data))[0]?.keyId, other.keyId)
  await withStore(t, join(data, 'sluice.db'), async () => {
    const locked = await sluice(t, cwd, ['restore', 'b.db', '--overwrite'])
    t.match(locked, { code: 1, err: /is in use by process \d+.*end that process first/ })
  })
  t.equal((await sluice(t, cwd, ['restore', 'b.db', '--overwrite'])).code, 0)
  t.not((await keysOn(data))[0]?.keyId, other.keyId)
  t.ok((await readdir(data)).includes(`seal.key.${other.keyId}`), 'a key that was replaced is still there')
  t.match(await sluice(t, cwd, ['backup', 'c.db', '--data', 'none']), { code: 1, err: /there is no store/ })
  t.match(await sluice(t, cwd, ['restore', 'none.db']), { code: 1, err: /there is no file none\.db/ })
  await writeFile(join(cwd, 'text'), 'text')
  t.match(await sluice(t, cwd, ['restore', 'text', '--overwrite']), {
    code: 1,
    err: /^nothing was restored: text is damaged, or no backup \(SQLITE_NOTADB\); name a file/
  })
})

t.test('kill -9 leaves the backup before or the next one, and the next run sweeps', async (t) => {
  const cwd = t.testdir({ backups: {} })
  const path = join(cwd, 'data', 'sluice.db')
  const seal = await sealerIn(join(cwd, 'data'))
  await withStore(t, path, (store) => manySecrets(store, seal, 20_000))
  const folder = join(cwd, 'backups')
  const words = ['backup', join('backups', 'b.db'), '--overwrite']
  let killed = 0
  for (let round = 0; round < 4; round++) {
    const backing = new SluiceProcess(t, words, { cwd })
    // After the first, the second, … thing that happens in the folder.
    let events = 0
    const watcher = watch(folder, () => {
      if (++events === round + 1) backing.child.kill('SIGKILL')
    })
    const { code } = await backing.ended()
    watcher.close()
    if (code === null) killed++
    if ((await readdir(folder)).includes('b.db')) t.equal(checkBackup(join(folder, 'b.db')).revision, 1)
  }
  t.ok(killed > 0, `${killed} were killed`)
  const last = await sluice(t, cwd, words)
  t.equal(last.code, 0, last.err)
  t.same(await readdir(folder), ['b.db'])
})

t.test('beside a process that writes', async (t) => {
  const cwd = t.testdir()
  const writer = await startWriter(t, join(cwd, 'data', 'sluice.db'))
  const writing = writer.killAfter(Number.POSITIVE_INFINITY)
  await until(() => writer.acknowledged() > 0)
  const { code, err } = await sluice(t, cwd, ['backup', 'b.db'])
  t.equal(code, 0, err)
  process.kill(writer.pid, 'SIGKILL')
  await writing
  t.ok(checkBackup(join(cwd, 'b.db')).revision > 0)
})

t.test('on PostgreSQL it says what to use', async (t) => {
  const server = await startPostgres(t)
  const url = await server.database()
  const cwd = t.testdir()
  const env = { SLUICE_STORE: url }
  t.match(await sluice(t, cwd, ['backup', 'b.db'], env), { code: 1, err: /PostgreSQL at .*pg_dump.*sluice export/ })
  await writeFile(join(cwd, 'b.db'), '')
  t.match(await sluice(t, cwd, ['restore', 'b.db'], env), { code: 1, err: /PostgreSQL at .*pg_restore.*sluice import/ })
})
