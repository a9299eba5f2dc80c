import type { Link, ResourceRecord } from '../../resources/field.js'
import { httpsEdge } from '../../resources/https-edge.js'
import { claimsOf, linksOf, newLinks } from '../../resources/relations.js'
import { reservedDomain } from '../../resources/reserved-domain.js'
import type { Resource } from '../../resources/resource.js'
import type { NewRecord, RecordKey, StoreTransaction } from '../../store/store.js'
import { ClaimConflict } from '../../store/store-error.js'
import { mustCarryBytes } from '../carriage.js'
import { Catalogue } from '../catalogue.js'
import { ControlError } from '../control-error.js'
import { hostsMustBeReserved } from '../domains.js'
import { splitHostport } from '../hostport.js'
import { everyRecord } from '../records.js'
import { ownersMustExist } from '../rights.js'
import type { AccountDocument } from './account-document.js'
import type { ImportOptions } from './import-options.js'
import { ImportRefused, type TransferPath, type TransferProblem } from './import-refused.js'
import { segmentsOf } from './read-entry.js'

/** A record before and after an import. */
export interface Edit {
  readonly resource: Resource
  readonly before: ResourceRecord | undefined
  readonly after: ResourceRecord | undefined
  /** Milliseconds since the Unix epoch, of a record that is made. */
  readonly createdAt: number | undefined
  /** Place of the record in the document; undefined for one that is not there. */
  readonly path: TransferPath | undefined
}

type Made = Edit & { readonly after: ResourceRecord; readonly path: TransferPath }
type Gone = Edit & { readonly before: ResourceRecord }

/**
 * Writes what an import changes: deletions first, so that their names are free; then every claim that is given up, so
 * that records may swap names; then the records; and when all are there, what they need of each other is checked.
 * Answers with warnings. Throws an `ImportRefused`.
 */
export async function writeEdits(
  tx: StoreTransaction,
  edits: readonly Edit[],
  document: AccountDocument,
  options: ImportOptions
): Promise<string[]> {
  const writing = new Writing(tx, document, options)
  const gone = edits.filter((edit): edit is Gone => edit.after === undefined && edit.before !== undefined)
  const made = edits.filter((edit): edit is Made => edit.after !== undefined && edit.path !== undefined)
  for (const { before } of gone) await tx.delete(before.kind, before.id)
  for (const edit of made) await writing.release(edit)
  await writing.records(made)
  for (const edit of made) await writing.relate(edit)
  for (const edit of made) await writing.check(edit)
  for (const edit of gone) await writing.mustNotBeNeeded(edit)
  await writing.touchParents(edits)
  if (writing.problems.length > 0) throw new ImportRefused(writing.problems)
  return writing.warnings
}

class Writing {
  readonly problems: TransferProblem[] = []
  readonly warnings: string[] = []
  readonly #tx: StoreTransaction
  readonly #document: AccountDocument
  readonly #options: ImportOptions
  readonly #catalogue: Catalogue

  constructor(tx: StoreTransaction, document: AccountDocument, options: ImportOptions) {
    this.#tx = tx
    this.#document = document
    this.#options = options
    this.#catalogue = new Catalogue(options.resources)
  }

  async release({ resource, before, after }: Made): Promise<void> {
    if (before === undefined) return
    const kept = new Set(claimsOf(resource, after).map(claimText))
    for (const claim of claimsOf(resource, before)) {
      if (!kept.has(claimText(claim))) await this.#tx.release(keyOf(after), claim.space, claim.value)
    }
  }

  async records(edits: readonly Made[]): Promise<void> {
    const fresh: NewRecord[] = []
    for (const { before, after, createdAt } of edits) {
      const stored = this.#options.records.stored(after)
      if (before !== undefined) await this.#tx.update(after.kind, after.id, stored)
      else fresh.push({ ...keyOf(after), ...stored, ...(createdAt === undefined ? {} : { createdAt }) })
    }
    await this.#tx.insertMany(fresh)
  }

  async relate({ resource, before, after, path }: Made): Promise<void> {
    const links = linksOf(resource, after)
    const former = before === undefined ? [] : linksOf(resource, before)
    if (JSON.stringify(links) !== JSON.stringify(former)) {
      const rows = links.map(({ field, kind, id }) => ({ field, to: { kind, id } }))
      await this.#tx.replaceReferences(keyOf(after), rows)
    }
    const held = new Set(before === undefined ? [] : claimsOf(resource, before).map(claimText))
    for (const claim of claimsOf(resource, after)) {
      if (held.has(claimText(claim))) continue
      try {
        await this.#tx.claim(keyOf(after), claim.space, claim.value)
      } catch (error) {
        if (!(error instanceof ClaimConflict)) throw error
        const { kind, id } = error.keeper
        const message = `${claim.field} is taken by ${kind} ${id}`
        this.problems.push({ path: [...path, 'fields', claim.field], code: 'ALREADY_EXISTS', message })
      }
    }
  }

  /** What it names must be there, as in the API. */
  async check({ resource, before, after, path }: Made): Promise<void> {
    const links = newLinks(resource, before, after)
    const found = new Set((await this.#tx.getMany(links)).map(textOf))
    for (const link of links) if (!found.has(textOf(link))) this.#missing(link, after, path)
    await this.#allowed(path, async () => {
      await ownersMustExist(this.#tx, resource, after)
      await mustCarryBytes(this.#tx, before, after)
      if (this.#options.requireReserved) await hostsMustBeReserved(this.#tx, before, after)
    })
  }

  /** Nothing that stays may need what is gone. */
  async mustNotBeNeeded({ before: { kind, id, body } }: Gone): Promise<void> {
    for (const { from, field } of await this.#tx.referencesTo(kind, id)) {
      const user = await this.#options.records.find(this.#tx, from.kind, from.id)
      const resource = this.#catalogue.find(from.kind)
      if (user === undefined || resource === undefined) continue
      const link = linksOf(resource, user.record).find(
        (one) => one.field === field && one.kind === kind && one.id === id
      )
      if (link !== undefined && link.onTargetDelete !== 'keep') this.#inUse(`${kind} ${id}`, from)
    }
    if (kind !== reservedDomain.name) return
    for await (const page of everyRecord(this.#tx, httpsEdge.name)) {
      for (const edge of page) {
        const { hostports } = edge.body as { readonly hostports?: readonly string[] }
        if ((hostports ?? []).some((hostport) => splitHostport(hostport).host === body.domain)) {
          this.#inUse(`${kind} ${id}`, edge)
        }
      }
    }
  }

  /** A parent's answer shows its children, so that their change is a new revision of it. */
  async touchParents(edits: readonly Edit[]): Promise<void> {
    const parents = new Map<string, RecordKey>()
    for (const { resource, before, after } of edits) {
      const family = this.#catalogue.parentOf(resource)
      const body = (after ?? before)?.body
      if (family === undefined || body === undefined) continue
      const key = { kind: family.parent.name, id: String(body[family.field]) }
      parents.set(textOf(key), key)
    }
    for (const { kind, id } of await this.#tx.getMany([...parents.values()])) {
      await this.#tx.update(kind, id, {})
    }
  }

  #missing({ kind, id, field, onTargetDelete }: Link, user: ResourceRecord, path: TransferPath): void {
    if (onTargetDelete === 'keep') {
      this.warnings.push(`${textOf(user)} names ${kind} ${id} in ${field}, which is not there`)
      return
    }
    const place = [...path, 'fields', ...segmentsOf(field)]
    this.problems.push({ path: place, code: 'REF_NOT_FOUND', message: `there is no ${kind} ${id}` })
  }

  #inUse(what: string, user: RecordKey): void {
    const index = this.#document.records[user.kind]?.findIndex(({ id }) => id === user.id) ?? -1
    const path = index === -1 ? ['records'] : ['records', user.kind, index]
    const message = `${textOf(user)} needs ${what}, which the document does not have`
    this.problems.push({ path, code: 'IN_USE', message })
  }

  async #allowed(path: TransferPath, check: () => Promise<void>): Promise<void> {
    try {
      await check()
    } catch (error) {
      if (!(error instanceof ControlError)) throw error
      const place = error.field === undefined ? path : [...path, 'fields', ...segmentsOf(error.field)]
      this.problems.push({ path: place, code: error.code, message: error.message })
    }
  }
}

function keyOf({ kind, id }: RecordKey): RecordKey {
  return { kind, id }
}

function textOf({ kind, id }: RecordKey): string {
  return `${kind} ${id}`
}

function claimText({ space, value }: { readonly space: string; readonly value: string }): string {
  return JSON.stringify([space, value])
}
