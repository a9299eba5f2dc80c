import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

const run = promisify(execFile)
const { describe } = (await import(`${process.cwd()}/config/artefact.mjs`)) as {
  describe(file: string, bill: string): Promise<string>
}

t.test('each artefact has a checksum that finds a changed byte', async (t) => {
  const folder = t.testdir({ 'one.tgz': 'first artefact', 'two.deb': 'second artefact' })
  const place = (name: string) => join(folder, name)
  const check = (name: string) => run('sha256sum', ['--check', '--strict', `${name}.sha256`], { cwd: folder })
  const sums: Record<string, string> = {}
  for (const name of ['one.tgz', 'two.deb']) {
    sums[name] = await describe(place(name), '{}\n')
    t.equal((await check(name)).stdout, `${name}: OK\n`)
    t.equal(await readFile(`${place(name)}.sbom.cdx.json`, 'utf8'), '{}\n')
  }
  const release = JSON.parse(await readFile(place('release.json'), 'utf8')) as { version: string; sha256: object }
  t.match(release.version, /^\d+\.\d+\.\d+$/)
  t.same(release.sha256, sums)
  await writeFile(place('one.tgz'), 'first artefacT')
  await t.rejects(check('one.tgz'), { code: 1, stdout: /one\.tgz: FAILED/ })
  await check('two.deb')
})

t.test('the checksum names the file alone, so that both can move', async (t) => {
  const folder = t.testdir({ made: { 'one.tgz': 'artefact' } })
  await describe(join(folder, 'made', 'one.tgz'), '{}\n')
  const elsewhere = join(folder, 'elsewhere')
  await mkdir(elsewhere)
  for (const name of ['one.tgz', 'one.tgz.sha256'])
    await writeFile(join(elsewhere, name), await readFile(join(folder, 'made', name)))
  await run('sha256sum', ['--check', 'one.tgz.sha256'], { cwd: elsewhere })
})
