import { CodedError } from '../../lib/coded-error.js'

/** Keys and indexes from the root of a document to a place in it. */
export type TransferPath = readonly (string | number)[]

/** One thing in a document that cannot be imported. */
export interface TransferProblem {
  readonly path: TransferPath
  /** As the API calls it: `FIELD_INVALID`, `REF_NOT_FOUND`, `ALREADY_EXISTS`, `POLICY_…`, or one of the import alone. */
  readonly code: string
  /** For people; holds no secret. */
  readonly message: string
  /** Place within a policy document that the value at `path` is, from 1. */
  readonly within?: { readonly line: number; readonly column: number }
}

/** The document cannot be imported; nothing was changed. `IMPORT_REFUSED`. */
export class ImportRefused extends CodedError {
  readonly problems: readonly TransferProblem[]

  constructor(problems: readonly TransferProblem[]) {
    const [first] = problems
    if (first === undefined) throw new RangeError('a refusal without a problem')
    super('IMPORT_REFUSED', `the document cannot be imported: ${first.path.join('.')} ${first.message}`)
    this.name = 'ImportRefused'
    this.problems = problems
  }
}
