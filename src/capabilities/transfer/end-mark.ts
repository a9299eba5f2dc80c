import { createHash } from 'node:crypto'
import { isObject } from '../../lib/json.js'
import type { Steps } from '../../lib/slices.js'

/** The last member of a document: its contents when written. A truncated document has none. */
export interface EndMark {
  /** Number of users. */
  readonly users: number
  /** Number of records of all kinds. */
  readonly records: number
  /** `sha256:` and the hexadecimal digest of users and records, independent of the order of members. */
  readonly digest: string
}

/** Parts of a document that its end mark covers. */
interface Marked {
  readonly users: readonly unknown[]
  readonly records: Readonly<Record<string, readonly unknown[]>>
}

/** The mark of a document, a step for each entry. */
export function* endMarkOf({ users, records }: Marked): Steps<EndMark> {
  const hash = createHash('sha256')
  let count = 0
  for (const user of users) {
    hash.update(`user ${canonical(user)}\n`)
    yield
  }
  for (const kind of Object.keys(records).sort()) {
    for (const entry of records[kind] ?? []) {
      hash.update(`${kind} ${canonical(entry)}\n`)
      count++
      yield
    }
  }
  return { users: users.length, records: count, digest: `sha256:${hash.digest('hex')}` }
}

/** JSON with the members of every object in one order. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) =>
    isObject(member) ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1))) : member
  )
}

export const END_MISSING = 'is missing: the document is cut, was written by hand or comes from an older version'

/** Returns the mismatch between a document and its end mark; undefined if there is none. */
export function endMarkProblem(mark: unknown, found: EndMark): string | undefined {
  if (mark === undefined) return END_MISSING
  if (!isObject(mark)) return 'must be a map of users, records and digest'
  for (const key of ['users', 'records'] as const) {
    if (mark[key] !== found[key])
      return `counts ${String(mark[key]).slice(0, 20)} ${key}, and the document has ${found[key]}`
  }
  return mark.digest === found.digest
    ? undefined
    : 'has the digest of another content: the document was changed after its export'
}
