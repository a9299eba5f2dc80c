import { execFileSync } from 'node:child_process'
import { mkdir, readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { billOfMaterials, bundledPlaces, describe } from './artefact.mjs'

/** `node config/npm-package.mjs [--out FOLDER]`: the product in `dist` as an npm package, with its checksum and bill of materials. */
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { values } = parseArgs({ options: { out: { type: 'string', default: join(root, 'dist-binary') } } })
const out = resolve(values.out)
await mkdir(out, { recursive: true })
// The build comes before: npm would repeat it.
execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', out], {
  cwd: root,
  stdio: ['ignore', 'ignore', 'inherit']
})
const { name, version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
const file = join(out, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`)
const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')).packages
const installed = Object.keys(lock).filter((place) => place !== '' && lock[place].dev !== true)
const sum = await describe(file, await billOfMaterials([...new Set([...(await bundledPlaces()), ...installed])]))
process.stdout.write(`${file}: sha256 ${sum}\n`)
