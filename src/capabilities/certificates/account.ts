import { createHash } from 'node:crypto'
import type { Call } from '../../control/calls.js'
import type { ServiceAccount } from '../../control/parts.js'
import { defineResource, type RecordOf } from '../../resources/resource.js'
import { keptText, keptTextOrNull } from '../../schema/fields.js'
import type { AcmeAccount, Authority, ExternalAccount } from './acme.js'
import type { AcmeTransport } from './acme-transport.js'

/** Certificate authority and account settings. */
export interface AuthorityOptions {
  /** URL of the directory (RFC 8555 7.1.1). */
  readonly directory: string
  /** Contact address for the authority; undefined for none. */
  readonly email: string | undefined
  readonly externalAccount: ExternalAccount | undefined
  /** New orders that it allows the account in three hours. @default 300, as Let's Encrypt */
  readonly orderLimit?: number
}

const KEY = 'private_key_pem'

/** The account at an authority: kept in the store, so that all processes are one account, and not part of the API. */
const acmeAccount = defineResource({
  name: 'acme_account',
  description: 'An account at a certificate authority.',
  path: '/acme_accounts',
  listKey: 'acme_accounts',
  idPrefix: 'acme',
  fields: {
    directory: keptText('URL of the directory of the authority.'),
    url: keptTextOrNull('URL of the account; null before it is registered.')
  }
})

/** Opens the authority with the account that the store keeps; makes and registers it the first time. Fails with an `AcmeError`. */
export class Accounts {
  readonly #control: ServiceAccount
  readonly #transport: AcmeTransport
  readonly #options: AuthorityOptions
  #authority: Promise<Authority> | undefined
  #lost = false

  constructor(control: ServiceAccount, transport: AcmeTransport, options: AuthorityOptions) {
    this.#control = control
    this.#transport = transport
    this.#options = options
  }

  /** One at a time: the first request of a process may have to register. */
  async open(call: () => Call): Promise<Authority> {
    this.#authority ??= this.#open(call)
    try {
      return await this.#authority
    } catch (error) {
      this.#authority = undefined
      throw error
    }
  }

  /** Marks the account as unknown to the authority; it is registered again with the same key. */
  lose(): void {
    this.#authority = undefined
    this.#lost = true
  }

  async #open(call: () => Call): Promise<Authority> {
    // The library takes a while to load, and many a process never needs it.
    const { Authority, newPrivateKey } = await import('./acme.js')
    const { email } = this.#options
    const kept = await this.#kept()
    const privateKey = kept?.privateKey ?? (await newPrivateKey('ecdsa'))
    // Store the key before registration, so that a registered account cannot be lost.
    if (kept === undefined) await this.#insert(privateKey, call())
    if (kept !== undefined && kept.url !== null && !this.#lost)
      return new Authority(this.#options, kept, this.#transport)
    const fresh = new Authority(this.#options, { privateKey, url: null }, this.#transport)
    const url = await fresh.register(email)
    await this.#register(url, call())
    this.#lost = false
    return new Authority(this.#options, { privateKey, url }, this.#transport)
  }

  /** One account for each directory and external account. */
  get #id(): string {
    const { directory, externalAccount } = this.#options
    const hash = createHash('sha256').update(JSON.stringify([directory, externalAccount?.kid ?? null]))
    return `${acmeAccount.idPrefix}_${hash.digest('hex').slice(0, 32)}`
  }

  async #kept(): Promise<AcmeAccount | undefined> {
    const { records, store } = this.#control
    const found = await records.findAny(store, acmeAccount.name, this.#id)
    if (found === undefined || found.unopened !== undefined) return undefined
    const { body, secrets } = found.record as RecordOf<typeof acmeAccount>
    return { privateKey: secrets[KEY] ?? '', url: body.url }
  }

  async #insert(privateKey: string, call: Call): Promise<void> {
    const body = { directory: this.#options.directory, url: null }
    await this.#control.writer.write(call, {}, async (draft) => {
      const record = { kind: acmeAccount.name, id: this.#id, createdAt: '', body, secrets: { [KEY]: privateKey } }
      // An account whose key cannot be decrypted is replaced by a new one.
      const lost = await this.#control.records.findAny(draft.tx, acmeAccount.name, this.#id)
      if (lost === undefined) await draft.insert(acmeAccount, record)
      else await draft.update(acmeAccount, lost, { ...lost.record, body, secrets: record.secrets })
    })
  }

  async #register(url: string, call: Call): Promise<void> {
    const { writer, records } = this.#control
    await writer.write(call, {}, async (draft) => {
      const found = await records.find(draft.tx, acmeAccount.name, this.#id)
      if (found === undefined) return
      const body = { ...found.record.body, url }
      await draft.update(acmeAccount, found, { ...found.record, body })
    })
  }
}
