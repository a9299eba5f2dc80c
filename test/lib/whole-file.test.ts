import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { createFile, readPrivateFile, replaceFile } from '../../src/lib/files.js'

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
})
