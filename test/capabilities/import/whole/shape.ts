import type { Reader } from '../../../../src/capabilities/import/model.js'

/** A request to a running product, and what the client gets. */
export interface Visit {
  /** Port of the source whose listener gets the request. @default 80 */
  readonly port?: number
  readonly host: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly status: number
  /** Target that the upstream receives. */
  readonly target?: string
  readonly location?: string
  /** Part of the body. */
  readonly body?: string
}

/** A whole file as people have it. Its folders below /srv and files below /etc/ssl are made for the test. */
export interface WholeFile {
  readonly name: string
  readonly text: string
  /** Files that it includes. */
  readonly others?: Readonly<Record<string, string>>
  /** @default every statement is exact or close */
  readonly isPart?: true
  readonly visits: readonly Visit[]
}

/** Files of one language. */
export interface WholeFiles {
  readonly read: Reader
  /** Name of a file of the language. */
  readonly file: string
  readonly files: readonly WholeFile[]
}
