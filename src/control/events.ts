import type { Json } from '../lib/json.js'
import type { StoreTransaction } from '../store/store.js'
import type { Call } from './calls.js'

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

/** One committed change of one record, told after it serves. */
export interface RecordEvent extends ChangeEvent {
  /** Milliseconds since the Unix epoch. */
  readonly at: number
  readonly revision: number
  readonly operationId: string
  readonly principal: { readonly id: string; readonly subject: string; readonly key: string | null }
}

/** What one write did, as far as events tell of it. */
export interface RecordedWrite {
  readonly call: Call
  readonly events: readonly ChangeEvent[]
  /** Every record that was put or deleted, those without events among them. */
  readonly touched: readonly { readonly kind: string; readonly id: string; readonly after: unknown }[]
}

/** Keeps the events of a write within its transaction, so that neither is without the other. */
export interface EventRecorder {
  /** Would anybody get an event of this type about this record now? Its object costs reads. */
  wants(tx: StoreTransaction, record: { readonly kind: string; readonly type: string | null }): Promise<boolean>
  /** Posts the events to whoever subscribed to them; called once, after the last change of the write. */
  record(tx: StoreTransaction, write: RecordedWrite): Promise<void>
}
