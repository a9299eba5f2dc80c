import { randomBytes } from 'node:crypto'
import { readdirSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf } from './coded-error.js'

/** Names that this process has given. */
const ours = new Set<string>()

/**
 * A new name beside `path` for a file that is to take that name once it is whole. Removes what processes that died have left
 * under such names. Fails with the system's error when the folder cannot be read.
 */
export function partialFor(path: string): string {
  const folder = dirname(path)
  const start = `${basename(path)}.partial-`
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(start)) continue
    const left = join(folder, name)
    if (!ours.has(left) && !runs(Number(name.slice(start.length).split('-', 1)[0]))) rmSync(left, { force: true })
  }
  const name = join(folder, `${start}${process.pid}-${randomBytes(6).toString('hex')}`)
  ours.add(name)
  return name
}

/** A process of this number that is another one than this. */
function runs(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0 || pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}
