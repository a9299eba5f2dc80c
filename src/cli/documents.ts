import type { PolicyServices } from '../policy/services.js'
import type { HostPort } from '../runtime/plan.js'
import type { Finding } from './report.js'

/** Results of the check of one document. */
export interface Checked {
  readonly findings: readonly Finding[]
  /** Absolute paths of the files that the document names. */
  readonly named: readonly string[]
  /** Addresses on which a document without errors listens. @default none */
  readonly listeners?: readonly HostPort[]
}

/** Checks a file as `sluice check` does. */
export type CheckFile = (file: string, environment: Readonly<Record<string, string | undefined>>) => Promise<Checked>

/** A document to check, and what policies in it may use. */
export interface ReadDocument {
  /** Path of the file; "-" is standard input. */
  readonly file: string
  readonly text: string
  readonly services: PolicyServices
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** A kind of document that `sluice check` and `sluice schema` know besides policies and options. */
export interface DocumentKind {
  /** Returns true if the text has the form of such a document. */
  matches(text: string): boolean
  /** Checks the document together with the files that it names; their findings come after its own. */
  check(document: ReadDocument): Promise<Checked>
  /** Returns the JSON Schema, given that of policies. */
  schema(policySchema: object): object
}
