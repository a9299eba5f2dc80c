/** A fixed answer. */
export interface ResponseUpstream {
  readonly kind: 'upstream'
  readonly form: 'response'
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A form in which files may lie ready beside the plain one. */
export type FileCoding = 'zst' | 'br' | 'gz'

/** Files of a folder of this machine. */
export interface FileUpstream {
  readonly kind: 'upstream'
  readonly form: 'files'
  /** Absolute path. */
  readonly folder: string
  /** The folder must lie in one that the operator of the serving process names. Absent: the operator has written it. */
  readonly confined?: true
  /** Names of files that stand for a folder, the first one that exists. */
  readonly index: readonly string[]
  /** Path of the file that is sent where there is none; absent: 404. */
  readonly fallback?: string
  /** Endings of compressed files beside the plain ones, the preferred first. */
  readonly precompressed?: readonly FileCoding[]
  /** Values of Cache-Control for patterns of paths; the first that matches counts. */
  readonly cache?: readonly { readonly files: string; readonly value: string }[]
  /** A folder without an index is answered with the list of its files. */
  readonly listing?: true
  /** Symbolic links may lead out of the folder. */
  readonly links?: true
}
