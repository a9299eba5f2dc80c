import { Slices } from '../lib/slices.js'
import type { UnitProblems } from '../policy/problems.js'
import { claimsOf, type Resource } from '../resources/resource.js'
import type { ResourceRecord } from '../schema/field.js'
import type { StoreReader } from '../store/store.js'
import { ControlError, controlErrors } from './errors.js'

/** A record that the file means, with the name that people know it by and its line. */
export interface DeclaredRecord {
  /** From 1. */
  readonly line: number
  /** File that the line is in. @default the file of the set */
  readonly file?: string
  readonly resource: Resource
  readonly record: ResourceRecord
  /** `site shop.example.com`, `backend web`: what a change of the record is a change of. */
  readonly label: string
  /** See `Wanted.name`. */
  readonly name: readonly string[]
  /** Kind and id. */
  readonly key: string
  /** What no other record may have: space and value. */
  readonly claims: readonly string[]
}

/** Records of a file by kind and id, and by claim. */
interface DeclaredIndex {
  readonly byId: ReadonlyMap<string, DeclaredRecord>
  readonly claims: ReadonlyMap<string, DeclaredRecord>
  /** Files that the file imports. */
  readonly imports: readonly { readonly name: string; readonly text: string }[]
}

/** The records that a site file means, with what messages need of the file. */
export interface DeclaredSet {
  /** The file as messages name it. */
  readonly source: string
  readonly text: string
  readonly records: readonly DeclaredRecord[]
  /** What the file declares, by kind and id, and by claim. */
  readonly site?: DeclaredIndex
  /** When it began to serve, or was written: RFC 3339. */
  readonly since?: string
  /** Revision that applied it through the API; absent: the process was started with it. */
  readonly revision?: number
}

const NO_RECORDS: ReadonlyMap<string, DeclaredRecord> = new Map()
const NOTHING: DeclaredSet = { source: '', text: '', records: [] }

/** Key under which problems of the site file are listed. */
export const SITE_FILE = 'site-file'

/** What the store keeps of the site file that the API has applied: its claims are those of all that the file declares. */
export const SITE = { kind: 'site_file', id: 'site_file' } as const

/** Records that stand in a file and in no store: the API shows them and changes none of them. */
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

  /** Do these records stand in it already? */
  isOf(set: DeclaredSet | undefined): boolean {
    return set === this.#set
  }

  /** What is declared now; undefined: nothing is. */
  get current(): DeclaredSet | undefined {
    return this.#set === NOTHING ? undefined : this.#set
  }

  find(kind: string, id: string): ResourceRecord | undefined {
    return this.#byId.get(`${kind} ${id}`)?.record
  }

  /** In the order of the file; `below`: only those whose field has this value. */
  list({ name }: Resource, below?: { readonly field: string; readonly id: string }): readonly ResourceRecord[] {
    const all = this.#set.records.map(({ record }) => record).filter(({ kind }) => kind === name)
    return below === undefined ? all : all.filter(({ body }) => body[below.field] === below.id)
  }

  /** The file and line of a record; undefined when it stands in no file. */
  placeOf({
    kind,
    id
  }: Pick<ResourceRecord, 'kind' | 'id'>): { readonly file: string; readonly line: number } | undefined {
    const found = this.#byId.get(`${kind} ${id}`)
    return found && { file: found.file ?? this.#set.source, line: found.line }
  }

  /** Fails with `DECLARED` when the record stands in the file, which alone can change it. */
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

/** What the file claims and records of the store have already; empty: nothing. What `serving` claims is not looked up: this process lets no record have it. Undefined: other processes may. */
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
