import type { Json } from '../lib/json.js'
import type { ResourceRecord } from '../schema/field.js'
import type { StoreTransaction } from '../store/store.js'
import type { Guard } from './guard-note.js'

export type Role = 'administrator' | 'member'

/** Who calls: a user or a bot. Bots are members. */
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

/** Id of the principal that writes what becomes of certificates. */
export const CERTIFICATE_SERVICE = 'certificates'

/** One call of the API. */
export interface Call {
  readonly principal: Principal
  /** IP address of the caller; undefined when there is none. */
  readonly address: string | undefined
  /** New for each call; the history of the store holds it. */
  readonly operationId: string
  /** Counts work for the caller, as bytes; absent: it has no budget. */
  readonly spend?: ((bytes: number) => void) | undefined
}

/** Parameters of the path by name: `id`, `edge_id`, … */
export type PathValues = Readonly<Record<string, string>>

/** Which record of a resource. */
export interface RecordPath {
  readonly path: PathValues
}

/** How a write is done. */
export interface WriteMode {
  /** Revisions that the record may have; others fail with `PRECONDITION_FAILED`. Absent: any. */
  readonly ifMatch?: readonly number[] | undefined
  /** Do it although it shuts the caller out of the API. */
  readonly force?: boolean | undefined
  /** Everything but the commit; nothing changes. */
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

/** What a write did. */
export interface Done {
  /** Revision of the store that serves now; of a dry run the one before. */
  readonly committed: number
  readonly difference: Difference
  /** What is doubtful in the policies that it makes serve. */
  readonly warnings?: readonly PolicyWarning[]
}

/** A warning of `sluice check`, or a name that stands for nothing yet. */
export interface PolicyWarning {
  readonly code: string
  readonly message: string
  /** Place in the document. */
  readonly path: string
  readonly line: number
  readonly column: number
  /** Of a document that a site file names: which one, and how many characters are meant. */
  readonly file?: string
  readonly length?: number
}

/** Something as it is read. */
export interface Read {
  readonly record: ResourceRecord
  /** Body of the answer. */
  readonly body: Json
  /** Revision of the record: its ETag. null: it is no record of the store. */
  readonly revision: number | null
  /** Does the answer show what changes without a revision, such as connected agents? */
  readonly live?: boolean
}

/** The record as it is read. */
export interface Shown extends Read {
  readonly revision: number
}

/** The answer to a create or an update. */
export interface Written extends Shown, Done {
  /** URL of the record. */
  readonly uri: string
}

export interface ListRequest {
  /** Ids of the parents. */
  readonly path: PathValues
  /** 1 to 100. */
  readonly limit: number
  readonly beforeId?: string | undefined
  /** Only records whose field `field` refers to this record. */
  readonly referring?: { readonly field: string; readonly kind: string; readonly id: string } | undefined
}

/** A thread that carries traffic. */
export interface WorkerState {
  /** From 1 on. */
  readonly worker: number
  /** `failing`: it takes no connection any more and ends when those that it has are over. */
  readonly state: 'starting' | 'serving' | 'failing'
  /** RFC 3339. */
  readonly startedAt: string
  readonly connections: number
  /** Exchanges that it has ended. */
  readonly requests: number
  /** Milliseconds by which timers are late; null: it has not said yet. */
  readonly loopDelay: { readonly p50: number; readonly p99: number; readonly max: number } | null
  /** Bytes; null: it has not said yet. */
  readonly memory: { readonly heapUsed: number; readonly heapLimit: number; readonly external: number } | null
}

/** What a process says of itself. */
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
}

/** What this and the other processes on the same store have applied. */
export interface ProcessState {
  readonly id: string
  readonly appliedRevision: number
  /** What the process could not apply, or null. */
  readonly lastError: string | null
  /** When it last found that the store was not the one that it had followed, or null. RFC 3339. */
  readonly divergedAt: string | null
  /** RFC 3339. */
  readonly seenAt: string
  /**
   * When the one that answers heard of it last, by its own clock, once it has been silent for some seconds; null: it lives.
   * RFC 3339.
   */
  readonly goneSince: string | null
  /** Is it the one that answers? */
  readonly self: boolean
  /** Its threads that carry traffic, none where one thread does everything; null: of another process that is not known. */
  readonly workers: readonly WorkerState[] | null
  /** null: of another process they are not known. */
  readonly numbers: ProcessNumbers | null
}

/** What an event says of the change of one record. Holds no secret. */
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

/** What one write did, as far as events show it. */
export interface RecordedWrite {
  readonly call: Call
  readonly events: readonly Pick<ChangeEvent, 'type' | 'object'>[]
  /** Every record that was put or deleted, those without events among them. */
  readonly touched: readonly { readonly kind: string; readonly id: string; readonly after: unknown }[]
}

/** Keeps the events of a write within its transaction, so that neither is without the other. */
export interface EventRecorder {
  /** Is there a subscription that gets an event of this type about this record now? Its object costs reads. */
  wants(tx: StoreTransaction, record: { readonly kind: string; readonly type: string | null }): Promise<boolean>
  /** Posts the events to their subscriptions; called once, after the last change of the write. */
  record(tx: StoreTransaction, write: RecordedWrite): Promise<void>
}
