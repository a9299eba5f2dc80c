import type { Clock } from '../../lib/clock.js'
import type { Sealer } from '../../lib/seal.js'
import type { Resource } from '../../resources/resource.js'
import type { PolicyCheck } from '../../schema/field.js'
import type { Records } from '../records.js'

/** What an import works with. */
export interface ImportOptions {
  readonly resources: readonly Resource[]
  readonly records: Records
  readonly clock: Clock
  readonly checkPolicy: PolicyCheck
  readonly zone: string
  /** Must the hosts of HTTPS edges be reserved domains? */
  readonly requireReserved: boolean
  readonly random: (bytes: number) => Uint8Array
  /** Id of the user who imports; the first administrator when it is the operator at the store itself. */
  readonly principal?: string
  /** Opens what the document seals; absent: the document has no secrets. */
  readonly sealer?: Sealer
  /** Delete the records that the document does not have? */
  readonly prune: boolean
}
