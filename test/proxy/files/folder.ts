import { mkdir, mkdtemp, realpath, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'

/** Every file of a test was modified then. */
const MODIFIED = new Date('2026-03-04T05:06:07Z')
export const LAST_MODIFIED = 'Wed, 04 Mar 2026 05:06:07 GMT'

/** A folder with these files by their paths, which goes with the test. A text that begins with `->` is the target of a link. */
export async function folderOf(t: Test, files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'sluice-files-')))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  for (const [path, content] of Object.entries(files)) await place(join(folder, path), content)
  return folder
}

/** Writes one file, with the time of all others. */
export async function place(path: string, content: string | Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  if (typeof content === 'string' && content.startsWith('->')) {
    await symlink(content.slice(2), path)
    return
  }
  await writeFile(path, content)
  await utimes(path, MODIFIED, MODIFIED)
}
