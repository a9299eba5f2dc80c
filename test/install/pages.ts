import { readFile } from 'node:fs/promises'
import { projectFile } from '../helpers/files.js'

/** Returns the commands of the first `sh` block below a heading of docs/install.md. */
export async function stepsBelow(heading: string): Promise<string> {
  const page = await readFile(projectFile('docs/install.md'), 'utf8')
  const section = page.slice(page.indexOf(`## ${heading}\n`))
  return /```sh\n(.*?)```/s.exec(section)?.[1] ?? ''
}
