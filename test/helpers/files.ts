import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** A file of the project, by its path from the root. Tests run compiled, with the root as their working directory. */
export function projectFile(path: string): URL {
  return pathToFileURL(join(process.cwd(), path))
}

/** A file, or a folder, of `test/fixtures`. */
export function fixture(path: string): URL {
  return projectFile(`test/fixtures/${path}`)
}
