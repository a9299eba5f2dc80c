import type { OwnPart, OwnUnits, WholeOwn } from '../../control/apply.js'
import type { Call, Done, PolicyWarning, WriteMode } from '../../control/calls.js'
import { clashesWithStore, type DeclaredRecords, type DeclaredSet, SITE } from '../../control/declared-records.js'
import { mustMatch } from '../../control/edits.js'
import { ControlError, controlErrors, impossible, notFound, orUnavailable } from '../../control/errors.js'
import type { GuardedRevert } from '../../control/guard-note.js'
import type { ControlParts } from '../../control/parts.js'
import type { RecordedChange } from '../../control/revision-note.js'
import { mustHave } from '../../control/rights.js'
import type { Draft } from '../../control/transaction.js'
import type { Clock } from '../../lib/clock.js'
import { timestampText } from '../../lib/json.js'
import type { UnitProblems } from '../../policy/problems.js'
import { claimsOf, type Resource } from '../../resources/resource.js'
import type { StoredRecord } from '../../store/records.js'
import type { StoreLog, StoreReader } from '../../store/store.js'
import type { SiteFileView, SiteFileWritten } from './answers.js'
import { adoptionOf } from './declared/adoption.js'
import type { Adoption } from './declared/adoption-form.js'
import { itemsOf, type SiteDifference, siteDifferences } from './declared/differences.js'
import { bundleOf, KEPT_SITE_FILES, keepBefore, readBefore } from './declared/site-before.js'
import { applyErrors, siteRefused } from './declared/site-errors.js'
import { currentSite, type SiteFile, type SiteFileRead, siteOf } from './declared/site-file.js'
import { siteHistory } from './declared/site-history.js'
import { type RemovedRecord, readSiteRequest, type SiteBundle, type SiteReading } from './declared/site-request.js'
import { reasons, together, warningsOf } from './declared/site-warnings.js'

interface SitesParts
  extends Pick<ControlParts, 'store' | 'records' | 'catalogue' | 'writer' | 'answers' | 'declared' | 'edits'> {
  readonly own: OwnUnits
  readonly reading: SiteReading | undefined
  readonly resources: readonly Resource[]
  readonly clock: Clock
  readonly log: StoreLog
}

/** Public form of a site file, with its ETag; null if no write created it. */
export interface ShownSite {
  readonly body: SiteFileView
  readonly revision: number
}

/** Result of a write of the site file, or of a dry run. */
export interface WrittenSite extends Done {
  readonly body: SiteFileWritten
  readonly revision: number
  readonly uri: string
}

/** Name of the site file's part of the process's own units. */
export const SITE_PART = 'site'
/** Path of the site file in the API. */
const PATH = '/site'

/** Stored data of an applied file beside its text. A type, not an interface: it is JSON. */
type StoredBody = {
  readonly file: string
  readonly digest: string
  /** RFC 3339. */
  readonly applied_at: string
}

/** The next file to serve. */
interface NextSite {
  readonly set: DeclaredSet
  readonly file: SiteFile
  readonly bundle: SiteBundle
}

/**
 * The site file of the account: that of the start, or the one applied by the API. An applied file is one record of the store, with all claims of its
 * declarations, so that no process uses its hosts for other records; its text and named files are sealed.
 */
export class Sites {
  readonly #parts: SitesParts
  #following: Promise<void> | undefined
  #again = false

  constructor(parts: SitesParts) {
    this.#parts = parts
  }

  /** Returns the file that is declared. */
  get(): ShownSite {
    const { declared } = this.#parts
    return { body: this.#shown(declared.current), revision: declared.current?.revision ?? 0 }
  }

  /**
   * Replaces the account's declared configuration by the file of the body, in one write: all or nothing. Fails with `SITE_FILE_REFUSED`,
   * `SITE_FILE_STARTED`, `PRECONDITION_FAILED`, or as any write does.
   */
  async replace(body: unknown, mode: WriteMode, call: Call): Promise<WrittenSite> {
    const { remove, ...bundle } = readSiteRequest(body)
    if (mode.dryRun !== true) this.#mustDecide()
    const { declared, clock } = this.#parts
    const next = await this.#asApplied(bundle, timestampText(clock.wall()))
    const changes = await siteDifferences(currentSite(declared), next.file)
    const done = await this.#write(next, { remove, changes }, mode, call)
    return this.#written(done, { changes, removed: remove, warnings: warningsOf(next.problems) })
  }

  async #asApplied(
    bundle: SiteBundle,
    since: string,
    policed?: ReadonlySet<string>
  ): Promise<NextSite & Pick<SiteFileRead, 'problems'>> {
    const { file, problems } = await this.#read(bundle, policed)
    if (file === undefined) throw siteRefused(problems)
    const set: DeclaredSet = { source: bundle.file, text: bundle.text, records: file.records, site: file, since }
    return { set, file, bundle, problems }
  }

  /** Removes the applied file and its declarations. Fails with `NOT_FOUND` if there is none, and as `replace`. */
  async remove(mode: WriteMode, call: Call): Promise<WrittenSite> {
    const changes = await siteDifferences(this.#started ? undefined : currentSite(this.#parts.declared), undefined)
    const done = await this.#write(undefined, { remove: [], changes }, mode, call)
    return this.#written(done, { changes, removed: [], warnings: [] })
  }

  /**
   * Reverts a recent revision that has applied or removed a file: restores the previous file, or none. `change`: change of that revision. Fails with
   * `REVERT_IMPOSSIBLE`, with `REVERT_CONFLICT` if another file was applied since, and as `replace`.
   */
  async restore(
    revision: number,
    change: RecordedChange,
    mode: WriteMode,
    call: Call,
    why: GuardedRevert | undefined
  ): Promise<{ readonly number: number; readonly changes: readonly RecordedChange[]; readonly done: Done }> {
    mustHave(call.principal, 'site_file')
    const { store, records, clock } = this.#parts
    const before = await orUnavailable(readBefore(store, records, revision))
    if (before === undefined) {
      const why = `only the last ${KEPT_SITE_FILES} replaced files are kept`
      throw impossible(revision, `it changed the site file, and ${why}; apply the file of before instead`)
    }
    // Sites that had no policy then may have none again.
    const since = timestampText(clock.wall())
    const next = before === 'none' ? undefined : await this.#asApplied(before, since, new Set())
    let made: { number: number; changes: readonly RecordedChange[] } | undefined
    const first = async (draft: Draft, stored: StoredRecord | undefined) => {
      const digest = stored === undefined ? null : (stored.body as StoredBody).digest
      if (digest !== (change.fields.digest?.after ?? null)) {
        const message = 'later writes stand in the way: another site file has been applied since'
        throw new ControlError(controlErrors.REVERT_CONFLICT, message)
      }
      draft.reverts = revision
      draft.reason = why?.reason
      await why?.also(draft.tx)
      made = { number: draft.tx.number, changes: draft.changes }
    }
    const changes = await siteDifferences(currentSite(this.#parts.declared), next?.file)
    const done = await this.#write(next, { remove: [], changes }, mode, call, first)
    return { number: 0, changes: [], ...made, done }
  }

  /** Returns the records of the API as a site file. */
  async adopt(): Promise<Adoption> {
    const { store, records, resources, reading } = this.#parts
    const edgesOnHttp = reading?.edgesOnHttp ?? 'serve'
    return await orUnavailable(adoptionOf(store, { records, resources, edgesOnHttp }))
  }

  /** Returns the applied file as own units at start; undefined if there is none, or the options name another one. */
  async stored(): Promise<{ readonly problems: readonly UnitProblems[]; readonly part?: OwnPart } | undefined> {
    const { store } = this.#parts
    const stored = this.#started ? undefined : await orUnavailable(store.get(SITE.kind, SITE.id))
    if (stored === undefined) return undefined
    const bundle = bundleOf(this.#parts.records, stored)
    const { file, problems } = await this.#read(bundle)
    if (file === undefined) return { problems }
    const { applied_at: since } = stored.body as StoredBody
    const about = { source: bundle.file, text: bundle.text, records: file.records, site: file }
    const set: DeclaredSet = { ...about, since, revision: stored.revision }
    return { problems, part: partOf(set, file) }
  }

  /** A revision of the store serves: where another process has applied a file, it serves here too, soon. Never throws. */
  followed(): void {
    if (this.#parts.reading === undefined || this.#started) return
    if (this.#following !== undefined) {
      this.#again = true
      return
    }
    this.#following = this.#follow().finally(() => {
      this.#following = undefined
      if (!this.#again) return
      this.#again = false
      this.followed()
    })
  }

  async #follow(): Promise<void> {
    const { store, declared, own, log } = this.#parts
    try {
      const found = await store.get(SITE.kind, SITE.id)
      if (found?.revision === declared.current?.revision) return
      if (found === undefined) {
        await own.drop(SITE_PART)
        return
      }
      const read = await this.stored()
      const applied = read?.part && (await own.putAll(new Map([[SITE_PART, read.part]])))
      const problems = applied?.ok === false ? applied.problems : (read?.problems ?? [])
      if (applied?.ok !== true) log.warn({ problems: reasons(problems) }, 'the applied site file cannot serve here')
    } catch (error) {
      log.warn({ err: error }, 'the applied site file cannot be followed')
    }
  }

  get #started(): boolean {
    return this.#parts.reading?.startedWith !== undefined
  }

  /** Fails with `SITE_FILE_STARTED`. */
  #mustDecide(): void {
    const file = this.#parts.reading?.startedWith
    if (file === undefined) return
    const message = `the process was started with the site file ${file}, which alone says what it declares`
    throw new ControlError(applyErrors.SITE_FILE_STARTED, message, { details: { file } })
  }

  /** `policed`: see `SiteFileInput`. */
  #read(
    bundle: SiteBundle,
    policed: ReadonlySet<string> = currentSite(this.#parts.declared)?.policed ?? new Set()
  ): Promise<SiteFileRead> {
    const { reading } = this.#parts
    if (reading === undefined) throw notFound('site file: this process reads none')
    return reading.read(bundle, policed)
  }

  async #write(
    next: NextSite | undefined,
    { remove, changes }: Pick<Differing, 'changes'> & { readonly remove: readonly RemovedRecord[] },
    mode: WriteMode,
    call: Call,
    first: (draft: Draft, stored: StoredRecord | undefined) => Promise<void> = async () => undefined
  ): Promise<Done> {
    const { writer, own } = this.#parts
    const part = next === undefined ? undefined : partOf(next.set, next.file)
    const work = async (draft: Draft, belonging: WholeOwn) => {
      const stored = await draft.tx.get(SITE.kind, SITE.id)
      mustMatchRevision(stored, mode)
      await first(draft, stored)
      if (next === undefined && stored === undefined) throw notFound('applied site file')
      await this.#removeRecords(draft, remove)
      if (next !== undefined)
        await mustNotClash(draft.tx, next.set, stored === undefined ? undefined : this.#parts.declared)
      if (next !== undefined && stored !== undefined && (stored.body as StoredBody).digest === next.file.digest) return
      await keepBefore(draft.tx, this.#parts.records, stored)
      await this.#store(draft, stored, next, changes)
      // A process keeps serving the file of its start.
      if (next !== undefined || !this.#started) draft.own = belonging
      if (draft.own?.declared !== undefined && next !== undefined) {
        draft.own = { ...draft.own, declared: { ...next.set, revision: draft.tx.number } }
      }
    }
    const { done } = await own.within(SITE_PART, part, async (belonging) => {
      let own: WholeOwn | undefined
      const { done } = await writer.write(call, mode, async (draft) => {
        await work(draft, belonging)
        own = draft.own
      })
      if (mode.dryRun === true || own === undefined) return { serves: 'kept' as const, done }
      // The revision is known after the write.
      return { serves: part && { ...part, ...declaredBy(own) }, done }
    })
    return done
  }

  async #removeRecords(draft: Draft, wanted: readonly RemovedRecord[]): Promise<void> {
    const { catalogue, records } = this.#parts
    for (const { resource: kind, id, revision } of wanted) {
      const resource: Resource | undefined = catalogue.find(kind)
      if (resource === undefined) throw notFound(`kind of records: ${kind.slice(0, 64)}`)
      const found = await records.findAny(draft.tx, kind, id)
      if (found === undefined) {
        // Records below a record are deleted with it.
        if (draft.touched.some((one) => one.kind === kind && one.id === id)) continue
        throw changedSince(kind, id, 'is gone')
      }
      // The deletion of a record below it in this write has changed its revision.
      if (found.revision !== revision && found.revision !== draft.tx.number) {
        throw changedSince(kind, id, `has changed; its revision is ${found.revision}`)
      }
      await draft.remove(found.record)
    }
  }

  /** Writes, replaces or deletes the record of the file with its claims. */
  async #store(
    draft: Draft,
    stored: StoredRecord | undefined,
    next: NextSite | undefined,
    changes: readonly SiteDifference[]
  ): Promise<void> {
    const { tx } = draft
    const before = stored?.body as StoredBody | undefined
    if (stored !== undefined) {
      const claims = await tx.claimsOf(SITE.kind, SITE.id)
      await tx.releaseMany(claims.map((claim) => ({ ...claim, keeper: SITE })))
    }
    if (next === undefined) await tx.delete(SITE.kind, SITE.id)
    else {
      const { set, file, bundle } = next
      const body: StoredBody = { file: set.source, digest: file.digest, applied_at: String(set.since) }
      const record = { ...SITE, createdAt: String(set.since), body, secrets: { bundle: JSON.stringify(bundle) } }
      const kept = this.#parts.records.stored(record)
      if (stored === undefined) await tx.insert({ ...SITE, ...kept })
      else await tx.update(SITE.kind, SITE.id, kept)
      const claims = set.records.flatMap(({ resource, record }) => claimsOf(resource, record))
      await tx.claimMany(claims.map(({ space, value }) => ({ space, value, keeper: SITE })))
    }
    const after = next && { file: next.set.source, digest: next.file.digest }
    const fields = Object.fromEntries(
      (['file', 'digest'] as const)
        .map((name) => [name, { before: before?.[name] ?? null, after: after?.[name] ?? null }] as const)
        .filter(([, pair]) => pair.before !== pair.after)
    )
    const change = stored === undefined ? 'created' : next === undefined ? 'deleted' : 'updated'
    const object = this.#shown(next === undefined ? undefined : { ...next.set, revision: tx.number })
    const things = siteHistory(changes, (next?.set.source ?? before?.file) as string)
    const recorded = { ...SITE, path: PATH, change, fields: { ...things.fields, ...fields } } as const
    await draft.noted({ ...recorded, secrets: things.secrets }, 'site_file', object)
  }

  #shown(set: DeclaredSet | undefined): SiteFileView {
    const { revision, since, source } = set ?? {}
    const site = siteOf(set)
    const origin = set === undefined ? null : revision === undefined ? 'start' : 'apply'
    return {
      uri: `${this.#parts.answers.baseUrl}${PATH}`,
      file: source ?? null,
      origin,
      revision: revision ?? null,
      digest: site?.digest ?? null,
      since: since ?? null,
      items: site === undefined ? [] : itemsOf(site)
    }
  }

  #written(done: Done, more: Differing): WrittenSite {
    const { declared } = this.#parts
    const removed = more.removed.map(({ resource, id }) => ({ resource, id }))
    const warnings = together(more.warnings, done.warnings ?? [])
    const changes = [...more.changes]
    const body = { ...this.#shown(declared.current), changes, removed, warnings: warnings.map((one) => ({ ...one })) }
    const uri = `${this.#parts.answers.baseUrl}${PATH}`
    return { body, revision: declared.current?.revision ?? 0, uri, ...done, warnings }
  }
}

interface Differing {
  readonly changes: readonly SiteDifference[]
  readonly removed: readonly RemovedRecord[]
  readonly warnings: readonly PolicyWarning[]
}

const declaredBy = ({ declared }: WholeOwn) => (declared === undefined ? {} : { declared })

const partOf = (declared: DeclaredSet, { units, secrets }: SiteFile): OwnPart => ({ units, secrets, declared })

function mustMatchRevision(stored: StoredRecord | undefined, { ifMatch }: WriteMode): void {
  const revision = stored?.revision ?? 0
  mustMatch({ revision }, ifMatch)
}

/** Fails with `SITE_FILE_REFUSED`, with the line of each thing that a record of the API has already. */
async function mustNotClash(
  reader: StoreReader,
  set: DeclaredSet,
  serving: DeclaredRecords | undefined
): Promise<void> {
  const problems = await clashesWithStore(reader, set, serving)
  if (problems.length > 0) throw siteRefused(problems)
}

function changedSince(kind: string, id: string, what: string): ControlError {
  const message = `${kind} ${id}, which is to be removed, ${what}; adopt it again`
  return new ControlError(controlErrors.PRECONDITION_FAILED, message, { details: { resource: kind, id } })
}
