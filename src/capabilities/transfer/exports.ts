import { orUnavailable } from '../../control/errors.js'
import type { Records } from '../../control/records.js'
import type { Clock } from '../../lib/clock.js'
import { packageVersion } from '../../lib/files.js'
import type { Resource } from '../../resources/resource.js'
import type { Store } from '../../store/store.js'
import type { AccountDocument } from './document.js'
import { exportAccount } from './export.js'

interface ExportsParts {
  readonly store: Store
  readonly records: Records
  readonly resources: readonly Resource[]
  readonly clock: Clock
}

/** Documents of the account for callers of the API, without any write-only value. */
export class Exports {
  readonly #parts: ExportsParts

  constructor(parts: ExportsParts) {
    this.#parts = parts
  }

  /** The account as it was at a revision. Fails as `exportAccount` does. */
  async at(revision: number): Promise<AccountDocument> {
    const { store, clock, ...options } = this.#parts
    return await orUnavailable(exportAccount(store, clock, { ...options, version: packageVersion(), at: revision }))
  }
}

/** Characters of a piece. */
const PIECE = 64 * 1024

/** Yields the document as JSON in pieces, because the text of a large account is too large. */
export function* jsonPieces({ records, end, ...around }: AccountDocument): Generator<string> {
  let piece = `${JSON.stringify(around).slice(0, -1)},"records":{`
  for (const [index, [kind, entries]] of Object.entries(records).entries()) {
    piece += `${index === 0 ? '' : ','}${JSON.stringify(kind)}:[`
    for (const [at, entry] of entries.entries()) {
      piece += `${at === 0 ? '' : ','}${JSON.stringify(entry)}`
      if (piece.length < PIECE) continue
      yield piece
      piece = ''
    }
    piece += ']'
  }
  yield `${piece}}${end === undefined ? '' : `,"end":${JSON.stringify(end)}`}}\n`
}
