import type { DeclaredAuthority } from '../control/declared/acme.js'
import type { ServiceAccount } from '../control/parts.js'
import type { Clock } from '../lib/clock.js'
import type { Outbound } from '../lib/http-client/outbound.js'
import { Accounts, type AuthorityOptions } from './account.js'
import { AcmeTransport } from './acme-transport.js'

/** The authority of a site file, completed from the options of the process. */
export interface SiteAuthority {
  complete(declared: DeclaredAuthority): AuthorityOptions
  /** May reach private addresses: the operator names the authority. `ca`: PEM; absent: as the options say. */
  outbound(ca: string | undefined): Outbound
}

export interface AuthoritiesParts {
  readonly control: ServiceAccount
  readonly clock: Clock
  readonly outbound: Outbound
  /** Of the options; a text: the reason why there is none. */
  readonly authority: AuthorityOptions | string
  /** Absent: no site file says which. */
  readonly site?: SiteAuthority
}

/** The authority that certificates are requested from now: that of the site file which serves, else that of the options. */
export class Authorities {
  readonly #parts: AuthoritiesParts
  readonly #usual: Accounts | undefined
  #declared: { readonly said: string; readonly accounts: Accounts; readonly outbound: Outbound } | undefined

  constructor(parts: AuthoritiesParts) {
    this.#parts = parts
    const { control, clock, outbound, authority } = parts
    if (typeof authority !== 'string') {
      this.#usual = new Accounts(control, new AcmeTransport({ outbound, clock }), authority)
    }
  }

  /** undefined: there is none, and the options say why. */
  get current(): Accounts | undefined {
    const { control, clock, site } = this.#parts
    const declared = control.declared.current?.site?.certificates.authority
    if (declared === undefined || site === undefined) return this.#usual
    const said = JSON.stringify(declared)
    if (this.#declared?.said === said) return this.#declared.accounts
    this.close()
    const outbound = site.outbound(declared.ca)
    const accounts = new Accounts(control, new AcmeTransport({ outbound, clock }), site.complete(declared))
    this.#declared = { said, accounts, outbound }
    return accounts
  }

  close(): void {
    this.#declared?.outbound.close()
    this.#declared = undefined
  }
}
