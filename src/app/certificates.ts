import type { Logger } from 'pino'
import { authorityOf, CertificateService } from '../certificates/service.js'
import type { ControlPlane } from '../control/control-plane.js'
import type { Clock } from '../lib/clock.js'
import { readOptionFile } from '../lib/files.js'
import { createOutbound } from '../lib/http-client/outbound.js'
import { unpredictable } from '../lib/id.js'
import type { Names } from '../lib/names/names.js'
import { isShared, storeAddress } from '../options/catalogue.js'
import type { Options } from '../options/options.js'

export interface OpenCertificates {
  readonly service: CertificateService
  stop(): Promise<void>
}

/** Managed certificates as the options want them. Fails with `FILE_UNREADABLE`, and as `CertificateService.open` does. */
export async function openCertificates(
  options: Options,
  {
    control,
    clock,
    names,
    log
  }: { readonly control: ControlPlane; readonly clock: Clock; readonly names: Names; readonly log: Logger }
): Promise<OpenCertificates> {
  const { acme, dns, zone, regions } = options
  const outbound = createOutbound({
    clock,
    lookup: names.lookup,
    // The operator names the authority, which may be in a network of one's own.
    allowPrivate: true,
    ...(acme.ca === undefined ? {} : { authorities: [await readOptionFile(acme.ca, 'acme.ca')] })
  })
  const hmacKey = acme.eab_key === undefined ? undefined : await readOptionFile(acme.eab_key, 'acme.eab_key')
  const { directory, email, agree_terms: agreed, eab_kid: kid } = acme
  const service = await CertificateService.open({
    control: control.parts,
    outbound,
    authority: authorityOf({ directory, email, agreed, kid, hmacKey }),
    clock,
    shared: isShared(storeAddress(options)),
    random: unpredictable,
    log,
    zone,
    regions,
    dns: dns.listen,
    addresses: dns.addresses
  })
  return {
    service,
    async stop() {
      await service.stop()
      outbound.close()
    }
  }
}
