import { realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { codeOf } from '../../../lib/errors.js'
import { makeFolder } from '../../../lib/files.js'

interface EventFoldersParts {
  /** Absolute folders below which files of events may lie. */
  readonly folders: readonly string[]
  /** The product's own files and folders: event files may not be written at or below them. */
  readonly own: readonly string[]
  /** A folder below `own` in which event files are allowed. */
  readonly spared?: string | undefined
}

/** Folders in which event destinations may write files. */
export class EventFolders {
  readonly #parts: EventFoldersParts

  constructor(parts: EventFoldersParts) {
    this.#parts = parts
  }

  /** No file may be written anywhere. */
  static readonly none = new EventFolders({ folders: [], own: [] })

  /** Why no events go to a file of this name, by the name alone; undefined when they may. */
  outside(path: string): string | undefined {
    const { folders } = this.#parts
    if (!folders.some((folder) => liesBelow(folder, path))) {
      const named = folders.length === 0 ? 'there are none' : `they are ${folders.join(', ')}`
      return `is in no folder for files of events: ${named}; the option events.folders names them`
    }
    return this.#isOwn(path, (one) => one) ? 'is a file of the service itself' : undefined
  }

  /** Returns the reason why a path is not allowed, like `outside`; also resolves symbolic links, which must not leave the folders. */
  refusal(path: string): string | undefined {
    const outside = this.outside(path)
    if (outside !== undefined) return outside
    const real = realPath(path)
    if (!this.#parts.folders.some((folder) => liesBelow(realPath(folder), real))) {
      return 'leads out of the folders for files of events through a symbolic link'
    }
    return this.#isOwn(real, realPath) ? 'leads to a file of the service itself' : undefined
  }

  /** Creates the allowed folder that contains `path` if it is missing. Rejects like `mkdir`. */
  async make(path: string): Promise<void> {
    const folder = this.#parts.folders.find((one) => liesBelow(one, path))
    if (folder !== undefined) makeFolder(folder)
  }

  #isOwn(path: string, form: (path: string) => string): boolean {
    const { own, spared } = this.#parts
    if (spared !== undefined && liesBelow(form(spared), path)) return false
    return own.map(form).some((one) => one === path || liesBelow(one, path))
  }
}

function liesBelow(folder: string, path: string): boolean {
  const way = relative(folder, resolve(path))
  return way !== '' && way !== '..' && !way.startsWith('../') && !isAbsolute(way)
}

/** Resolves a path; missing components at its end are kept. */
function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch (error) {
    const above = dirname(path)
    // A dangling link is also missing; opening follows no links.
    return codeOf(error) === 'ENOENT' && above !== path ? join(realPath(above), basename(path)) : resolve(path)
  }
}
