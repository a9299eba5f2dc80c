import { mkdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { makeFolder } from '../../src/lib/files.js'

t.test('a folder is made with those above it, for this user alone', async (t) => {
  const path = join(t.testdir(), 'a', 'b', 'c')
  makeFolder(path)
  t.equal((await stat(path)).mode & 0o777, 0o700)
  makeFolder(path)
  t.pass('one that is there stays')
})

t.test('where no folder can be made, the reason is thrown at once', async (t) => {
  const cwd = t.testdir()
  await writeFile(join(cwd, 'file'), '')
  await mkdir(join(cwd, 'folder'))
  t.throws(() => makeFolder(join(cwd, 'file')), { code: 'EEXIST' })
  t.throws(() => makeFolder(join(cwd, 'file', 'below')), { code: 'ENOTDIR' })
  t.throws(() => makeFolder('/proc/sluice/below'), { code: 'ENOENT' })
})
