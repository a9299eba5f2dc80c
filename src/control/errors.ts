import { type Coded, CodedError, codeOf, defineErrors } from '../lib/errors.js'
import type { UnitProblems } from '../policy/problems.js'
import type { PortProblem } from '../runtime/ports.js'
import type { Problem } from '../schema/field.js'
import { StoreError } from '../store/errors.js'

/** Codes of rejected calls, with their HTTP status. */
export const controlErrors = defineErrors({
  FORBIDDEN: {
    status: 403,
    text: 'The owner of the key may not use the API.',
    help: 'Use the key of an active owner.'
  },
  SESSION_KEY_INVALID: {
    status: 401,
    text: 'The API key that should open a session of the dashboard is not valid.',
    help: 'Use a key that exists; sluice api-key create makes one.'
  },
  KEYS_THROTTLED: {
    status: 429,
    text: 'Too many API keys that open nothing came from this address.',
    help: 'Wait as many seconds as retry-after says, then send a key that exists.'
  },
  WORK_LIMITED: {
    status: 429,
    text: 'The caller has asked for more work in documents and tests than it may in this time.',
    help: 'Wait as many seconds as retry-after says, and send fewer or shorter documents.'
  },
  ADMIN_REQUIRED: {
    status: 403,
    text: 'Only an administrator may do this.',
    help: 'Ask an administrator, or use the key of one.'
  },
  VAULT_NOT_ALLOWED: {
    status: 403,
    text: 'A policy would read a secret of a vault that the caller may not use, or a change would send it elsewhere.',
    help: 'Ask an administrator to add you to usable_by of the vault, or use another vault.'
  },
  POLICY_TESTS_FAILED: {
    status: 400,
    text: 'A test that is stored with a policy does not come out as expected. Nothing was changed.',
    help: 'Correct the policy or the case that the details name; "sluice test" shows why each request was decided as it was.'
  },
  OWNER_INACTIVE: {
    status: 400,
    text: 'The owner that the request names is switched off.',
    help: 'Switch the owner on first, or name another one.'
  },
  NOT_FOUND: {
    status: 404,
    text: 'There is no such record, module, entry or parent.',
    help: 'Look at the id and the path; the record may have been deleted.'
  },
  QUERY_INVALID: {
    status: 400,
    text: 'A query parameter is invalid, such as a `before_id` that is no cursor of this list.',
    help: 'Correct the parameter; to read on, follow next_page_uri of the answer before.'
  },
  FILTER_INVALID: {
    status: 400,
    text: 'The filter of a list is not valid CEL over the fields of its objects.',
    help: 'Correct it at the position that the details name; fields are written obj.<name>.'
  },
  ENDPOINT_NOT_CLOUD: {
    status: 409,
    text: 'The endpoint is no cloud endpoint, and only those are changed here.',
    help: 'Change the edge, the agent or the options that it belongs to.'
  },
  ALREADY_EXISTS: {
    status: 409,
    text: 'Another record has the value.',
    help: 'Choose another value, or change the record that has it; the details name it.',
    ngrok: [
      { number: 413, resource: 'reserved_domain', field: 'domain' },
      { number: 18016, resource: 'endpoint', field: 'url', sent: 'pooling_enabled' },
      { number: 18017, resource: 'endpoint', field: 'url' },
      { number: 7132, field: 'hostports' }
    ]
  },
  DECLARED: {
    status: 409,
    text: 'The record stands in a site file, which alone can change it.',
    help: 'Change it in the file, at the place that the details name.'
  },
  IN_USE: {
    status: 409,
    text: 'Other records need the record.',
    help: 'Change or delete the records that need it first; the details name them.',
    ngrok: [{ number: 446, resource: 'reserved_domain' }]
  },
  REVERT_CONFLICT: {
    status: 409,
    text: 'Later writes stand in the way of a revert.',
    help: 'Revert the later revisions first, or change the records that the details name by hand.'
  },
  REVERT_IMPOSSIBLE: {
    status: 409,
    text: 'The history does not keep what a revert needs, such as secrets.',
    help: 'Change the records by hand; the diff of the revision shows what it changed.'
  },
  TOO_MANY_KEYS: {
    status: 409,
    text: 'There are as many keys for explanations as there may be at once.',
    help: 'Wait until one of them has ended, or use one that you have.'
  },
  LIMIT_KEYS_OFF: {
    status: 409,
    text: 'The process does not keep which keys its limits refuse.',
    help: 'Set limiter.top_keys to on and start the process again; a bucket can be looked up by its key all the same.'
  },
  BUCKET_SHARED: {
    status: 409,
    text: 'The bucket cannot be emptied: the memory of the limiter is full, and what it counts is shared with other keys.',
    help: 'Raise limiter.budget, or wait until the window has passed; retry_after_seconds of the bucket says how long.'
  },
  REPLAY_IMPOSSIBLE: {
    status: 409,
    text: 'The request cannot be sent again as it was.',
    help: 'Give what is missing, such as the body; recorder.bodies says how much of bodies is recorded.'
  },
  REVISION_INCOMPLETE: {
    status: 409,
    text: 'The history does not keep all that an export of a past revision needs, such as the fields of a very large import.',
    help: 'Name a revision after the one that the message names, or use a backup.'
  },
  EXCHANGES_ELSEWHERE: {
    status: 409,
    text: 'Threads carry the traffic of this process, and no candidate can be tried beside it there.',
    help: 'Set workers to 0 and start the process again.'
  },
  SHADOWS_FULL: {
    status: 409,
    text: 'As many shadows run as may run at once.',
    help: 'Delete one of them, or wait until one ends.'
  },
  LOCKOUT: {
    status: 409,
    text: 'The write would shut the caller out of the API.',
    help: 'Leave the address from which you write in the IP restriction of the API.'
  },
  CERTIFICATE_NOT_MANAGED: {
    status: 409,
    text: 'The certificate of the record is not a managed one, so there is nothing to renew.',
    help: 'Upload a new certificate, or give the record a certificate_management_policy.'
  },
  RENEWAL_TOO_SOON: {
    status: 409,
    text: 'The certificate may not be requested again yet. Nothing was changed.',
    help: 'Wait until the time that the details name; until then the certificate in use serves on.'
  },
  PORT_IN_USE: {
    status: 409,
    text: 'A port cannot be opened.',
    help: 'Choose another port, or stop the program that has it.'
  },
  BACKUP_UNSUPPORTED: {
    status: 409,
    text: 'The database of the store is backed up by its own tools.',
    help: 'Use pg_dump or the backups of the operator of the database.'
  },
  PRECONDITION_FAILED: {
    status: 412,
    text: 'The record has another revision than the caller knows.',
    help: 'Read the record again and repeat the change on what it is now.'
  },
  INTERNAL: {
    status: 500,
    text: 'A defect of Sluice. The log has the details.',
    help: 'Report it with the operation id of the answer and the lines of the log.'
  },
  UNAVAILABLE: {
    status: 503,
    text: 'The store cannot be used at present. Nothing was changed.',
    help: 'Try again later; readyz and the log say what the store lacks.'
  },
  BUSY: {
    status: 503,
    text: 'Another process is writing. Nothing was changed; try again.',
    help: 'Repeat the request after a moment.'
  },
  OUTCOME_UNKNOWN: {
    status: 503,
    text: 'The store went away during the commit; read the record to see its state.',
    help: 'Read the record before you repeat the change.'
  },
  SEAL_KEY_LOST: {
    status: 503,
    text: 'The process does not have the key that sealed the secrets of the record.',
    help: 'Start the process with the key that sealed it, or give the secret anew.'
  },
  SEAL_BROKEN: {
    status: 503,
    text: 'The secrets of the record are damaged; give them anew or delete the record.',
    help: 'Write the secrets of the record anew, or delete it.'
  },
  SEAL_KEY_CHANGED: {
    status: 503,
    text: 'The sealing key of the store was changed; start the process with the new key. Nothing was changed.',
    help: 'Start the process again with the new key.'
  }
})

/** Why a call was refused: a code of `controlErrors`, or the code of a field's problem (`FIELD_INVALID`, `POLICY_…`). */
export class ControlError extends CodedError {
  readonly #status: number | undefined
  /** Path of the field to blame, as in requests. */
  readonly field: string | undefined
  /** For programs: strings only, no secrets; has `field` when there is one. */
  readonly details: Readonly<Record<string, string>>
  /** Everything that is wrong with the body; the first one is this error. */
  readonly problems: readonly Problem[]

  constructor(
    error: Coded & { readonly status?: number | undefined },
    message: string,
    about: {
      readonly field?: string
      readonly details?: Readonly<Record<string, string>>
      readonly problems?: readonly Problem[]
      readonly cause?: unknown
    } = {}
  ) {
    super(error, message, about.cause === undefined ? {} : { cause: about.cause })
    this.name = 'ControlError'
    this.#status = error.status
    this.field = about.field
    this.details = { ...(about.field === undefined ? {} : { field: about.field }), ...about.details }
    this.problems = about.problems ?? []
  }

  /** HTTP status from the table of the code; undefined for problems of a body. Not a field that logs show. */
  get status(): number | undefined {
    return this.#status
  }
}

/** Returns an error for a caller who must wait; the API sends the seconds in `retry-after`. `seconds` is rounded up to at least 1. */
export function refusedForNow(error: Coded, message: (seconds: number) => string, seconds: number): ControlError {
  const whole = Math.max(1, Math.ceil(seconds))
  return new ControlError(error, message(whole), { details: { [RETRY_AFTER]: String(whole) } })
}

/** The detail of an error that the API sends as the header `retry-after`. */
export const RETRY_AFTER = 'retry_after'

/** Returns the error for a rejected body: its first problem, with the others attached. */
export function refusedBody(problems: readonly Problem[]): ControlError {
  const [first] = problems
  if (first === undefined) throw new RangeError('a refusal without a problem')
  const { field, code, message, details } = first
  const text = field === '' ? message : `${field} ${message}`
  return new ControlError({ code }, text, { field, problems, ...(details === undefined ? {} : { details }) })
}

/** Returns the error for a request whose body is the member `name` of a record: field names are relative to that member. */
export function ofMember(error: unknown, name: string): unknown {
  const prefix = `${name}.`
  if (!(error instanceof ControlError) || error.field?.startsWith(prefix) !== true) return error
  const { details, problems, cause } = error
  const field = error.field.slice(prefix.length)
  const message = error.message.replace(error.field, field)
  return new ControlError(error, message, { field, details: { ...details, field }, problems, cause })
}

/** Returns the error `NOT_FOUND` (404); `what` is the kind in its text. */
export function notFound(what: string): ControlError {
  return new ControlError(controlErrors.NOT_FOUND, `there is no such ${what}`)
}

/** The refusal to undo a revision of which the history does not keep enough. */
export function impossible(revision: number, why: string): ControlError {
  return new ControlError(controlErrors.REVERT_IMPOSSIBLE, `revision ${revision} cannot be reverted: ${why}`)
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
  return new ControlError(controlErrors.IN_USE, `${kind} ${id} is in use by ${shown}${more}`, { details })
}

/** Returns the error for a policy that does not compile, with its position in the document. */
export function refusedPolicy(refused: readonly UnitProblems[]): ControlError {
  const [unit] = refused
  const error = unit?.problems.find(({ severity }) => severity === 'error')
  if (unit === undefined || error === undefined) throw new RangeError('a policy was refused without a problem')
  const { code, message, line, column, path } = error
  const details = { line: String(line), column: String(column), path, source: unit.source }
  return new ControlError({ code: `POLICY_${code}` }, message, { field: 'traffic_policy.value', details })
}

export function refusedPort({ host, port, reason }: PortProblem): ControlError {
  const message = `${host}:${port} cannot be opened: ${reason === 'EADDRINUSE' ? 'the port is in use' : reason}`
  return new ControlError(controlErrors.PORT_IN_USE, message, {
    field: 'hostports',
    details: { port: String(port), reason }
  })
}

/** Resolves with the result of `run`; temporary failures become `UNAVAILABLE`, `BUSY`, `OUTCOME_UNKNOWN`, `SEAL_KEY_LOST` or `SEAL_BROKEN`. */
export async function orUnavailable<T>(run: Promise<T>): Promise<T> {
  try {
    return await run
  } catch (error) {
    if (error instanceof StoreError) throw inOurWords(error)
    throw unopened(error)
  }
}

function unopened(error: unknown): unknown {
  const code = codeOf(error)
  if (code === 'SEAL_KEY_UNKNOWN') return sealKeyLost(error)
  if (code !== 'SEAL_BROKEN') return error
  const message = 'the secrets of the record are damaged: give them anew, or delete the record'
  return new ControlError(controlErrors.SEAL_BROKEN, message, { cause: error })
}

/** Returns the error for an undecryptable secret, temporary like an unreachable store: it becomes readable with the key. */
function sealKeyLost(cause: unknown): ControlError {
  const message =
    'a secret of the record is sealed by a key that this process does not have; start it with that key: ' +
    'SLUICE_SEAL_KEY, or the key file of the data folder from a backup; or give the secret anew'
  return new ControlError(controlErrors.SEAL_KEY_LOST, message, { cause })
}

function why({ trouble }: StoreError): string {
  if (trouble === 'full') return 'the disk of the store is full'
  if (trouble === 'failing') return 'the disk of the store fails'
  if (trouble === 'damaged') return 'the file of the store is damaged: put a backup in its place'
  if (trouble === 'gone')
    return 'the file of the store was deleted, emptied or replaced: put it back and start the process again'
  if (trouble === 'read_only') return 'the store is read-only'
  return trouble === 'unreachable' ? 'the store is out of reach' : 'the store is too busy or out of reach'
}

function inOurWords(error: StoreError): Error {
  if (error.trouble === 'damaged')
    return new ControlError(controlErrors.UNAVAILABLE, `${why(error)}; nothing was changed`, { cause: error })
  switch (error.code) {
    case 'STORE_DEGRADED':
      return new ControlError(controlErrors.UNAVAILABLE, `${error.message}; nothing was changed`, { cause: error })
    case 'STORE_UNAVAILABLE':
    case 'STORE_REFUSED':
    case 'STORE_CLOSED':
      return new ControlError(controlErrors.UNAVAILABLE, `${why(error)}; nothing was changed`, { cause: error })
    case 'STORE_SEAL_KEY': {
      const message =
        'the sealing key of the store was changed, and this process has the old one: start it again with the new key'
      return new ControlError(controlErrors.SEAL_KEY_CHANGED, message, { cause: error })
    }
    case 'STORE_BUSY': {
      const message = 'another process is writing, such as an import; nothing was changed, try again when it is done'
      return new ControlError(controlErrors.BUSY, message, { cause: error })
    }
    case 'STORE_OUTCOME_UNKNOWN': {
      const message = 'the store went away during the commit; whether the change was made is not known'
      return new ControlError(controlErrors.OUTCOME_UNKNOWN, message, { cause: error })
    }
    default:
      return error
  }
}
