import { realpathSync } from 'node:fs'
import { sep } from 'node:path'

/**
 * Why a folder may not be served, as the end of a sentence about it; undefined when it lies in one of the named folders, or is one, by its name and by
 * where links lead from there. Folders are absolute. What is missing lies where its name says.
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

/** True for the folder itself and what lies below it, by their names. Both are absolute and in normal form. */
export function liesWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)
}

function realOrNamed(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
