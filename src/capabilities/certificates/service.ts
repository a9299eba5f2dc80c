import { isIP } from 'node:net'
import { CodedError, defineErrors } from '../../lib/errors.js'
import type { AuthorityOptions } from './account.js'
import { AddressWatch, type AddressWatchParts } from './address-watch.js'
import { Certificates, type CertificatesParts } from './certificates.js'
import { type DnsListener, openDnsListener, Zones } from './dns/server.js'

/** Codes of options that managed certificates need. */
export const certificateOptionErrors = defineErrors({
  OPTION_INVALID: {
    text: 'An option of managed certificates has a wrong value or lacks another one.',
    help: 'Correct the option that the message names.'
  }
})

export interface CertificateServiceParts extends Omit<CertificatesParts, 'dns' | 'regions' | 'watch'> {
  /** Zone of the names that the service makes. */
  readonly zone: string
  /** Addresses of a host; rejects when it has none. */
  readonly lookup: AddressWatchParts['lookup']
  /** Public addresses of this service: records of its names in delegated domains. */
  readonly addresses: readonly string[]
  readonly regions: readonly string[]
  /** Address of the DNS listener; undefined for none. */
  readonly dns: { readonly host: string; readonly port: number } | undefined
}

/** Interval between ticks (ms). */
const EVERY = 1_000
/** Labels of the name servers. */
const SERVERS = ['ns1', 'ns2']

/** Managed certificates in a running process: the clock that drives them and the name server of their challenges. */
export class CertificateService {
  readonly #certificates: Certificates
  readonly #dns: DnsListener | undefined
  readonly #timer: NodeJS.Timeout

  private constructor(certificates: Certificates, dns: DnsListener | undefined) {
    this.#certificates = certificates
    this.#dns = dns
    this.#timer = setInterval(() => this.wake(), EVERY).unref()
  }

  /** Opens the DNS listener and begins. Rejects with the system's error, or a CodedError `OPTION_INVALID`. */
  static async open({ dns, zone, ...parts }: CertificateServiceParts): Promise<CertificateService> {
    const certificates = new Certificates({ ...parts, dns: dns !== undefined, watch: new AddressWatch(parts) })
    const zones = new Zones({
      apex: `acme.${zone}`,
      servers: SERVERS.map((server) => `${server}.${zone}`),
      addresses: parts.addresses.map(address),
      content: {
        domains: () => certificates.delegated(),
        texts: (name) => parts.challenges.texts(name),
        isAgentHost: (name) => certificates.isAgentHost(name)
      }
    })
    const answering = { answer: zones.answer.bind(zones), log: parts.log }
    const listener = dns === undefined ? undefined : await openDnsListener(dns, answering)
    if (listener !== undefined) parts.log.info({ dns: listener.address }, 'the DNS of challenges is served')
    const service = new CertificateService(certificates, listener)
    service.wake()
    return service
  }

  /** Address of the DNS listener. */
  get dns(): DnsListener['address'] | undefined {
    return this.#dns?.address
  }

  /** Number of managed certificates past their renewal time. */
  get overdue(): number {
    return this.#certificates.overdue
  }

  /** A revision serves, or time has passed. */
  wake(): void {
    void this.#certificates.tick()
  }

  /** Waits until the name server has applied earlier writes. Never rejects. */
  async followed(): Promise<void> {
    await this.#certificates.follow()
  }

  /** Waits for the step that runs. Before the store closes. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await Promise.all([this.#certificates.close(), this.#dns?.close()])
  }
}

/** Options of an authority. */
export interface AcmeOptions {
  readonly directory: string
  readonly email: string | undefined
  readonly agreed: boolean
  readonly kid: string | undefined
  readonly hmacKey: string | undefined
  readonly orderLimit: number
}

const NOT_AGREED =
  'certificates are not requested here: the operator has not agreed to the terms of the authority (option acme.agree_terms)'

/** Returns the authority, or the reason why there is none. Throws a CodedError `OPTION_INVALID`. */
export function authorityOf({
  directory,
  email,
  agreed,
  kid,
  hmacKey,
  orderLimit
}: AcmeOptions): AuthorityOptions | string {
  if (!URL.canParse(directory) || !/^https?:$/.test(new URL(directory).protocol)) {
    throw new CodedError(certificateOptionErrors.OPTION_INVALID, `acme.directory: ${directory} is no http(s) URL`)
  }
  if ((kid === undefined) !== (hmacKey === undefined)) {
    throw new CodedError(
      certificateOptionErrors.OPTION_INVALID,
      'acme.eab_kid and acme.eab_key belong together: one is missing'
    )
  }
  if (!agreed) return NOT_AGREED
  const externalAccount = kid === undefined || hmacKey === undefined ? undefined : { kid, hmacKey: hmacKey.trim() }
  return { directory, email, externalAccount, orderLimit }
}

function address(text: string): string {
  if (isIP(text) === 0)
    throw new CodedError(certificateOptionErrors.OPTION_INVALID, `dns.addresses: ${text} is no IP address`)
  return text
}
