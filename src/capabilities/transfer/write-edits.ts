import { ControlError } from '../../control/errors.js'
import { claimText, isShared, passOn } from '../../control/pooled-claims.js'
import { hostsMustBeReserved, mustCarryBytes, userOfAddress } from '../../control/record-rules.js'
import { Catalogue, everyRecord } from '../../control/records.js'
import { ownersMustExist } from '../../control/rights.js'
import { reservedDomain } from '../../resources/domains.js'
import { ENTRIES, namedHostports } from '../../resources/entries.js'
import { type Claim, claimsOf, linksOf, newLinks, type Resource } from '../../resources/resource.js'
import { splitHostport } from '../../resources/units.js'
import type { Body, Link, ResourceRecord } from '../../schema/field.js'
import { idsByKind, pieces } from '../../store/queries.js'
import type { KeptClaim, KeyedUpdate, NewRecord, RecordKey, Reference } from '../../store/records.js'
import type { StoreTransaction } from '../../store/store.js'
import {
  type AccountDocument,
  type ImportOptions,
  ImportRefused,
  type TransferPath,
  type TransferProblem
} from './document.js'
import { segmentsOf } from './read-entry.js'

/** Records whose references are looked up together. */
const CHECKED_AT_ONCE = 250
/** Records that are sealed and handed to the store together. */
const WRITTEN_AT_ONCE = 1_000

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
 * Writes the changes of an import: first deletions, which free names; then released claims, so that records can swap names;
 * then the records; finally their dependencies are checked. Returns warnings. Throws an `ImportRefused`.
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
  await tx.deleteMany(gone.map(({ before }) => keyOf(before)))
  await writing.release(made, gone)
  await writing.records(made)
  await writing.relate(made)
  for (const some of pieces(made, CHECKED_AT_ONCE)) await writing.check(some)
  for (const some of pieces(gone, CHECKED_AT_ONCE)) await writing.mustNotBeNeeded(some)
  await writing.mustNotBeServed(gone)
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
  /** Keys of the records that were written, as text. */
  readonly #made = new Set<string>()

  constructor(tx: StoreTransaction, document: AccountDocument, options: ImportOptions) {
    this.#tx = tx
    this.#document = document
    this.#options = options
    this.#catalogue = new Catalogue(options.resources)
  }

  /** Releases the claims that are given up; a pool keeps its value after the deletion of `gone`. */
  async release(edits: readonly Made[], gone: readonly Gone[]): Promise<void> {
    const free: (KeptClaim & Pick<Claim, 'pool'>)[] = []
    for (const { resource, before, after } of edits) {
      if (before === undefined) continue
      const kept = new Set(claimsOf(resource, after).map(claimText))
      for (const claim of claimsOf(resource, before)) {
        if (!kept.has(claimText(claim))) free.push({ keeper: keyOf(after), ...claim })
      }
    }
    await this.#tx.releaseMany(free)
    const lost = gone.flatMap(({ resource, before }) => claimsOf(resource, before))
    await passOn(this.#tx, [...free, ...lost])
  }

  async records(edits: readonly Made[]): Promise<void> {
    // In batches, to halve the memory for the store's copies.
    for (const some of pieces(edits, WRITTEN_AT_ONCE)) {
      const fresh: NewRecord[] = []
      const changed: KeyedUpdate[] = []
      for (const { before, after, createdAt } of some) {
        const stored = this.#options.records.stored(after)
        if (before !== undefined) changed.push({ ...keyOf(after), ...stored })
        else fresh.push({ ...keyOf(after), ...stored, ...(createdAt === undefined ? {} : { createdAt }) })
        this.#made.add(textOf(after))
      }
      await this.#tx.updateMany(changed)
      await this.#tx.insertMany(fresh)
    }
  }

  /** References and claims. */
  async relate(edits: readonly Made[]): Promise<void> {
    const changed: RecordKey[] = []
    const fresh: Omit<Reference, 'position'>[] = []
    const taken: (KeptClaim & Claim & { readonly place: TransferPath })[] = []
    for (const { resource, before, after, path } of edits) {
      const keeper = keyOf(after)
      const links = linksOf(resource, after)
      const former = before === undefined ? [] : linksOf(resource, before)
      if (JSON.stringify(links) !== JSON.stringify(former)) {
        if (former.length > 0) changed.push(keeper)
        for (const { field, kind, id } of links) fresh.push({ from: keeper, field, to: { kind, id } })
      }
      const held = new Set(before === undefined ? [] : claimsOf(resource, before).map(claimText))
      for (const claim of claimsOf(resource, after)) {
        const place = [...path, 'fields', claim.field]
        if (!held.has(claimText(claim))) taken.push({ keeper, ...claim, place })
      }
    }
    await this.#tx.clearReferences(changed)
    await this.#tx.addReferences(fresh)
    const conflicts = new Map((await this.#tx.claimMany(taken)).map((one) => [claimText(one.claim), one.keeper]))
    for (const { keeper, field, place, ...claim } of taken) {
      const holder = conflicts.get(claimText({ space: claim.space, value: claim.value }))
      if (holder === undefined || textOf(holder) === textOf(keeper)) continue
      if (await isShared(this.#tx, claim, holder)) continue
      const message = `${field} is taken by ${textOf(holder)}`
      this.problems.push({ path: place, code: 'ALREADY_EXISTS', message })
    }
  }

  /** Checks that referenced records exist, as the API does. */
  async check(edits: readonly Made[]): Promise<void> {
    const links = edits.map(({ resource, before, after }) => newLinks(resource, before, after))
    const found = new Set(
      (await this.#tx.getMany(links.flat().filter((link) => !this.#made.has(textOf(link))))).map(textOf)
    )
    for (const [index, { resource, before, after, path }] of edits.entries()) {
      for (const link of links[index] ?? []) {
        if (!found.has(textOf(link)) && !this.#made.has(textOf(link))) this.#missing(link, after, path)
      }
      await this.#allowed(path, async () => {
        await ownersMustExist(this.#tx, resource, after)
        await mustCarryBytes(this.#tx, before, after)
        if (this.#options.requireReserved) await hostsMustBeReserved(this.#tx, before, after)
      })
    }
  }

  /** Checks that no remaining record references a deleted one. */
  async mustNotBeNeeded(gone: readonly Gone[]): Promise<void> {
    const named: Reference[] = []
    for (const [kind, ids] of idsByKind(gone.map(({ before }) => before))) {
      named.push(...(await this.#tx.referencesToAny(kind, ids)))
    }
    const users = new Map<string, ResourceRecord>()
    for (const stored of await this.#tx.getMany(named.map(({ from }) => from))) {
      users.set(textOf(stored), this.#options.records.open(stored).record)
    }
    for (const { from, field, to } of named) {
      const user = users.get(textOf(from))
      const resource = this.#catalogue.find(from.kind)
      if (user === undefined || resource === undefined) continue
      const link = linksOf(resource, user).find(
        (one) => one.field === field && one.kind === to.kind && one.id === to.id
      )
      if (link !== undefined && link.onTargetDelete !== 'keep') this.#inUse(textOf(to), from)
    }
  }

  /** Checks that no remaining edge or cloud endpoint uses the name of a deleted reserved domain, or a deleted reserved address. */
  async mustNotBeServed(gone: readonly Gone[]): Promise<void> {
    const domains = new Map<unknown, string>()
    for (const { before } of gone) {
      const user = await userOfAddress(this.#tx, before)
      if (user !== undefined) this.#inUse(textOf(before), user)
      if (before.kind === reservedDomain.name) domains.set(before.body.domain, textOf(before))
    }
    if (domains.size === 0) return
    for (const { name } of ENTRIES) {
      for await (const page of everyRecord(this.#tx, name)) {
        for (const entry of page) {
          const hostports = namedHostports(name, entry.body as Body)
          for (const host of new Set(hostports.map((hostport) => splitHostport(hostport).host))) {
            const domain = domains.get(host)
            if (domain !== undefined) this.#inUse(domain, entry)
          }
        }
      }
    }
  }

  /** Updates the revision of parents, whose responses contain their children. */
  async touchParents(edits: readonly Edit[]): Promise<void> {
    const parents = new Map<string, RecordKey>()
    for (const { resource, before, after } of edits) {
      const family = this.#catalogue.parentOf(resource)
      const body = (after ?? before)?.body
      if (family === undefined || body === undefined) continue
      const key = { kind: family.parent.name, id: String(body[family.field]) }
      // Records written by this transaction already have its revision.
      if (!this.#made.has(textOf(key))) parents.set(textOf(key), key)
    }
    await this.#tx.touch([...parents.values()])
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
