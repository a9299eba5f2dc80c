import { mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Lets `npx sluice` find the command in the clone `root`. Without the link npx installs the project into a folder of its own first, which builds it
 * once more: most of a minute.
 */
export function linkCommand(root) {
  const folder = join(root, 'node_modules', '.bin')
  const link = join(folder, 'sluice')
  try {
    mkdirSync(folder, { recursive: true })
    rmSync(link, { force: true })
    symlinkSync(join('..', '..', 'dist', 'main.js'), link)
  } catch (error) {
    process.stderr.write(`npx will take longer: there is no link to the command (${error.code})\n`)
  }
}
