import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { packageRoot } from '../lib/files.js'
import { referencePages } from './reference.js'

/** Writes the reference documentation into `docs/reference` of the project: `npm run docs`. */
const folder = join(packageRoot(), 'docs', 'reference')
await mkdir(folder, { recursive: true })
for (const [name, text] of await referencePages()) await writeFile(join(folder, name), text)
