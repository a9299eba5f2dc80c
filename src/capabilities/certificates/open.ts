import type { Foundation } from '../../app/foundation.js'
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
import { authorityOf, CertificateService } from './service.js'

/** Managed certificates as the options want them. Fails with `FILE_UNREADABLE`, and as `CertificateService.open` does. */
export async function openCertificates(
  options: Options,
  { clock, names, log, challenges, revisions, lifecycle }: Foundation,
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
  lifecycle.opens({
    certificates: {
      async stop() {
        unfollow()
        await service.stop()
        outbound.close()
      }
    }
  })
  return service
}
