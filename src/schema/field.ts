import type { TSchema } from 'typebox'
import type { DocumentLimits } from '../lib/caller-limits.js'
import type { Clock } from '../lib/clock.js'
import type { Json } from '../lib/json.js'
import type { Steps } from '../lib/slices.js'

/** A record's fields by name, without secrets. */
export type Body = Record<string, unknown>

/** Decrypted values of sealed fields by path (`oauth.provider.google.client_secret`). */
type Secrets = Readonly<Record<string, string>>

/** A stored object, with secrets decrypted if the reader may have them. */
export interface ResourceRecord {
  readonly kind: string
  readonly id: string
  /** RFC 3339, whole seconds, UTC. */
  readonly createdAt: string
  readonly body: Readonly<Body>
  readonly secrets: Secrets
}

/** A problem in a request. `field` is its path as the client wrote it, '' for the body itself. */
export interface Problem {
  readonly field: string
  /** Stable word: `FIELD_UNKNOWN`, `FIELD_INVALID`, `FIELD_REQUIRED`, `TOO_LONG`, … */
  readonly code: string
  readonly message: string
  /** Additional details for programs, such as the position in a policy document; no secrets. */
  readonly details?: Readonly<Record<string, string>>
}

/**
 * Traffic that a policy document is for. `secure`: connections of an edge that has ended TLS; only what these permit less than `tcp` is
 * checked, because the field itself checks the rest.
 */
export type PolicyLayer = 'http' | 'tcp' | 'secure'

/**
 * Checks a policy document in a field and returns its problems in document order, or undefined if valid. `layer` is the kind of traffic,
 * `limits` the author's restrictions beyond those of every document.
 */
export interface PolicyCheck {
  (text: string, layer: PolicyLayer, limits?: DocumentLimits): readonly Omit<Problem, 'field'>[] | undefined
  /** Checks a document in steps; a later check with the same limits uses the result. */
  ahead?(text: string, layer: 'http' | 'tcp', limits?: DocumentLimits): AheadCheck
}

/** A check in steps before its result is needed. */
interface AheadCheck {
  readonly checking: Steps<void>
  /** Drops the result if no check will use it. */
  forget(): void
}

/** Returns why events cannot be written to this file, or undefined if they can. */
export type FileCheck = (path: string) => string | undefined

/** Context for reading a request. */
export interface Reading {
  readonly checkPolicy: PolicyCheck
  readonly checkFile?: FileCheck | undefined
  /** Checks a folder of static files. */
  readonly checkFolder?: FileCheck | undefined
  /** Treats a zero value that is not allowed as absent: clients in typed languages send zero for unset fields. */
  readonly zeroIsAbsent?: boolean | undefined
  /**
   * Treats null in an update and an empty map in a creation as absent: clients of ngrok in some languages send them for each field that is
   * not set.
   */
  readonly nullIsUnset?: boolean | undefined
  report(problem: Problem): void
  secret(path: string, value: string): void
}

/** Effect on a record when the record that it refers to is deleted. */
export type OnTargetDelete = 'refuse' | 'keep' | 'cascade'

/** A row of the reference table. */
export interface Link {
  readonly field: string
  readonly position: number
  readonly kind: string
  readonly id: string
  readonly onTargetDelete: OnTargetDelete
}

/** Context for building a response from a record. */
export interface PresentContext {
  /** Scheme, host and port of the API as seen by clients, without a trailing slash. */
  readonly baseUrl: string
  /** DNS zone of generated names. */
  readonly zone: string
  readonly regions: readonly string[]
  /** Returns whether the reader may see the secrets that the record's owner sees. Always false in lists. */
  showSecrets(record: ResourceRecord): boolean
  /** Records of `kind` below `parent`, oldest first. */
  children(kind: string, parent: string): readonly ResourceRecord[]
  /** Ids of the live tunnels that a backend selects. */
  tunnelsOf(backend: string): readonly string[]
  /** Health of the backend's server; undefined if unknown. */
  healthOf?(backend: string): Json | undefined
  /** File and line of a record of a site file; undefined for a record of the store. */
  placeOf?(record: ResourceRecord): { readonly file: string; readonly line: number } | undefined
  /** Delivery status of an event destination; undefined if unknown. */
  deliveryOf?(destination: string): Json | undefined
  /** Host and port pairs of an HTTPS edge. */
  hostportsOf?(edge: string): readonly string[]
  /** Reserved domain of a cloud endpoint, or reserved address of one for tcp; undefined if there is none. */
  reservationOf?(endpoint: string): { readonly id: string; readonly uri: string } | undefined
}

/** Context for presenting a record without related data. */
export const noContext: PresentContext = {
  baseUrl: '',
  zone: '',
  regions: [],
  showSecrets: () => false,
  children: () => [],
  tunnelsOf: () => []
}

/** Dependencies of generated values. */
export interface Makers {
  readonly clock: Clock
  newId(prefix: string): string
  random(bytes: number): Uint8Array
  /** The requesting user or bot. */
  readonly principal: string
  readonly zone: string
  /** Returns a record with decrypted secrets. */
  find(kind: string, id: string): Promise<ResourceRecord | undefined>
}

/** A generated value: the stored form and, in this response only, the value for the owner. */
interface Made {
  readonly stored: unknown
  readonly once?: Json
}

/**
 * One field of a resource, of a module, or of an object inside them. `S` is its stored form. A field has up to three forms: request, stored
 * and response.
 */
export interface Field<S = unknown> {
  readonly description: string
  readonly required: boolean
  /** Requests that may set the field; `never` for generated values, `path` for an id in the path. */
  readonly settable: 'always' | 'create' | 'update' | 'path' | 'never'
  /** Schema of the request form, if clients can set the field. */
  readonly request?: TSchema
  /** Schema of the response form, if a response shows the field. */
  readonly response?: TSchema
  /** Stored value if the client sets none. */
  readonly initial: S
  /** True if records store the field; false if each response computes it. */
  readonly kept: boolean
  /** Effect of `null` in an update. */
  readonly onNull: 'clears' | 'unchanged' | 'refused'
  /** Only administrators may set the field. */
  readonly adminOnly?: boolean
  /** True for a module, which has its own sub-path. */
  readonly module?: boolean
  /** Uniqueness: in `space`, together with the values of the fields `within`. For lists, each entry is unique. */
  readonly unique?: Uniqueness
  /** Name in requests, if it differs from the name in responses. */
  requestName(name: string): string
  /**
   * Converts the request form to the stored form; returns undefined after a report. `path` is the path in the record, `at` the path in the
   * request.
   */
  read(value: unknown, at: string, path: string, reading: Reading): S | undefined
  present(stored: S, path: string, record: ResourceRecord, context: PresentContext): Json
  links(stored: S, path: string): readonly Link[]
  onCreate?(id: string, makers: Makers): Made
  onUpdate?(makers: Makers): Made
}

/** `givenAs`: the field of requests that the value follows from. @default the field itself */
interface Uniqueness {
  readonly space: string
  readonly within: readonly string[]
  readonly givenAs?: string
  /** Records whose field `flag` is true share the value if their fields `by` are equal. @default one record alone has a value */
  readonly shared?: { readonly flag: string; readonly by: string }
}

/** Fields by name, in the order of responses. */
export type Fields = Readonly<Record<string, Field>>

/** Stored form of a record with these fields. */
export type BodyOf<F extends Fields> = { -readonly [K in keyof F]: F[K] extends Field<infer S> ? S : never }

const NO_LINKS: readonly Link[] = []

/** Creates a field with common defaults; `field` sets what differs. */
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
