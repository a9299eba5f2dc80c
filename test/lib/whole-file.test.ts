import { chmod, chown, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { createFile, readPrivateFile, replaceFile, writtenFile } from '../../src/lib/files.js'

const folder = await mkdtemp(join(tmpdir(), 'sluice-whole-file-'))
t.teardown(() => rm(folder, { recursive: true }))
const at = (name: string) => join(folder, name)
const modeOf = async (path: string) => (await stat(path)).mode & 0o777

t.test('of many that create a file one wins, whole, for its owner alone, and nothing is left beside it', async (t) => {
  const path = at('created')
  const texts = Array.from({ length: 20 }, (_, index) => String(index).repeat(50_000))
  await Promise.all(texts.map((text) => createFile(path, text)))
  t.ok(texts.includes(await readFile(path, 'utf8')))
  t.equal(await modeOf(path), 0o600)
  const before = await readFile(path)
  await createFile(path, 'later')
  t.same(await readFile(path), before, 'what is there stays')
  t.same(await readdir(folder), ['created'])
})

t.test('a file is replaced as a whole, with the mode that is asked for', async (t) => {
  const path = at('replaced')
  await writeFile(path, 'old', { mode: 0o640 })
  await replaceFile(path, 'new')
  t.same([await readFile(path, 'utf8'), await modeOf(path)], ['new', 0o600])
  await replaceFile(path, new Uint8Array([1, 2]), 0o644)
  t.same([[...(await readFile(path))], await modeOf(path)], [[1, 2], 0o644])
  await mkdir(at('taken'))
  await t.rejects(replaceFile(at('taken'), 'x'), { code: 'EISDIR' })
  await t.rejects(replaceFile(join(folder, 'nowhere', 'x'), 'x'), { code: 'ENOENT' })
  t.same((await readdir(folder)).sort(), ['created', 'replaced', 'taken'], 'what failed leaves nothing')
})

t.test('a private file that others may read is not read', async (t) => {
  const path = at('private')
  t.equal(await readPrivateFile(path), undefined)
  await createFile(path, 'content')
  t.equal(String(await readPrivateFile(path)), 'content')
  await chmod(path, 0o640)
  t.equal(await readPrivateFile(path), 'exposed')
  await t.rejects(readPrivateFile(folder), { code: 'EISDIR' }, 'a folder is no file that others may read')
})

t.test('links are followed, also to a file that is not there yet', async (t) => {
  const at = (name: string) => join(t.testdirName, name)
  t.testdir({ real: { deep: { file: 'old' } } })
  await symlink('real/deep', at('way'))
  // Seen from where the folder really is, not from the name that led to it.
  await symlink('../other', at('real/deep/up'))
  await symlink('way/file', at('link'))
  await replaceFile(at('link'), 'new')
  t.ok((await lstat(at('link'))).isSymbolicLink())
  t.equal(await readFile(at('real/deep/file'), 'utf8'), 'new')
  await replaceFile(at('way/up'), 'made')
  t.equal(await readFile(at('real/other'), 'utf8'), 'made')
  await symlink('real/created', at('dangling'))
  await createFile(at('dangling'), 'created')
  t.equal(await readFile(at('real/created'), 'utf8'), 'created')
  await symlink('round', at('round'))
  await t.rejects(replaceFile(at('round'), 'x'), { code: 'ELOOP' })
  t.same((await readdir(at('real'))).sort(), ['created', 'deep', 'other'])
})

t.test('what is replaced keeps its mode where that is asked for, and its owner', async (t) => {
  const path = join(t.testdir({ file: 'old' }), 'file')
  await chmod(path, 0o640)
  const root = process.getuid?.() === 0
  if (root) await chown(path, 12_345, 12_346)
  await replaceFile(path, 'new', 'keep')
  const { mode, uid, gid } = await stat(path)
  t.equal(mode & 0o777, 0o640)
  if (root) t.same([uid, gid], [12_345, 12_346])
  await replaceFile(`${path}.new`, 'x', 'keep')
  t.equal((await stat(`${path}.new`)).mode & 0o777, 0o600, 'a new one is for its owner alone')
})

t.test('a device is written into and stays what it is', async (t) => {
  t.equal(writtenFile('/dev/null').kind, 'other')
  await replaceFile('/dev/null', 'x')
  await t.rejects(replaceFile('/dev/full', 'x'), { code: 'ENOSPC' })
  t.ok((await stat('/dev/null')).isCharacterDevice())
  t.ok((await stat('/dev/full')).isCharacterDevice())
})
