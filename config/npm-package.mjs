import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { billOfMaterials, bundledPlaces, describe } from './artefact.mjs'

/** `node config/npm-package.mjs [--out FOLDER]`: the product in `dist` as an npm package, with its checksum and bill of materials. */
const root = dirname(dirname(fileURLToPath(import.meta.url)))
/** Parts of the manifest that mean nothing where there are no sources. */
const OF_A_CLONE = ['scripts', 'devDependencies', 'overrides', 'allowScripts']
const { values } = parseArgs({ options: { out: { type: 'string', default: join(root, 'dist-binary') } } })
const out = resolve(values.out)
const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
const name = `${manifest.name.replace('@', '').replace('/', '-')}-${manifest.version}.tgz`
await mkdir(out, { recursive: true })

const work = await mkdtemp(join(tmpdir(), 'sluice-package-'))
try {
  pack(root, work)
  execFileSync('tar', ['-xzf', join(work, name), '-C', work])
  // npm warns of scripts that it does not run, and the tools of a clone are not there.
  const kept = Object.entries(manifest).filter(([key]) => !OF_A_CLONE.includes(key))
  await writeFile(join(work, 'package', 'package.json'), `${JSON.stringify(Object.fromEntries(kept), undefined, 2)}\n`)
  pack(join(work, 'package'), out)
} finally {
  await rm(work, { recursive: true, force: true })
}
const file = join(out, name)
const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')).packages
const installed = Object.keys(lock).filter((place) => place !== '' && lock[place].dev !== true)
const sum = await describe(file, await billOfMaterials([...new Set([...(await bundledPlaces()), ...installed])]))
process.stdout.write(`${file}: sha256 ${sum}\n`)

/** Packs a folder. The build comes before: npm would repeat it. */
function pack(folder, to) {
  const words = ['pack', '--ignore-scripts', '--silent', '--pack-destination', to]
  execFileSync('npm', words, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
}
