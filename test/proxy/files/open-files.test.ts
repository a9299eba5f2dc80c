import { rename, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { DescriptorShares } from '../../../src/lib/descriptor-shares.js'
import { type FileFacts, factsOf } from '../../../src/proxy/files/folder.js'
import { OpenFiles } from '../../../src/proxy/files/open-files.js'
import { folderOf, place } from './folder.js'

async function lookAt(path: string): Promise<FileFacts> {
  return factsOf(await stat(path, { bigint: true }), path)
}

t.test('a thousand readers share a descriptor and 16 MiB', async (t) => {
  const folder = await folderOf(t, { 'a.bin': 'content', 'b.bin': 'other' })
  const facts = await lookAt(join(folder, 'a.bin'))
  const files = new OpenFiles(undefined)
  const first = await files.take(facts)
  t.equal(files.slab, 128 * 1024, 'one reads a lot at a time')
  const all = [first, ...(await Promise.all(Array.from({ length: 999 }, () => files.take(facts))))]
  t.equal(files.size, 1)
  t.equal(files.slab, Math.floor((16 * 1024 * 1024) / 1000))
  const more = await Promise.all(Array.from({ length: 1_000 }, () => files.take(facts)))
  t.equal(files.slab, 16 * 1024, 'and no less than that')
  const other = await files.take(await lookAt(join(folder, 'b.bin')))
  t.equal(files.size, 2)
  for (const file of [...all, ...more, other]) file?.release()
  t.equal(files.size, 0)
})

t.test('a file that is another one by now is not opened', async (t) => {
  const folder = await folderOf(t, {
    'a.txt': 'content',
    'b.txt': 'CONTENT',
    'in/c.txt': 'content',
    'secret/c.txt': 'content'
  })
  const files = new OpenFiles(undefined)
  const a = await lookAt(join(folder, 'a.txt'))
  const c = await lookAt(join(folder, 'in/c.txt'))
  await rename(join(folder, 'b.txt'), join(folder, 'a.txt'))
  t.equal(await files.take(a), undefined, 'replaced')
  await rename(join(folder, 'in'), join(folder, 'moved'))
  t.equal(await files.take(c), undefined, 'gone')
  await symlink(join(folder, 'moved'), join(folder, 'in'))
  t.equal(await files.take(c), undefined, 'a link in the path leads to it')
  await place(join(folder, 'link.txt'), '->a.txt')
  t.equal(await files.take({ ...(await lookAt(join(folder, 'a.txt'))), place: join(folder, 'link.txt') }), undefined)
  t.equal(files.size, 0)
})

t.test('without a descriptor the request is refused', async (t) => {
  const folder = await folderOf(t, { 'a.txt': 'content', 'b.txt': 'other' })
  const shares = new DescriptorShares()
  shares.allow(4)
  const files = new OpenFiles(shares)
  const facts = await lookAt(join(folder, 'a.txt'))
  const file = await files.take(facts)
  shares.countUpstream(1)
  shares.countUpstream(1)
  await t.rejects(files.take(await lookAt(join(folder, 'b.txt'))), { message: 'no descriptor is left for a file' })
  t.ok(await files.take(facts), 'one that is open serves more')
  file?.release()
})
