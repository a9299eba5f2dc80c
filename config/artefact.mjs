import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Files beside an artefact: its checksum, its bill of materials, and `release.json` of the folder. */

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Writes FILE.sha256 for `sha256sum -c`, FILE.sbom.cdx.json, and all checksums of the folder in release.json. Returns the checksum. */
export async function describe(file, bill) {
  const sum = createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
  await writeFile(`${file}.sha256`, `${sum}  ${basename(file)}\n`)
  await writeFile(`${file}.sbom.cdx.json`, bill)
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const release = { version, sha256: await checksums(dirname(file)) }
  await writeFile(join(dirname(file), 'release.json'), `${JSON.stringify(release, undefined, 2)}\n`)
  return sum
}

/**
 * Returns the packages at these places of the lock file as CycloneDX, as npm describes them, with further components. The result has no time and
 * no random number, so that two builds have the same bytes.
 */
export async function billOfMaterials(places, further = []) {
  const words = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only']
  const all = JSON.parse(execFileSync('npm', words, { cwd: root, encoding: 'utf8', maxBuffer: 64 * 2 ** 20 }))
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')).packages
  const inside = new Set(places.map((place) => referenceOf(place, lock[place])))
  const components = all.components.filter((one) => inside.has(one['bom-ref']))
  if (components.length < inside.size) throw new Error('a package of the artefact is not in the lock file')
  const { timestamp: _, component, ...metadata } = all.metadata
  const { serialNumber: __, ...rest } = all
  const refs = new Set(components.map((one) => one['bom-ref']))
  const dependencies = all.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((one) => refs.has(one)) }))
  const bill = {
    ...rest,
    metadata: { ...metadata, component: { ...component, name: 'sluice' } },
    components: [...further, ...components],
    dependencies
  }
  return `${JSON.stringify(bill, undefined, 2)}\n`
}

/** Returns the places of the packages whose code the build has put into `dist`. */
export async function bundledPlaces() {
  return JSON.parse(await readFile(join(root, 'dist', 'packages.json'), 'utf8'))
}

/** The name of a package in the bill of materials: an alias has the name of what it stands for. */
function referenceOf(place, { name, version }) {
  return `${name ?? place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length)}@${version}`
}

/** Checksums of the artefacts of a folder by their names: they are built one after the other. */
async function checksums(folder) {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sha256')).sort()
  const sums = names.map(async (name) => (await readFile(join(folder, name), 'utf8')).trim().split('  '))
  return Object.fromEntries((await Promise.all(sums)).map(([sum, name]) => [name, sum]))
}
