import { type Call, CERTIFICATE_SERVICE, type Principal } from '../../control/calls.js'
import { Heartbeats } from '../../control/cluster/membership.js'
import type { ServiceAccount } from '../../control/parts.js'
import { everyRecord, type Versioned } from '../../control/records.js'
import type { Draft } from '../../control/transaction.js'
import type { Clock } from '../../lib/clock.js'
import { codeOf } from '../../lib/errors.js'
import { newId } from '../../lib/id.js'
import { timestampText } from '../../lib/json.js'
import { readChain, renewalIdOf } from '../../lib/x509.js'
import { tlsCertificate } from '../../resources/certificates.js'
import { type CertificateWork, type ManagementStatus, REQUESTED_KEY } from '../../resources/domains.js'
import type { Resource } from '../../resources/resource.js'
import type { ResourceRecord } from '../../schema/field.js'
import type { StoredRecord } from '../../store/records.js'
import type { Place } from '../../store/store.js'
import type { Validity } from './renewal-times.js'
import { type ManagedCertificate, TARGET_KINDS, type TargetOptions, targetOf } from './target.js'

/** Changes of a step to a target. */
export interface TargetChange {
  readonly status: ManagementStatus
  readonly work: CertificateWork
  /** Private key of the request; null deletes it. @default unchanged */
  readonly requestedKey?: string | null
}

/** A certificate as the authority issued it. PEM texts. */
export interface Issued {
  readonly chain: string
  readonly privateKey: string
}

/** A certificate that is in use. */
export interface Leaf {
  /** Id for renewal information (RFC 9773 4.1); undefined if it has none. */
  readonly renewalId: string | undefined
  readonly validity: Validity
}

/** Users see this name as the writer of a revision. */
export const OURSELVES: Principal = {
  id: CERTIFICATE_SERVICE,
  role: 'administrator',
  subject: 'certificate management',
  key: null
}

/** Reads targets and writes their changes. Fails as the control plane does. */
export class Ledger {
  readonly #control: ServiceAccount
  readonly #clock: Clock
  readonly #options: TargetOptions
  readonly #signs: Heartbeats

  constructor(control: ServiceAccount, clock: Clock, options: TargetOptions) {
    this.#control = control
    this.#clock = clock
    this.#options = options
    this.#signs = new Heartbeats(clock)
  }

  /** Every target that the store holds. */
  async *targets(): AsyncGenerator<ManagedCertificate> {
    const { store } = this.#control
    for (const kind of TARGET_KINDS.keys()) {
      for await (const page of everyRecord(store, kind)) {
        for (const stored of page) {
          const target = this.#open(stored)
          if (target !== undefined) yield target
        }
      }
    }
  }

  /** Returns the changes after a position; undefined if the history no longer has them, or is a different one. */
  async changes(
    place: Place
  ): Promise<{ place: Place; touched: Map<string, ManagedCertificate | undefined> } | undefined> {
    const { store } = this.#control
    const feed = await store.changesAfter(place, { kinds: [...TARGET_KINDS.keys()] })
    if (!feed.complete) return undefined
    const keys = new Map(feed.changes.map((key) => [key.id, key]))
    const touched = new Map<string, ManagedCertificate | undefined>([...keys.keys()].map((id) => [id, undefined]))
    if (keys.size > 0) {
      const found = await store.getMany([...keys.values()].map(({ kind, id }) => ({ kind, id })))
      for (const stored of found) touched.set(stored.id, this.#open(stored))
    }
    return { place: feed.place, touched }
  }

  /** Returns the leaf of the current certificate; undefined if there is none, or it cannot be read. */
  async leafOf({ certificate }: ManagedCertificate): Promise<Leaf | undefined> {
    if (certificate === null) return undefined
    const found = await this.#control.records.findAny(this.#control.store, tlsCertificate.name, certificate)
    if (found === undefined) return undefined
    const read = readChain(String(found.record.body.certificate_pem))
    const [leaf] = read.ok ? read.certificates : []
    if (!read.ok || leaf === undefined) return undefined
    const { notBefore, notAfter } = read.leaf
    return { renewalId: renewalIdOf(leaf), validity: { notBefore, notAfter } }
  }

  async place(): Promise<Place> {
    const { store } = this.#control
    return await store.placeOf(await store.revision())
  }

  /** Have the other processes on the store applied this revision, except those that have been silent for this time (ms)? */
  async isEverywhere(revision: number, silence: number): Promise<boolean> {
    const reports = await this.#control.store.processes()
    this.#signs.look(reports)
    const silent = new Set(this.#signs.silentFor(silence).map(({ id }) => id))
    return reports.every(({ id, appliedRevision }) => appliedRevision >= revision || silent.has(id))
  }

  /** Writes a step. Returns the revision, or undefined if the target has changed meanwhile. */
  async step(target: ManagedCertificate, change: TargetChange): Promise<number | undefined> {
    return await this.#write(target, async (draft, current) => {
      await this.#put(draft, current, change)
    })
  }

  /** Stores the new certificate as a record and replaces the previous one, which is deleted if unused. */
  async install(target: ManagedCertificate, issued: Issued, change: TargetChange): Promise<number | undefined> {
    const { edits, store } = this.#control
    const body = {
      certificate_pem: issued.chain,
      private_key_pem: issued.privateKey,
      description: `Requested for ${target.names.join(', ')}.`.slice(0, 255)
    }
    const { record } = await edits.make(store, tlsCertificate, {}, body, this.#call())
    const issuedAt = { issued_at: timestampText(this.#clock.wall()) }
    return await this.#write(target, async (draft, current) => {
      await draft.insert(tlsCertificate, { ...record, body: { ...record.body, ...issuedAt } })
      await this.#put(draft, current, change, record.id)
      await this.#dropUnused(draft, current.record.body.certificate)
    })
  }

  /** Cleans up after a user has disabled management. */
  async detach(target: ManagedCertificate): Promise<void> {
    await this.#write(target, async (draft, current) => {
      const { record } = current
      const body = { ...record.body, certificate: null, certificate_work: null, certificate_management_status: null }
      await draft.update(resourceOf(target), current, { ...record, body, secrets: withoutKey(record.secrets) })
      await this.#dropUnused(draft, record.body.certificate)
    })
  }

  /** Removes automatic certificates that no record refers to. */
  async removeOrphans(): Promise<void> {
    const { store, records, writer } = this.#control
    for await (const page of everyRecord(store, tlsCertificate.name)) {
      for (const { id, body } of page) {
        const { issued_at } = body as { issued_at?: string | null }
        if (issued_at == null || (await store.referencesTo(tlsCertificate.name, id, 1)).length > 0) continue
        await writer.write(this.#call(), {}, (draft) => dropUnused(draft, records, id))
      }
    }
  }

  /** A record whose secrets cannot be decrypted is skipped: the control plane reports it. */
  #open(stored: StoredRecord): ManagedCertificate | undefined {
    try {
      return targetOf(this.#control.records.open(stored).record, this.#options)
    } catch (error) {
      if (codeOf(error)?.startsWith('SEAL_') === true) return undefined
      throw error
    }
  }

  async #write(
    target: ManagedCertificate,
    work: (draft: Draft, current: Versioned) => Promise<void>
  ): Promise<number | undefined> {
    const { writer, records } = this.#control
    const { value, done } = await writer.write(this.#call(), {}, async (draft) => {
      const current = await records.find(draft.tx, target.kind, target.id)
      if (current === undefined || !isSame(targetOf(current.record, this.#options), target)) return false
      await work(draft, current)
      return true
    })
    return value ? done.committed : undefined
  }

  async #put(draft: Draft, current: Versioned, change: TargetChange, certificate?: string): Promise<void> {
    const { record } = current
    const body = {
      ...record.body,
      certificate_management_status: change.status,
      certificate_work: change.work,
      ...(certificate === undefined ? {} : { certificate })
    }
    const { requestedKey } = change
    const secrets = requestedKey === undefined ? record.secrets : withoutKey(record.secrets)
    const key = typeof requestedKey === 'string' ? { [REQUESTED_KEY]: requestedKey } : {}
    await draft.update(resourceOf(record), current, { ...record, body, secrets: { ...secrets, ...key } })
  }

  async #dropUnused(draft: Draft, certificate: unknown): Promise<void> {
    if (typeof certificate === 'string') await dropUnused(draft, this.#control.records, certificate)
  }

  #call(): Call {
    return { principal: OURSELVES, address: undefined, operationId: newId('op', this.#clock.wall()) }
  }
}

function resourceOf({ kind }: { readonly kind: string }): Resource {
  const resource = TARGET_KINDS.get(kind)
  if (resource === undefined) throw new RangeError(`${kind} has no managed certificates`)
  return resource
}

async function dropUnused(draft: Draft, records: ServiceAccount['records'], id: string): Promise<void> {
  const found = await records.findAny(draft.tx, tlsCertificate.name, id)
  if (found === undefined || found.record.body.issued_at === null) return
  if ((await draft.tx.referencesTo(tlsCertificate.name, id, 1)).length === 0) await draft.remove(found.record)
}

/** Is the target unchanged by other processes? */
function isSame(current: ManagedCertificate | undefined, target: ManagedCertificate): boolean {
  if (current === undefined || current.keyType !== target.keyType) return false
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)
  return same(current.work, target.work) && same(current.status, target.status)
}

function withoutKey(secrets: ResourceRecord['secrets']): Record<string, string> {
  return Object.fromEntries(Object.entries(secrets).filter(([path]) => path !== REQUESTED_KEY))
}
