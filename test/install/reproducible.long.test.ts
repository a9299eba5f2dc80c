import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { inheritedEnvironment } from '../cli/process.js'

const run = promisify(execFile)
const LINUX = process.platform === 'linux' && process.arch === 'x64'
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
const ARTEFACTS = ['sluice', `sluice-${version}.tgz`, `sluice_${version}_amd64.deb`].flatMap((name) => [
  name,
  `${name}.sbom.cdx.json`,
  `${name}.sha256`
])

/** Builds all artefacts in a clone; returns the digest of each file by its name. */
async function build(clone: string): Promise<Record<string, string>> {
  const out = join(clone, 'dist-binary')
  const node = async (...words: string[]) =>
    await run(process.execPath, words, { cwd: clone, env: inheritedEnvironment() })
  await node('config/npm-package.mjs', '--out', out)
  await node('config/binary.mjs', '--out', join(out, 'sluice'))
  await node('config/debian.mjs', '--binary', join(out, 'sluice'), '--out', out)
  const digests: Record<string, string> = {}
  for (const name of (await readdir(out)).sort())
    digests[name] = createHash('sha256')
      .update(await readFile(join(out, name)))
      .digest('hex')
  for (const name of Object.keys(digests).filter((each) => each.endsWith('.sha256')))
    await run('sha256sum', ['--check', '--strict', name], { cwd: out })
  return digests
}

t.test(
  'two builds have one digest, with the development packages and without, in other folders',
  { skip: !LINUX && 'for Linux', timeout: 1_400_000 },
  async (t) => {
    // Outside the project: npm and the build look for packages in all folders above.
    const folder = await mkdtemp(join(tmpdir(), 'sluice-reproducible-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    const [first, second] = [join(folder, 'one'), join(folder, 'another', 'clone')]
    await mkdir(join(folder, 'another'))
    for (const clone of [first, second]) await run('git', ['clone', '--quiet', process.cwd(), clone])
    await run('cp', ['-a', join(process.cwd(), 'node_modules'), first])
    await run(process.execPath, ['config/build.mjs', 'dist'], { cwd: first })
    const words = ['ci', '--omit=dev', '--no-audit', '--no-fund']
    await run('npm', words, { cwd: second, env: inheritedEnvironment() })
    const digests = await build(first)
    t.same(Object.keys(digests), [...ARTEFACTS, 'release.json'].sort())
    t.same(await build(second), digests)
  }
)
