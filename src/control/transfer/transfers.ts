import { randomBytes } from 'node:crypto'
import type { Sealer } from '../../lib/seal.js'
import type { Call } from '../calls.js'
import type { ControlOptions, ControlParts } from '../open.js'
import { USER } from '../principals.js'
import { orUnavailable } from '../refusals.js'
import { recordedChange } from '../revision-note.js'
import { mustHave } from '../rights.js'
import type { AccountDocument } from './account-document.js'
import { type ExportOptions, exportAccount } from './export-account.js'
import { type ImportDifference, importAccount } from './import-account.js'

export interface TransfersParts
  extends Pick<ControlParts, 'store' | 'writer' | 'records'>,
    Pick<ControlOptions, 'resources' | 'clock' | 'checkPolicy' | 'zone' | 'requireReserved'> {
  /** Of this program. */
  readonly version: string
}

export interface ImportRequest {
  readonly document: AccountDocument
  /** Opens what the document seals. */
  readonly sealer?: Sealer
  readonly prune: boolean
  /** Everything but the commit. */
  readonly dryRun: boolean
  /** Do it although it shuts the caller out of the API. */
  readonly force?: boolean
}

/** Export and import of an account that a process serves: what is imported is live when it is answered. */
export class Transfers {
  readonly #parts: TransfersParts

  constructor(parts: TransfersParts) {
    this.#parts = parts
  }

  /** Fails with a ControlError `ADMIN_REQUIRED`: a document shows what belongs to everybody. */
  async export(secrets: ExportOptions['secrets'], call: Call): Promise<AccountDocument> {
    mustHave(call.principal, 'transfer')
    const { store, clock, resources, records, version } = this.#parts
    const sealing = secrets === undefined ? {} : { secrets }
    return await orUnavailable(exportAccount(store, clock, { resources, records, version, ...sealing }))
  }

  /** Fails with an `ImportRefused`, or with a ControlError as every write does. */
  async import(request: ImportRequest, call: Call): Promise<ImportDifference> {
    mustHave(call.principal, 'transfer')
    const { document, sealer, prune, dryRun, force } = request
    const { writer, resources, records, clock, checkPolicy, zone, requireReserved } = this.#parts
    const { value } = await writer.write(call, { dryRun, force }, async (draft) => {
      const { difference, edits } = await importAccount(draft.tx, document, {
        resources,
        records,
        clock,
        checkPolicy,
        zone,
        requireReserved: requireReserved === true,
        random: (bytes) => randomBytes(bytes),
        principal: call.principal.id,
        ...(sealer === undefined ? {} : { sealer }),
        prune
      })
      for (const { kind, id } of difference.records) {
        if (kind === USER) draft.touched.push({ kind, id, after: undefined })
      }
      for (const { resource, before, after } of edits) {
        const recorded = recordedChange(resource, before, after)
        draft.changes.push(recorded)
        const versioned = after === undefined ? undefined : { record: after, revision: draft.tx.number }
        draft.touched.push({ kind: recorded.kind, id: recorded.id, after: versioned })
      }
      return difference
    })
    return value
  }
}
