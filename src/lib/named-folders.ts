import { realpathSync } from 'node:fs'
import { sep } from 'node:path'

/**
 * Returns why a folder may not be served, to end a sentence about it; undefined if it is within one of the named folders, both by name and
 * after resolving links. Folders are absolute. A missing folder is judged by name.
 */
export function refusalOfFolder(folder: string, named: readonly string[]): string | undefined {
  const lies = (form: (path: string) => string) => named.some((one) => liesWithin(form(one), form(folder)))
  if (
    !folder.startsWith('/') ||
    folder.split(sep).some((name) => name === '..' || name === '.') ||
    !lies((path) => path)
  ) {
    const folders = named.length === 0 ? 'there are none' : `they are ${named.join(', ')}`
    return `lies in no folder that may be served: ${folders}; the option file_folders names them`
  }
  return lies(realOrNamed) ? undefined : 'leads out of the folders that may be served through a symbolic link'
}

/** Returns whether the path is the folder or below it, by name. Both are absolute and normalized. */
export function liesWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)
}

/** Returns a path with its links resolved, or as it is named where that fails. */
export function realOrNamed(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
