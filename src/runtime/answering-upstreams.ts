/** Upstream that sends a fixed response. */
export interface ResponseUpstream {
  readonly kind: 'upstream'
  /** Name for people. @default its destination */
  readonly name?: string
  readonly form: 'response'
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Content coding of a precompressed file beside the plain one. */
export type FileCoding = 'zst' | 'br' | 'gz'

/** Upstream that serves files of a local folder. */
export interface FileUpstream {
  readonly kind: 'upstream'
  /** Name for people. @default its destination */
  readonly name?: string
  readonly form: 'files'
  /** Absolute path. */
  readonly folder: string
  /** The folder must be inside one that the operator of the process allows. @default the operator wrote the path, no check */
  readonly confined?: true
  /** Names of index files; the first that exists is sent. */
  readonly index: readonly string[]
  /** Path of the file sent if the requested one does not exist. @default 404 */
  readonly fallback?: string
  /** Suffixes of precompressed files, in order of preference. */
  readonly precompressed?: readonly FileCoding[]
  /** Cache-Control values by path pattern; the first match applies. */
  readonly cache?: readonly { readonly files: string; readonly value: string }[]
  /** A folder without an index file is sent as a list of its files. */
  readonly listing?: true
  /** Symbolic links may point outside the folder. */
  readonly links?: true
}
