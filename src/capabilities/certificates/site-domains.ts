import type { Call } from '../../control/calls.js'
import type { DeclaredSet } from '../../control/declared-records.js'
import type { ServiceAccount } from '../../control/parts.js'
import { everyRecord } from '../../control/records.js'
import { withEarlierRetry } from '../../control/renewal.js'
import type { Clock } from '../../lib/clock.js'
import { codeOf } from '../../lib/errors.js'
import { type CertificateWork, type ManagementStatus, reservedDomain } from '../../resources/domains.js'
import type { ResourceRecord } from '../../schema/field.js'
import type { DeclaredCertificates } from '../site-file/declared/acme.js'
import { declaredId } from '../site-file/declared/declaration.js'
import { siteOf } from '../site-file/declared/site-file.js'

const NOTHING: DeclaredCertificates = { keyType: 'ecdsa', hosts: [] }

export interface SiteDomainsParts {
  readonly control: ServiceAccount
  readonly call: () => Call
  readonly clock: Clock
  /** Do other processes use the store? They may have other site files. */
  readonly shared: boolean
  readonly log: { warn(fields: object, message: string): void }
}

/**
 * Keeps a reserved domain for each host of the site file with a managed certificate, and deletes those that it created for
 * removed hosts. Their ids are derived from their names, which distinguishes them from domains of users. A domain reserved
 * by a user keeps its certificate.
 */
export class SiteDomains {
  readonly #parts: SiteDomainsParts
  /** State of the last successful run. */
  #settled: { readonly set: DeclaredSet | undefined; readonly revision: number } | undefined
  /** Hosts that this process has wanted since it started. */
  readonly #wanted = new Set<string>()

  constructor(parts: SiteDomainsParts) {
    this.#parts = parts
  }

  /** Creates missing domains and removes superfluous ones. Fails as the store does. */
  async settle(): Promise<void> {
    const { control } = this.#parts
    const set = control.declared.current
    if (set === undefined && this.#wanted.size === 0) return
    const revision = await control.store.revision()
    const settled = this.#settled
    if (settled !== undefined && settled.set === set && settled.revision === revision) return
    const { hosts, keyType } = siteOf(set)?.certificates ?? NOTHING
    const names = new Set(hosts.map(({ host }) => host))
    for (const host of names) {
      this.#wanted.add(host)
      await this.#keep(host, keyType, settled !== undefined && settled.set !== set)
    }
    // Another process may have its own site file, and an accidental start without a file must not delete certificates.
    const alone = set !== undefined && (!this.#parts.shared || set.revision !== undefined)
    for await (const page of everyRecord(control.store, reservedDomain.name)) {
      for (const { id, body } of page) {
        const { domain } = body as { readonly domain: string }
        if (id !== idOf(domain) || names.has(domain) || !(alone || this.#wanted.has(domain))) continue
        await this.#remove(id)
        this.#wanted.delete(domain)
      }
    }
    this.#settled = { set, revision: await control.store.revision() }
  }

  /** Creates or updates the domain of a host. `saved`: the file was written since, possibly with corrections. */
  async #keep(host: string, keyType: DeclaredCertificates['keyType'], saved: boolean): Promise<void> {
    const { control, call, log } = this.#parts
    const { store, records, edits, writer } = control
    const id = idOf(host)
    const policy = { authority: 'letsencrypt' as const, private_key_type: keyType }
    const found = await records.findAny(store, reservedDomain.name, id)
    if (found === undefined) {
      if ((await store.keeperOf('domain', host)) !== undefined) return
    } else if (keyTypeOf(found.record) === keyType && !(saved && this.#sooner(found.record) !== undefined)) return
    try {
      const body = { domain: host, description: 'Made for the site file.', certificate_management_policy: policy }
      const { record } = await edits.make(store, reservedDomain, {}, body, call())
      await writer.write(call(), {}, async (draft) => {
        const current = await records.findAny(draft.tx, reservedDomain.name, id)
        if (current === undefined) await draft.insert(reservedDomain, { ...record, id })
        else {
          const { record: before } = current
          const sooner = this.#sooner(before)
          const status = sooner === undefined ? {} : { certificate_management_status: sooner }
          const body = { ...before.body, ...status, certificate_management_policy: policy }
          await draft.update(reservedDomain, current, { ...before, body })
        }
      })
    } catch (error) {
      // A failing name must not block the others; another process may have created it.
      log.warn({ err: error, code: codeOf(error), host }, 'no managed certificate can be had for a site')
    }
  }

  /** Returns the status of a domain whose failed request may be retried earlier. */
  #sooner({ body }: ResourceRecord): ManagementStatus | undefined {
    const { certificate_management_status: status, certificate_work: work } = body as ManagedBody
    return withEarlierRetry(status, work ?? null, this.#parts.clock.wall())
  }

  async #remove(id: string): Promise<void> {
    const { control, call } = this.#parts
    await control.writer.write(call(), {}, async (draft) => {
      const found = await control.records.findAny(draft.tx, reservedDomain.name, id)
      if (found !== undefined) await draft.remove(found.record)
    })
  }
}

type ManagedBody = {
  readonly certificate_management_status: ManagementStatus | null
  /** Records of an older version lack it. */
  readonly certificate_work?: CertificateWork | null
}

const idOf = (host: string) => declaredId(reservedDomain, [host])

function keyTypeOf({ body }: ResourceRecord): string | undefined {
  const policy = body.certificate_management_policy as { readonly private_key_type: string } | null
  return policy?.private_key_type
}
