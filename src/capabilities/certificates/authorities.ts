import type { ServiceAccount } from '../../control/parts.js'
import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import type { DeclaredAuthority } from '../site-file/declared/acme.js'
import { currentSite } from '../site-file/declared/site-file.js'
import { Accounts, type AuthorityOptions } from './account.js'
import { AcmeTransport } from './acme-transport.js'
import { RequestPacer, type RequestPacerParts } from './request-pacer.js'

/** The authority of a site file, completed from the options of the process. */
export interface SiteAuthority {
  complete(declared: DeclaredAuthority): AuthorityOptions
  /** Creates a client that may reach private addresses: the operator names the authority. `ca`: PEM. @default as configured */
  outbound(ca: string | undefined): Outbound
}

/** New orders that Let's Encrypt allows an account in three hours. */
const USUAL_ORDERS = 300

export interface AuthoritiesParts extends Pick<RequestPacerParts, 'waitUntil'> {
  readonly control: ServiceAccount
  readonly clock: Clock
  readonly outbound: Outbound
  /** Authority of the options, or the reason why there is none. */
  readonly authority: AuthorityOptions | string
  /** Authority of the site file. @default that of the options */
  readonly site?: SiteAuthority
}

/** The authority that certificates are requested from now: that of the site file which serves, else that of the options. */
export class Authorities {
  readonly #parts: AuthoritiesParts
  readonly #usual: Accounts | undefined
  #declared: { readonly said: string; readonly accounts: Accounts; readonly outbound: Outbound } | undefined

  constructor(parts: AuthoritiesParts) {
    this.#parts = parts
    const { outbound, authority } = parts
    if (typeof authority !== 'string') this.#usual = this.#accounts(outbound, authority)
  }

  /** Accounts at the current authority; undefined without an authority, for which the options have the reason. */
  get current(): Accounts | undefined {
    const { control, site } = this.#parts
    const declared = currentSite(control.declared)?.certificates.authority
    if (declared === undefined || site === undefined) return this.#usual
    const said = JSON.stringify(declared)
    if (this.#declared?.said === said) return this.#declared.accounts
    this.close()
    const outbound = site.outbound(declared.ca)
    const accounts = this.#accounts(outbound, site.complete(declared))
    this.#declared = { said, accounts, outbound }
    return accounts
  }

  #accounts(outbound: Outbound, options: AuthorityOptions): Accounts {
    const { control, clock, waitUntil } = this.#parts
    const { directory, orderLimit: orders = USUAL_ORDERS } = options
    const pacer = new RequestPacer({ clock, orders, waitUntil })
    return new Accounts(control, new AcmeTransport({ outbound, clock, directory, pacer }), options)
  }

  close(): void {
    this.#declared?.outbound.close()
    this.#declared = undefined
  }
}
