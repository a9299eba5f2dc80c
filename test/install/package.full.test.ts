import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { inheritedEnvironment } from '../cli/process.js'
import { sizeOf, staged, withPackages } from './staged.js'

const run = promisify(execFile)
const MOST = 60 * 2 ** 20
const ENV = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' }

/** Starts the product of a folder; answers its addresses. */
async function started(t: Test, folder: string, cwd: string): Promise<{ traffic: string; api: string }> {
  const words = [join(folder, 'dist', 'main.js'), 'start', '--demo', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
  const child = spawn(process.execPath, words, { cwd, env: ENV, stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null) await once(child, 'close')
  })
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.includes('"msg":"listening"')) return JSON.parse(line)
  }
  throw new Error('it did not start')
}

async function serves(t: Test, folder: string, cwd: string): Promise<void> {
  const { traffic, api } = await started(t, folder, cwd)
  t.equal((await fetch(traffic)).status, 200)
  for (const path of [
    '/',
    '/dashboard/lib/preact.module.js',
    '/dashboard/lib/uPlot.iife.min.js',
    '/docs/swagger-ui-bundle.js'
  ]) {
    t.equal((await fetch(`${api}${path}`)).status, 200, path)
  }
}

t.test('what npm packs runs with its own dependencies alone, and is small', async (t) => {
  const project = t.testdir()
  await staged(project)
  // Proxies and certificates of the machine, for npm.
  const npm = { env: { ...inheritedEnvironment(), npm_config_update_notifier: 'false' } }
  await run(process.execPath, ['config/npm-package.mjs', '--out', project], { cwd: project, ...npm })
  const [filename = ''] = (await readdir(project)).filter((name) => name.endsWith('.tgz'))
  const unpacked = join(project, 'unpacked')
  await mkdir(unpacked)
  await run('tar', ['-xzf', join(project, filename), '-C', unpacked])
  const folder = join(unpacked, 'package')
  const paths = await readdir(folder, { recursive: true })
  for (const path of [
    'dist/main.js',
    'dist/launch.mjs',
    'config/systemd/sluice.service',
    'config/container/Containerfile'
  ])
    t.ok(paths.includes(path), path)
  t.same(
    paths.filter((path) => /\.ts$|^test\/|\.map$/.test(path)),
    [],
    'no source, no test'
  )
  t.notMatch(JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')), { scripts: {} })
  const packages = await withPackages(folder)
  t.match(packages.map((place) => place.split('node_modules/').at(-1)).sort(), [
    '@ip-location-db/geo-whois-asn-country-mmdb'
  ])
  let size = await sizeOf(folder)
  // One build of the database library serves a machine; where npm does not tell musl from glibc, both are there.
  const musl = packages.filter((place) => place.endsWith('-musl'))
  for (const place of packages) if (!musl.includes(place)) size += await sizeOf(place)
  t.ok(size <= MOST, `${(size / 2 ** 20).toFixed(1)} MiB`)
  const cwd = join(project, 'cwd')
  await mkdir(cwd)
  await serves(t, folder, cwd)
  const linked = await readdir(join(folder, 'node_modules'))
  t.notOk(linked.includes('fastify'), 'the bundle has what it needs')
})

t.test(
  'a clone installs without development packages',
  { skip: process.env.SLUICE_TEST_LONG === undefined && 'a long run: it needs the registry' },
  async (t) => {
    const folder = t.testdir()
    const clone = join(folder, 'clone')
    await run('git', ['clone', '--quiet', process.cwd(), clone])
    await run('npm', ['ci', '--omit=dev', '--no-audit', '--no-fund'], { cwd: clone, env: inheritedEnvironment() })
    const manifest = JSON.parse(await readFile(join(clone, 'package.json'), 'utf8')) as { dependencies: object }
    t.notOk((await readdir(join(clone, 'node_modules'))).includes('esbuild'))
    for (const name of Object.keys(manifest.dependencies)) t.ok(await readdir(join(clone, 'node_modules', name)))
    const size = (await sizeOf(join(clone, 'node_modules'))) + (await sizeOf(join(clone, 'dist')))
    t.ok(size <= MOST, `${(size / 2 ** 20).toFixed(1)} MiB`)
    await serves(t, clone, folder)
  }
)

t.test('an installation without the SQLite library of its machine says what to do', async (t) => {
  const project = t.testdir({ cwd: {} })
  await staged(project)
  await withPackages(project)
  const library = join(project, 'node_modules', 'libsql')
  await rm(library)
  await mkdir(library)
  await writeFile(join(library, 'index.js'), "require('@libsql/this-machine')\n")
  const words = [join(project, 'dist', 'main.js'), 'start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
  const told = await run(process.execPath, words, { cwd: join(project, 'cwd'), env: ENV }).catch((e: unknown) => e)
  t.match(told, {
    code: 1,
    stderr:
      /the SQLite library cannot be loaded: Cannot find module '@libsql\/this-machine'.*; install Sluice for this mach/
  })
  t.equal((told as { stderr: string }).stderr.trim().split('\n').length, 1)
})

t.test('the command of a clone runs from any folder, also by a link, and asks no registry', async (t) => {
  const project = t.testdir({ elsewhere: {} })
  await staged(project)
  await withPackages(project)
  await cp('sluice', join(project, 'sluice'))
  const elsewhere = join(project, 'elsewhere')
  await symlink(join('..', 'sluice'), join(elsewhere, 'linked'))
  const env = { ...ENV, npm_config_registry: 'http://127.0.0.1:1' }
  for (const command of [join(project, 'sluice'), join(elsewhere, 'linked')]) {
    const { stdout } = await run(command, ['--version'], { cwd: elsewhere, env })
    t.match(stdout, /^\d+\.\d+\.\d+ \(.*Node \d+\.\d+\.\d+\)\n$/)
  }
})
