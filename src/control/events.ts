import type { Json } from '../resources/field.js'

/** One committed change of one record, told after it serves. Holds no secret. */
export interface RecordEvent {
  readonly kind: string
  readonly id: string
  readonly change: 'created' | 'updated' | 'deleted'
  /** Type for subscriptions, such as `ip_policy_created.v0`; null when the resource has no events. */
  readonly type: string | null
  /** Milliseconds since the Unix epoch. */
  readonly at: number
  readonly revision: number
  readonly operationId: string
  readonly principal: { readonly id: string; readonly subject: string; readonly key: string | null }
  /** The record as the API shows it; of a deleted one its last state. */
  readonly object: Json
}
