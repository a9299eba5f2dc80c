import type { Foundation } from '../../app/foundation.js'
import { partKey } from '../../app/opened-parts.js'
import type { ControlPlane } from '../../control/control-plane.js'
import { readOptionFile } from '../../lib/files.js'
import { createOutbound, type Outbound } from '../../lib/http-client/outbound.js'
import { unpredictable } from '../../lib/id.js'
import { readAuthorityFile } from '../../lib/x509.js'
import { isShared, storeAddress } from '../../options/catalogue.js'
import type { Options } from '../../options/options.js'
import { agentIngress } from '../../resources/domains.js'
import { currentSite } from '../site-file/declared/site-file.js'
import type { AuthorityOptions } from './account.js'
import type { ChallengeTable } from './challenges.js'
import { authorityOf, CertificateService } from './service.js'

/** The challenges of managed certificates. */
export const CHALLENGE_TABLE = partKey<ChallengeTable>('challenges of managed certificates')
/** The managed certificates of this process. */
export const CERTIFICATES = partKey<CurrentCertificates>('managed certificates')

interface CertificateFoundation extends Pick<Foundation, 'clock' | 'names' | 'log' | 'revisions' | 'lifecycle'> {
  readonly challenges: ChallengeTable
}

/** The certificates of a process; their service is recreated after each release. */
export class CurrentCertificates {
  readonly #open: () => Promise<CertificateService>
  #service: CertificateService | undefined

  constructor(options: Options, foundation: CertificateFoundation, control: ControlPlane) {
    this.#open = () => openCertificates(options, foundation, control)
  }

  /** Fails as `openCertificates` does. */
  async open(): Promise<void> {
    this.#service = await this.#open()
  }

  /** See `CertificateService`. */
  get overdue(): number {
    return this.#service?.overdue ?? 0
  }

  async stop(): Promise<void> {
    await this.#service?.stop()
  }
}

/** Managed certificates as the options want them. Fails with `FILE_UNREADABLE`, and as `CertificateService.open` does. */
async function openCertificates(
  options: Options,
  { clock, names, log, challenges, revisions, lifecycle }: CertificateFoundation,
  control: ControlPlane
): Promise<CertificateService> {
  const { acme, dns, zone, regions } = options
  const usual = acme.ca === undefined ? undefined : await readAuthorityFile(acme.ca, 'acme.ca')
  const outboundOf = (ca: string | undefined): Outbound =>
    createOutbound({
      clock,
      lookup: names.lookup,
      // The operator names the authority, which may be in a network of one's own.
      allowPrivate: true,
      ...(ca === undefined ? {} : { authorities: [ca] })
    })
  const outbound = outboundOf(usual)
  const hmacKey = acme.eab_key === undefined ? undefined : await readOptionFile(acme.eab_key, 'acme.eab_key')
  const { directory, email, agree_terms: agreed, eab_kid: kid, orders: orderLimit } = acme
  const optional = authorityOf({ directory, email, agreed: true, kid, hmacKey, orderLimit }) as AuthorityOptions
  const service = await CertificateService.open({
    control: control.serviceAccount,
    challenges,
    outbound,
    authority: authorityOf({ directory, email, agreed, kid, hmacKey, orderLimit }),
    site: {
      outbound: (ca) => outboundOf(ca ?? usual),
      complete: (declared) => ({ ...optional, ...declared })
    },
    clock,
    lookup: (host) => names.lookup(host),
    hasTls: () => {
      const declared = currentSite(control.serviceAccount.declared)?.listeners ?? []
      return options.listeners.some(({ tls }) => tls) || declared.some(({ unit }) => unit.tls)
    },
    shared: isShared(storeAddress(options)),
    random: unpredictable,
    log,
    zone,
    regions,
    dns: dns.listen,
    addresses: dns.addresses
  })
  const unfollow = revisions.add({
    served: () => service.wake(),
    settled: (kinds) => (kinds.has(agentIngress.name) ? service.followed() : undefined)
  })
  lifecycle.opens('certificates', {
    async shared() {
      unfollow()
      await service.stop()
      outbound.close()
    }
  })
  return service
}
