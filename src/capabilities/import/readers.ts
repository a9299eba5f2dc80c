import type { ImportedConfig } from './model.js'

/** Files and variables that a reader may read. */
export interface ImportSources {
  /** Rejects if there is no such file. */
  readFile(path: string): Promise<string>
  /** Names in a folder; rejects if there is no such folder. */
  listFolder(path: string): Promise<readonly string[]>
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Reads the files of one configuration. Throws a `CodedError` of `importErrors` for a file that cannot be read. */
export type Reader = (files: readonly string[], sources: ImportSources) => Promise<ImportedConfig>

interface Format {
  readonly title: string
  load(): Promise<Reader>
}

/** Languages that `sluice import` reads, by the word behind `import`. */
export const FORMATS: Readonly<Record<string, Format>> = {
  nginx: { title: 'nginx', load: async () => (await import('./nginx/read.js')).readNginx }
}
