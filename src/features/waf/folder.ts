import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { formatSize } from '../../lib/units.js'
import type { RuleFile } from './seclang/reader.js'
import { RuleSetError } from './seclang/rule.js'

/** Files of a folder with rules. */
export interface RuleFolder {
  readonly files: readonly RuleFile[]
  /** Data files beside the rules by their names. */
  readonly data: ReadonlyMap<string, string>
  /** SHA-256 over names and contents, in hexadecimal. */
  readonly digest: string
}

/** Set-up files of the Core Rule Set; the first that exists is read before all rules. */
const SETUP = ['crs-setup.conf', 'crs-setup.conf.example']
/** Maximum size of all files (bytes). */
const MAX_BYTES = 32 * 1024 * 1024

/**
 * Reads a folder with rules, as a release of the Core Rule Set is unpacked: `crs-setup.conf` (or its example), then `rules/*.conf` by name;
 * a folder without `rules` has its `*.conf` in itself. Rejects with `RuleSetError` for a folder without rules, or with the system's error.
 */
export async function readRuleFolder(folder: string): Promise<RuleFolder> {
  const top = (await readdir(folder)).sort()
  const place = top.includes('rules') ? join(folder, 'rules') : folder
  const names = place === folder ? top : (await readdir(place)).sort()
  const setup = SETUP.find((name) => top.includes(name))
  const hash = createHash('sha256')
  const files: RuleFile[] = []
  const data = new Map<string, string>()
  let size = 0
  const read = async (path: string, name: string): Promise<string> => {
    const content = await readFile(path)
    size += content.length
    if (size > MAX_BYTES) throw new RuleSetError([`${folder}: the files are larger than ${formatSize(MAX_BYTES)}`])
    hash.update(`${name} ${content.length}\n`).update(content)
    return content.toString('latin1')
  }
  if (setup !== undefined) files.push({ name: setup, text: await read(join(folder, setup), setup) })
  for (const name of names) {
    if (name.endsWith('.conf') && name !== setup) files.push({ name, text: await read(join(place, name), name) })
    else if (name.endsWith('.data')) data.set(name, await read(join(place, name), name))
  }
  if (!files.some(({ name }) => name !== setup))
    throw new RuleSetError([`${folder}: there is no file *.conf with rules, neither here nor in the folder rules`])
  return { files, data, digest: hash.digest('hex') }
}
