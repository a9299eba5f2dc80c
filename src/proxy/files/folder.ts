import { type BigIntStats, promises } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { codeOf } from '../../lib/errors.js'
import { liesWithin } from '../../lib/named-folders.js'
import { hasHidden } from './file-path.js'

/** Identity of a file and its content. */
export interface FileFacts {
  readonly kind: 'file'
  /** Real path without links. */
  readonly place: string
  readonly device: bigint
  readonly inode: bigint
  readonly size: number
  /** Nanoseconds since the epoch. */
  readonly modified: bigint
}

/** Result for a path. `forbidden`: no permission. */
export type Found = FileFacts | { readonly kind: 'folder' | 'missing' | 'forbidden' }

const MISSING: Found = { kind: 'missing' }
const FORBIDDEN: Found = { kind: 'forbidden' }
const FOLDER: Found = { kind: 'folder' }
/** System errors for missing files: names that are too long, or inside a file. */
const ABSENT: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'EINVAL'])

interface FolderParts {
  /** Absolute path. */
  readonly folder: string
  /** Links may lead outside. */
  readonly links: boolean
  /** Real paths of the product's own files, which are never found. */
  readonly own: readonly string[]
}

/** Served folder by its real path. A deployment may change a link in the configured path. */
export class Folder {
  readonly #parts: FolderParts
  /** Real path. */
  readonly root: string

  private constructor(parts: FolderParts, root: string) {
    this.#parts = parts
    this.root = root
  }

  /** Rejects with the system's error if the folder is missing or unreadable. */
  static async open(parts: FolderParts): Promise<Folder> {
    const root = await promises.realpath(parts.folder)
    // A file with a trailing slash is not a folder: ENOTDIR.
    await promises.stat(`${root}${sep}`)
    return new Folder(parts, root)
  }

  /**
   * Looks up a path below the folder. Also missing: targets of links outside of it, hidden targets of links, devices, pipes, sockets and
   * the product's own files. Rejects if the disk fails.
   */
  async look(path: string): Promise<Found> {
    const named = join(this.root, path)
    try {
      const facts = await promises.stat(named, { bigint: true })
      if (!facts.isFile() && !facts.isDirectory()) return MISSING
      const place = await promises.realpath(named)
      if (!this.#serves(place)) return MISSING
      return facts.isDirectory() ? FOLDER : factsOf(facts, place)
    } catch (error) {
      const code = codeOf(error)
      if (ABSENT.has(code)) return MISSING
      if (code === 'EACCES' || code === 'EPERM') return FORBIDDEN
      throw error
    }
  }

  #serves(place: string): boolean {
    const { links, own } = this.#parts
    if (own.some((one) => liesWithin(one, place))) return false
    if (liesWithin(this.root, place)) return place === this.root || !hasHidden(relative(this.root, place))
    return links
  }
}

/** Returns the facts of a file from its status. */
export function factsOf({ dev, ino, size, mtimeNs }: BigIntStats, place: string): FileFacts {
  return { kind: 'file', place, device: dev, inode: ino, size: Number(size), modified: mtimeNs }
}

/** Returns true if both are the same file with the same content. */
export function isSame(a: FileFacts, b: FileFacts): boolean {
  return hasSameContent(a, b) && a.place === b.place
}

/** Returns true if both have the same content, even if the file was moved. */
export function hasSameContent(a: FileFacts, b: FileFacts): boolean {
  return a.inode === b.inode && a.modified === b.modified && a.size === b.size && a.device === b.device
}
