import { existsSync, readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { projectFile } from '../helpers/files.js'
import { CAPABILITY_TESTS, IN_EACH_START } from './capability-tests.js'
import { stepsBelow } from './pages.js'

/** Lists that the long runs of this folder use: their faults are found in each run. */

t.test('a test of each capability is run with the executable', async (t) => {
  const folders = readdirSync(join('src', 'capabilities'), { withFileTypes: true }).filter((each) => each.isDirectory())
  t.same(folders.map(({ name }) => name).sort(), [...Object.keys(CAPABILITY_TESTS), ...IN_EACH_START].sort())
  for (const file of Object.values(CAPABILITY_TESTS)) t.ok(existsSync(file), file)
})

t.test('docs/install.md has four ways of three lines', async (t) => {
  for (const way of ['One executable file', 'Debian package', 'npm package', 'Container image']) {
    const lines = (await stepsBelow(way)).trim().split('\n')
    t.equal(lines.length, 3, way)
  }
})

t.test('file names of the lines are those that the builds make', async (t) => {
  const { version, scripts } = JSON.parse(await readFile(projectFile('package.json'), 'utf8')) as {
    version: string
    scripts: Record<string, string>
  }
  const [binary, deb, npm] = await Promise.all(['One executable file', 'Debian package', 'npm package'].map(stepsBelow))
  t.match(deb, `sluice_${version}_amd64.deb`)
  t.match(npm, `sluice-${version}.tgz`)
  for (const [, name = ''] of `${binary}${deb}${npm}`.matchAll(/npm run (\S+)/g)) t.ok(name in scripts, name)
})
