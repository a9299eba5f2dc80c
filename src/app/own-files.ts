import type { OwnPart } from '../control/apply.js'
import type { UnitProblems } from '../policy/problems.js'

/** Changes of a file, by the names of what it declares. */
export interface FileChanges {
  readonly added: readonly string[]
  readonly changed: readonly string[]
  readonly removed: readonly string[]
}

/** A file that declares records, as it was read. */
export interface ReadOwnFile {
  /** Units of the process itself; undefined for a file with errors. */
  readonly part: OwnPart | undefined
  /** Number of listeners that it names. */
  readonly listeners: number
  readonly problems: readonly UnitProblems[]
  /** Absolute paths of the files that it names. */
  readonly files: readonly string[]
  readonly changes: FileChanges
  /** It serves now. */
  applied(): void
}

/** Reads a file that declares records of the process itself. */
export interface OwnFiles {
  /** Name of its part of the process's own units. */
  readonly name: string
  /** Never rejects because of the contents; an unreadable file is a problem. */
  read(): Promise<ReadOwnFile>
}
