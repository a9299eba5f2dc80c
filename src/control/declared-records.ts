import { Slices } from '../lib/slices.js'
import type { UnitProblems } from '../policy/problems.js'
import { claimsOf, type Resource } from '../resources/resource.js'
import type { ResourceRecord } from '../schema/field.js'
import type { StoreReader } from '../store/store.js'
import { ControlError, controlErrors } from './errors.js'

/** A declared record, with its display name and line. */
export interface DeclaredRecord {
  /** Line number from 1. */
  readonly line: number
  /** File that the line is in. @default the file of the set */
  readonly file?: string
  readonly resource: Resource
  readonly record: ResourceRecord
  /** Name in messages: `site shop.example.com`, `backend web`. */
  readonly label: string
  /** See `Wanted.name`. */
  readonly name: readonly string[]
  /** Kind and id. */
  readonly key: string
  /** Unique claims: space and value. */
  readonly claims: readonly string[]
}

/** Records of a file by kind and id, and by claim. */
interface DeclaredIndex {
  readonly byId: ReadonlyMap<string, DeclaredRecord>
  readonly claims: ReadonlyMap<string, DeclaredRecord>
  /** Files that the file imports. */
  readonly imports: readonly { readonly name: string; readonly text: string }[]
}

/** The records that a site file declares, and the file's data for messages. */
export interface DeclaredSet {
  /** The file as messages name it. */
  readonly source: string
  readonly text: string
  readonly records: readonly DeclaredRecord[]
  /** Declarations of the file, by kind and id, and by claim. */
  readonly site?: DeclaredIndex
  /** Time when it began to serve, or was written (RFC 3339). */
  readonly since?: string
  /** Revision that applied it through the API; undefined if the process was started with it. */
  readonly revision?: number
}

const NO_RECORDS: ReadonlyMap<string, DeclaredRecord> = new Map()
const NOTHING: DeclaredSet = { source: '', text: '', records: [] }

/** Key under which problems of the site file are listed. */
export const SITE_FILE = 'site-file'

/** Stored record of the site file applied through the API: it has the claims of all declarations. */
export const SITE = { kind: 'site_file', id: 'site_file' } as const

/** Records that are declared in a file, not stored: the API shows them read-only. */
export class DeclaredRecords {
  #set = NOTHING
  #byId: ReadonlyMap<string, DeclaredRecord> = NO_RECORDS
  #claims: ReadonlyMap<string, DeclaredRecord> = NO_RECORDS

  replace(set: DeclaredSet = NOTHING): void {
    this.#set = set
    this.#byId = set.site?.byId ?? NO_RECORDS
    this.#claims = set.site?.claims ?? NO_RECORDS
  }

  /** Does one of them claim this? Then no record of the store does. `claim`: space and value. */
  hasClaim(claim: string): boolean {
    return this.#claims.has(claim)
  }

  /** Is this the current set? */
  isOf(set: DeclaredSet | undefined): boolean {
    return set === this.#set
  }

  /** The current set; undefined if there is none. */
  get current(): DeclaredSet | undefined {
    return this.#set === NOTHING ? undefined : this.#set
  }

  find(kind: string, id: string): ResourceRecord | undefined {
    return this.#byId.get(`${kind} ${id}`)?.record
  }

  /** Returns records in the order of the file; `below`: only those whose field has this value. */
  list({ name }: Resource, below?: { readonly field: string; readonly id: string }): readonly ResourceRecord[] {
    const all = this.#set.records.map(({ record }) => record).filter(({ kind }) => kind === name)
    return below === undefined ? all : all.filter(({ body }) => body[below.field] === below.id)
  }

  /** Returns the file and line of a record; undefined if it is not declared. */
  placeOf({
    kind,
    id
  }: Pick<ResourceRecord, 'kind' | 'id'>): { readonly file: string; readonly line: number } | undefined {
    const found = this.#byId.get(`${kind} ${id}`)
    return found && { file: found.file ?? this.#set.source, line: found.line }
  }

  /** Fails with `DECLARED` if the record is declared in the file, which alone can change it. */
  mustNotHave(kind: string, id: string): void {
    const place = this.placeOf({ kind, id })
    if (place === undefined) return
    const at = `${place.file}:${place.line}`
    const details = { file: place.file, line: String(place.line) }
    throw new ControlError(controlErrors.DECLARED, `${kind} ${id} is declared at ${at} and changes there alone`, {
      details
    })
  }

  /** Fails with `ALREADY_EXISTS` when a declared record has the value. */
  mustNotClaim(space: string, value: string, field: string): void {
    const keeper = this.#claims.get(`${space} ${value}`)
    if (keeper === undefined) return
    const at = `${keeper.file ?? this.#set.source}:${keeper.line}`
    const details = { taken_by: `${keeper.record.kind} ${keeper.record.id}`, declared_at: at }
    throw new ControlError(
      controlErrors.ALREADY_EXISTS,
      `${field} is taken by the ${keeper.label} that ${at} declares`,
      {
        field,
        details
      }
    )
  }
}

/**
 * Returns conflicts between claims of the file and of stored records. Claims of `serving` are not looked up, because this process reserves them;
 * undefined if other processes may write.
 */
export async function clashesWithStore(
  reader: StoreReader,
  set: DeclaredSet,
  serving: DeclaredRecords | undefined
): Promise<UnitProblems[]> {
  const texts = new Map(set.site?.imports.map(({ name, text }) => [name, text]))
  const problems = new Map<string | undefined, UnitProblems['problems'][number][]>()
  const textOf = (file: string | undefined) => (file === undefined ? set.text : (texts.get(file) ?? ''))
  const lines = new Map<string | undefined, readonly string[]>()
  const slices = new Slices()
  const served = serving?.current?.records ?? []
  for (const [index, declared] of set.records.entries()) {
    if (slices.due) await slices.rest()
    if (served[index] === declared) continue
    const { resource, record, label, line, file, claims } = declared
    if (serving !== undefined && claims.every((claim) => serving.hasClaim(claim))) continue
    for (const { space, value, field } of claimsOf(resource, record)) {
      const keeper = await reader.keeperOf(space, value)
      if (keeper === undefined || keeper.kind === SITE.kind) continue
      const shown = field === 'hostports' ? value : field
      const message = `${label}: ${shown} is taken by ${keeper.kind} ${keeper.id}, which the API has made; delete that or leave this out`
      const known = lines.get(file) ?? textOf(file).split('\n')
      lines.set(file, known)
      const text = known[line - 1] ?? ''
      const column = text.length - text.trimStart().length + 1
      const length = Math.max(1, text.trim().length)
      const found = problems.get(file) ?? []
      problems.set(file, found)
      const { code } = controlErrors.ALREADY_EXISTS
      found.push({ severity: 'error', code, message, path: '', line, column, length })
    }
  }
  return [...problems].map(([file, problems]) => {
    const key = file === undefined ? SITE_FILE : `${SITE_FILE} ${file}`
    return { key, source: file ?? set.source, text: textOf(file), problems }
  })
}
