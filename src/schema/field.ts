import type { TSchema } from 'typebox'
import type { DocumentLimits } from '../lib/caller-limits.js'
import type { Clock } from '../lib/clock.js'
import type { Json } from '../lib/json.js'
import type { Steps } from '../lib/slices.js'

/** What a record holds under the names of its fields. Plain data; secrets are kept apart. */
export type Body = Record<string, unknown>

/** Clear values of sealed fields by their path in the record (`oauth.provider.google.client_secret`). */
type Secrets = Readonly<Record<string, string>>

/** One stored object, with its secrets opened where its holder may have them. */
export interface ResourceRecord {
  readonly kind: string
  readonly id: string
  /** RFC 3339, whole seconds, UTC. */
  readonly createdAt: string
  readonly body: Readonly<Body>
  readonly secrets: Secrets
}

/** One thing that is wrong with a request. `field` is its path as the client wrote it, '' for the body itself. */
export interface Problem {
  readonly field: string
  /** Stable word: `FIELD_UNKNOWN`, `FIELD_INVALID`, `FIELD_REQUIRED`, `TOO_LONG`, … */
  readonly code: string
  readonly message: string
  /** More for programs, such as the place in a policy document. Strings only, no secrets. */
  readonly details?: Readonly<Record<string, string>>
}

/**
 * Everything that is wrong with a policy document that a field holds, in order of its text; undefined: nothing. `layer` says what kind
 * of traffic the policy gets, `limits` what its author may write beyond the bounds of every document.
 */
export interface PolicyCheck {
  (text: string, layer: 'http' | 'tcp', limits?: DocumentLimits): readonly Omit<Problem, 'field'>[] | undefined
  /** Checks a document in steps before a check with the same limits asks for it, which then takes what was found. */
  ahead?(text: string, layer: 'http' | 'tcp', limits?: DocumentLimits): AheadCheck
}

/** A check that is made in steps before its outcome is asked for. */
interface AheadCheck {
  readonly checking: Steps<void>
  /** Drops the outcome: no check will ask for it any more. */
  forget(): void
}

/** Why events cannot be written to a file of this name; undefined when they can. */
export type FileCheck = (path: string) => string | undefined

/** Collects while a request is read. */
export interface Reading {
  readonly checkPolicy: PolicyCheck
  readonly checkFile?: FileCheck | undefined
  /** As `checkFile`, for folders whose files are served. */
  readonly checkFolder?: FileCheck | undefined
  /** A value that is zero for its type and not allowed counts as absent: clients in typed languages send it for unset fields. */
  readonly zeroIsAbsent?: boolean | undefined
  report(problem: Problem): void
  secret(path: string, value: string): void
}

/** What must happen to a record when the record that it refers to is deleted. */
export type OnTargetDelete = 'refuse' | 'keep' | 'cascade'

/** A row of the reference table. */
export interface Link {
  /** Path of the field in the record. */
  readonly field: string
  readonly position: number
  readonly kind: string
  readonly id: string
  readonly onTargetDelete: OnTargetDelete
}

/** What an answer is built from beside the record. */
export interface PresentContext {
  /** Scheme, host and port of the API as clients see it, without a slash at the end. */
  readonly baseUrl: string
  /** Zone of the names that the service makes. */
  readonly zone: string
  readonly regions: readonly string[]
  /** May the reader see those secrets of this record that its owner sees? Never in lists. */
  showSecrets(record: ResourceRecord): boolean
  /** Records of `kind` below `parent`, oldest first. */
  children(kind: string, parent: string): readonly ResourceRecord[]
  /** Ids of the live tunnels that a backend selects. */
  tunnelsOf(backend: string): readonly string[]
  /** What this process knows of the server of a backend; undefined when nothing is. */
  healthOf?(backend: string): Json | undefined
  /** File and line of a record that a site file declares; undefined for one of the store. */
  placeOf?(record: ResourceRecord): { readonly file: string; readonly line: number } | undefined
  /** How the delivery to an event destination goes; undefined when nothing is known of it. */
  deliveryOf?(destination: string): Json | undefined
}

/** For what a record says by itself, whatever stands around it. */
export const noContext: PresentContext = {
  baseUrl: '',
  zone: '',
  regions: [],
  showSecrets: () => false,
  children: () => [],
  tunnelsOf: () => []
}

/** What values that the service makes are made of. */
export interface Makers {
  readonly clock: Clock
  newId(prefix: string): string
  random(bytes: number): Uint8Array
  /** The user or bot who asks. */
  readonly principal: string
  readonly zone: string
  /** A record with its secrets opened. */
  find(kind: string, id: string): Promise<ResourceRecord | undefined>
}

/** A value made by the service: what is stored and, shown in this one answer only, what its owner must keep. */
interface Made {
  readonly stored: unknown
  readonly once?: Json
}

/**
 * One field of a resource, of a module, or of an object inside them. `S` is its stored form.
 *
 * A field has up to three forms: what a client sends (`request`), what a record holds, what an answer shows (`response`).
 */
export interface Field<S = unknown> {
  readonly description: string
  readonly required: boolean
  /** When a client may give it; `never` for what the service makes, `path` for an id that stands in the path. */
  readonly settable: 'always' | 'create' | 'update' | 'path' | 'never'
  /** Schema of the request form; absent when a client never gives it. */
  readonly request?: TSchema
  /** Schema of the answer; absent when no answer shows it. */
  readonly response?: TSchema
  /** Stored when the client gives nothing. */
  readonly initial: S
  /** Does a record hold it, or does each answer compute it? */
  readonly kept: boolean
  /** What `null` means in an update. */
  readonly onNull: 'clears' | 'unchanged' | 'refused'
  /** Only an administrator may give it. */
  readonly adminOnly?: boolean
  /** Is it a module, with a sub-path of its own? */
  readonly module?: boolean
  /** Must be unique: in `space`, together with the values of the fields `within`. Lists: each entry. */
  readonly unique?: { readonly space: string; readonly within: readonly string[] }
  /** Name in requests, when it is another than in answers. */
  requestName(name: string): string
  /** Request form to stored form; undefined after a report. `path` is that of the record, `at` that of the request. */
  read(value: unknown, at: string, path: string, reading: Reading): S | undefined
  present(stored: S, path: string, record: ResourceRecord, context: PresentContext): Json
  links(stored: S, path: string): readonly Link[]
  onCreate?(id: string, makers: Makers): Made
  onUpdate?(makers: Makers): Made
}

/** Fields by name, in the order of answers. */
export type Fields = Readonly<Record<string, Field>>

/** Stored form of a record with these fields. */
export type BodyOf<F extends Fields> = { -readonly [K in keyof F]: F[K] extends Field<infer S> ? S : never }

const NO_LINKS: readonly Link[] = []

/** A field with what most fields have; `field` says what is special. */
export function defineField<S>(
  field: Pick<Field<S>, 'description' | 'initial' | 'read' | 'present'> & Partial<Field<S>>
): Field<S> {
  return {
    required: false,
    settable: 'always',
    kept: true,
    onNull: 'refused',
    requestName: (name) => name,
    links: () => NO_LINKS,
    ...field
  }
}
