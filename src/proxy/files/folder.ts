import { type BigIntStats, promises } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { codeOf } from '../../lib/errors.js'
import { liesWithin } from '../../lib/named-folders.js'
import { hasHidden } from './file-path.js'

/** A file as it was found; another one has other facts. */
export interface FileFacts {
  readonly kind: 'file'
  /** Without links. */
  readonly place: string
  readonly device: bigint
  readonly inode: bigint
  readonly size: number
  /** Nanoseconds since the epoch. */
  readonly modified: bigint
}

/** What lies at a path. `forbidden`: the system lets this process not see it. */
export type Found = FileFacts | { readonly kind: 'folder' | 'missing' | 'forbidden' }

const MISSING: Found = { kind: 'missing' }
const FORBIDDEN: Found = { kind: 'forbidden' }
const FOLDER: Found = { kind: 'folder' }
/** Errors of the system that mean that nothing is there: names that are too long, or whose folder is a file. */
const ABSENT: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'EINVAL'])

interface FolderParts {
  /** Absolute. */
  readonly folder: string
  /** Links may lead out of it. */
  readonly links: boolean
  /** Paths without links: nothing at or below them is found. */
  readonly own: readonly string[]
}

/** The folder that is served, without links in its own path. A deployment may point the link of its path at another folder. */
export class Folder {
  readonly #parts: FolderParts
  /** Without links. */
  readonly root: string

  private constructor(parts: FolderParts, root: string) {
    this.#parts = parts
    this.root = root
  }

  /** Rejects with the system's error when the folder is missing or cannot be read. */
  static async open(parts: FolderParts): Promise<Folder> {
    const root = await promises.realpath(parts.folder)
    // A file with a slash at its end is no folder: ENOTDIR.
    await promises.stat(`${root}${sep}`)
    return new Folder(parts, root)
  }

  /**
   * Looks at a path below the folder. Missing are also: what a link leads to outside of it, hidden names that a link leads to,
   * devices, pipes and sockets, and the files of the product itself. Rejects when the disk fails.
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

/** The facts of an open file, or of one that was looked at. */
export function factsOf({ dev, ino, size, mtimeNs }: BigIntStats, place: string): FileFacts {
  return { kind: 'file', place, device: dev, inode: ino, size: Number(size), modified: mtimeNs }
}

/** True when both are one file with the same content. */
export function isSame(a: FileFacts, b: FileFacts): boolean {
  return hasSameContent(a, b) && a.place === b.place
}

/** As `isSame`, wherever the file lies now. */
export function hasSameContent(a: FileFacts, b: FileFacts): boolean {
  return a.inode === b.inode && a.modified === b.modified && a.size === b.size && a.device === b.device
}
