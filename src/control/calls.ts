import type { Json } from '../lib/json.js'
import type { ResourceRecord } from '../schema/field.js'
import type { StoreTransaction } from '../store/store.js'
import type { Guard } from './guard-note.js'

export type Role = 'administrator' | 'member'

/** The caller: a user or a bot. Bots are members. */
export interface Principal {
  /** `usr_…` or `bot_…`. */
  readonly id: string
  readonly role: Role
  /** For people: the bot's name, or the user's role. */
  readonly subject: string
  /** The record of the API key that was used; null for the operator's own keys. */
  readonly key: string | null
  /** Through which door it came, where that is not the API itself. */
  readonly source?: 'Dashboard'
}

/** Id of the principal that writes the state of certificates. */
export const CERTIFICATE_SERVICE = 'certificates'

/** One call of the API. */
export interface Call {
  readonly principal: Principal
  /** IP address of the caller; undefined for internal calls. */
  readonly address: string | undefined
  /** New for each call; the history of the store holds it. */
  readonly operationId: string
  /** Charges work to the caller's budget, in bytes. @default no budget */
  readonly spend?: ((bytes: number) => void) | undefined
  /** True if null in the body of an update means that the field is not set. @default it clears the field */
  readonly nullIsUnset?: boolean
}

/** Stops following. */
export type StopFollowing = () => void

/** Parameters of the path by name: `id`, `edge_id`, … */
export type PathValues = Readonly<Record<string, string>>

/** Path of one record. */
export interface RecordPath {
  readonly path: PathValues
}

/** Options of a write. */
export interface WriteMode {
  /** Revisions that the record may have; others fail with `PRECONDITION_FAILED`. @default any */
  readonly ifMatch?: readonly number[] | undefined
  /** Do it although it shuts the caller out of the API. */
  readonly force?: boolean | undefined
  /** Validates everything without committing. */
  readonly dryRun?: boolean | undefined
  /** The conditions under which it stays. */
  readonly guard?: Guard | undefined
}

/** Keys of the units of the plan that a write puts and drops. */
interface Difference {
  readonly put: readonly string[]
  readonly drop: readonly string[]
  /** Ids of the routes that it touches; worked out for dry runs alone. */
  readonly routes?: readonly string[]
}

/** Result of a write. */
export interface Done {
  /** Revision of the store that serves now; of a dry run the one before. */
  readonly committed: number
  readonly difference: Difference
  /** Warnings about the policies that it changes. */
  readonly warnings?: readonly PolicyWarning[]
}

/** A warning of `sluice check`, or an unresolved name. */
export interface PolicyWarning {
  readonly code: string
  readonly message: string
  /** Place in the document. */
  readonly path: string
  readonly line: number
  readonly column: number
  /** Document that a site file names, and the length of the marked text. */
  readonly file?: string
  readonly length?: number
}

/** A read object. */
export interface Read {
  readonly record: ResourceRecord
  /** Body of the response. */
  readonly body: Json
  /** Revision of the record: its ETag; null if it is no record of the store. */
  readonly revision: number | null
  /** Does the response contain data that changes without a revision, such as connected agents? */
  readonly live?: boolean
}

/** A read record. */
export interface Shown extends Read {
  readonly revision: number
}

/** Response to a create or an update. */
export interface Written extends Shown, Done {
  /** URL of the record. */
  readonly uri: string
}

/** A page of a list, and which of its objects are in it. */
export interface ListRequest {
  /** Ids of the parents. */
  readonly path: PathValues
  /** 1 to 100. */
  readonly limit: number
  readonly beforeId?: string | undefined
  /** CEL over `obj`, the object as lists show it. @default every object */
  readonly filter?: string | undefined
  /** Only records whose field `field` refers to this record. */
  readonly referring?: { readonly field: string; readonly kind: string; readonly id: string } | undefined
  /** Only objects that pass, as lists show them. @default every object */
  readonly passes?: ((shown: unknown) => boolean) | undefined
}

/** A thread that carries traffic. */
export interface WorkerState {
  /** Number from 1. */
  readonly worker: number
  /** `failing`: it takes no connection any more and ends when those that it has are over. */
  readonly state: 'starting' | 'serving' | 'failing'
  /** RFC 3339. */
  readonly startedAt: string
  readonly connections: number
  /** Exchanges that it has ended. */
  readonly requests: number
  /** Event loop delay (ms); null before the worker's first report. */
  readonly loopDelay: { readonly p50: number; readonly p99: number; readonly max: number } | null
  /** Bytes; null before the worker's first report. */
  readonly memory: { readonly heapUsed: number; readonly heapLimit: number; readonly external: number } | null
}

/** Statistics of a process. */
export interface ProcessNumbers {
  readonly version: string
  /** RFC 3339. */
  readonly startedAt: string
  /** Client connections that it has now. */
  readonly connections: number
  /** Milliseconds by which timers of its control thread are late. */
  readonly loopDelay: { readonly p50: number; readonly p99: number; readonly max: number }
  /** Bytes: of the whole process (`rss`), and of the heap of the control thread. */
  readonly memory: { readonly rss: number; readonly heapUsed: number; readonly external: number }
  /** Rules of the web application firewall, with their SHA-256; null without any. */
  readonly rules: { readonly signature: string; readonly digest: string } | null
}

/** State of a process on the same store. */
export interface ProcessState {
  readonly id: string
  readonly appliedRevision: number
  /** Changes that the process could not apply, or null. */
  readonly lastError: string | null
  /** Time of the last different history of the store, or null. RFC 3339. */
  readonly divergedAt: string | null
  /** RFC 3339. */
  readonly seenAt: string
  /**
   * Time of the last heartbeat, by the clock of the responding process, once the process has been silent for some seconds;
   * null while it runs. RFC 3339.
   */
  readonly goneSince: string | null
  /** Is it the responding process? */
  readonly self: boolean
  /** Its workers, empty if the main thread carries traffic; null if unknown, for another process. */
  readonly workers: readonly WorkerState[] | null
  /** null if unknown, for another process. */
  readonly numbers: ProcessNumbers | null
}

/** An event for the change of one record. Contains no secret. */
export interface ChangeEvent {
  readonly kind: string
  readonly id: string
  readonly change: 'created' | 'updated' | 'deleted'
  /** Type for subscriptions, such as `ip_policy_created.v0`; null when the resource has no events. */
  readonly type: string | null
  /** The record as the API shows it; of a deleted one its last state. */
  readonly object: Json
}

/** One committed change of one record, reported after it serves. */
export interface RecordEvent extends ChangeEvent {
  /** Milliseconds since the Unix epoch. */
  readonly at: number
  readonly revision: number
  readonly operationId: string
  readonly principal: { readonly id: string; readonly subject: string; readonly key: string | null }
}

/** Changes of one write, as events show them. */
export interface RecordedWrite {
  readonly call: Call
  readonly events: readonly Pick<ChangeEvent, 'type' | 'object'>[]
  /** Every record that was put or deleted, those without events among them. */
  readonly touched: readonly { readonly kind: string; readonly id: string; readonly after: unknown }[]
}

/** Keeps the events of a write within its transaction, so that neither is without the other. */
export interface EventRecorder {
  /** Is there a subscription to events of this type about this record? Creating the event's object requires reads. */
  wants(tx: StoreTransaction, record: { readonly kind: string; readonly type: string | null }): Promise<boolean>
  /** Posts the events to their subscriptions; called once, after the last change of the write. */
  record(tx: StoreTransaction, write: RecordedWrite): Promise<void>
}
