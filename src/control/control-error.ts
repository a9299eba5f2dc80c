import { CodedError } from '../lib/coded-error.js'
import type { Problem } from '../schema/field.js'

/**
 * Why a call was refused. A field's problem keeps its own word (`FIELD_INVALID`, `TOO_LONG`, `POLICY_…`), the others are:
 *
 * - `FORBIDDEN`: the key's owner may not use the API. `ADMIN_REQUIRED`: only an administrator may do this.
 * - `VAULT_NOT_ALLOWED`: a policy names a secret of a vault that the caller may not use.
 * - `OWNER_INACTIVE`: the owner that the request names is switched off.
 * - `NOT_FOUND`: no such record, module, entry or parent.
 * - `REF_NOT_FOUND`: the request names a record that is not there.
 * - `QUERY_INVALID`: `before_id` is no cursor of this list.
 * - `PRECONDITION_FAILED`: the record has another revision than the caller knows.
 * - `ALREADY_EXISTS`: another record has the value. `IN_USE`: others need the record.
 * - `LOCKOUT`: the write would shut the caller out of the API.
 * - `BACKUP_UNSUPPORTED`: the store has tools of its own for that.
 * - `SEAL_KEY_LOST`: the key that sealed the record's secrets is not here. `SEAL_BROKEN`: they are damaged.
 * - `SEAL_KEY_CHANGED`: the store has another sealing key than this process; nothing was changed.
 * - `UNAVAILABLE`: the store cannot be reached, nothing was changed. `OUTCOME_UNKNOWN`: it went away during the commit.
 */
export class ControlError extends CodedError {
  /** Path of the field to blame, as in requests. */
  readonly field: string | undefined
  /** For programs: strings only, no secrets; has `field` when there is one. */
  readonly details: Readonly<Record<string, string>>
  /** Everything that is wrong with the body; the first one is this error. */
  readonly problems: readonly Problem[]

  constructor(
    code: string,
    message: string,
    about: {
      readonly field?: string
      readonly details?: Readonly<Record<string, string>>
      readonly problems?: readonly Problem[]
      readonly cause?: unknown
    } = {}
  ) {
    super(code, message, about.cause === undefined ? {} : { cause: about.cause })
    this.name = 'ControlError'
    this.field = about.field
    this.details = { ...(about.field === undefined ? {} : { field: about.field }), ...about.details }
    this.problems = about.problems ?? []
  }
}

/** The refusal of a body: its first problem, with the others beside it. */
export function refusedBody(problems: readonly Problem[]): ControlError {
  const [first] = problems
  if (first === undefined) throw new RangeError('a refusal without a problem')
  const { field, code, message, details } = first
  const text = field === '' ? message : `${field} ${message}`
  return new ControlError(code, text, { field, problems, ...(details === undefined ? {} : { details }) })
}

/** The refusal of a request whose body is the member `name` of a record: there fields are named from the member on. */
export function ofMember(error: unknown, name: string): unknown {
  const prefix = `${name}.`
  if (!(error instanceof ControlError) || error.field?.startsWith(prefix) !== true) return error
  const { code, details, problems, cause } = error
  const field = error.field.slice(prefix.length)
  const message = error.message.replace(error.field, field)
  return new ControlError(code, message, { field, details: { ...details, field }, problems, cause })
}

export function notFound(what: string): ControlError {
  return new ControlError('NOT_FOUND', `there is no such ${what}`)
}

const SHOWN_USERS = 10

/** `users`: the records that need `key`, as `<kind> <id>`. */
export function inUse(
  { kind, id }: { readonly kind: string; readonly id: string },
  users: readonly string[]
): ControlError {
  const shown = users.slice(0, SHOWN_USERS).join(', ')
  const more = users.length > SHOWN_USERS ? ` and ${users.length - SHOWN_USERS} more` : ''
  const details = { used_by: shown, users: String(users.length) }
  return new ControlError('IN_USE', `${kind} ${id} is in use by ${shown}${more}`, { details })
}
