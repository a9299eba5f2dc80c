import { Client, crypto } from 'acme-client'
import { AcmeError, type AcmeProblem, readProblem, validationFailed } from './acme-error.js'
import type { AcmeTransport } from './acme-transport.js'
import type { OrderQueue } from './request-pacer.js'

export type KeyType = 'rsa' | 'ecdsa'
export type ChallengeType = 'http-01' | 'dns-01' | 'tls-alpn-01'

/** Account at an authority. */
export interface AcmeAccount {
  readonly privateKey: string
  /** URL of the account; null before registration. */
  readonly url: string | null
}

/** Credentials that some authorities give out for the registration (RFC 8555 7.3.4). */
export interface ExternalAccount {
  readonly kid: string
  /** Base64url. */
  readonly hmacKey: string
}

/** A name that the authority still wants to see proved. */
export interface Authorization {
  /** Domain without the `*.` of a wildcard. */
  readonly name: string
  readonly wildcard: boolean
  readonly challenges: readonly OpenChallenge[]
}

export interface OpenChallenge {
  readonly type: ChallengeType
  readonly token: string
  readonly url: string
  /** Proof: the key authorization, or the value of the TXT record. */
  readonly value: string
  /** Was the authority asked to validate the challenge? */
  readonly begun: boolean
}

/** State of an order (RFC 8555 7.1.6). */
export interface OrderState {
  readonly url: string
  readonly status: 'pending' | 'ready' | 'processing' | 'valid'
  /** Milliseconds before the next look that the authority asks for; 0: it does not. */
  readonly retryAfter: number
  /** URLs for requesting the certificate, and for downloading it. */
  readonly finalize: string
  readonly certificate: string | undefined
}

interface Directory {
  readonly directory: string
  readonly externalAccount?: ExternalAccount | undefined
}

/** The library's HTTP, which we replace: it would wait in the middle of a request, ask without a limit and keep state for all authorities. */
interface LibraryHttp {
  /** Reads it again after a day. */
  getDirectory(): Promise<unknown>
  request(url: string, method: string, options?: { data?: unknown }): Promise<unknown>
  getResourceUrl(name: string): Promise<string>
  /** Requests a new nonce for every request, instead of keeping those of responses. */
  getNonce(): Promise<string>
}

/** The library's requests with the headers of their responses, which its own methods drop. */
interface LibraryApi {
  getOrder(url: string): Promise<{ readonly data: Order; readonly headers: Readonly<Record<string, string>> }>
}

type Order = Awaited<ReturnType<Client['createOrder']>>
type ClientChallenge = Parameters<Client['completeChallenge']>[0]
type FullAuthorization = Awaited<ReturnType<Client['getAuthorizations']>>[number]

const RSA_BITS = 4096

/** Problems of an order that names a certificate to replace, and would be none without it (RFC 9773 5). */
const NOT_REPLACED = new Set(['alreadyReplaced', 'malformed', 'conflict'])

/** The authority's renewal information, unparsed. */
export interface RenewalAnswer {
  readonly content: unknown
  readonly retryAfter: string | undefined
}

/** One account at one certificate authority that speaks ACME (RFC 8555). Everything fails with an `AcmeError`. */
export class Authority {
  readonly #client: Client
  readonly #http: LibraryHttp
  readonly #api: LibraryApi
  readonly #transport: AcmeTransport

  constructor({ directory, externalAccount }: Directory, { privateKey, url }: AcmeAccount, transport: AcmeTransport) {
    this.#client = new Client({
      directoryUrl: directory,
      accountKey: privateKey,
      ...(url === null ? {} : { accountUrl: url }),
      ...(externalAccount === undefined ? {} : { externalAccountBinding: { ...externalAccount } })
    })
    const { http, api } = this.#client as unknown as { http: LibraryHttp; api: LibraryApi }
    http.request = (target, method, options) => transport.request(target, method, options?.data)
    const askNonce = http.getNonce.bind(http)
    http.getNonce = async () => transport.takeNonce() ?? (await askNonce())
    this.#http = http
    this.#api = api
    this.#transport = transport
  }

  /** Registers the account, or finds it by its key; returns its URL. */
  async register(email: string | undefined): Promise<string> {
    return await understood(async () => {
      const contact = email === undefined ? {} : { contact: [`mailto:${email}`] }
      await this.#client.createAccount({ termsOfServiceAgreed: true, ...contact })
      return this.#client.getAccountUrl()
    })
  }

  /**
   * Places an order. `replaces`: id of the certificate that the new one replaces (RFC 9773 5). `queue`: number of waiting
   * orders, including this one if it fails with an error that is `unsent`.
   */
  async order(
    names: readonly string[],
    replaces?: string,
    queue: OrderQueue = { waiting: 0 }
  ): Promise<{ order: OrderState; open: readonly Authorization[] }> {
    return await understood(async () => {
      const { pacer } = this.#transport
      pacer.takeOrder(queue)
      const order = await this.#place(names, replaces).catch((error: unknown) => {
        if (error instanceof AcmeError && error.unsent) pacer.putOrderBack()
        throw error
      })
      if (order.status === 'invalid') throw await this.#givenUp(order)
      // The order exists even if its challenges cannot be read now: the next look reads them.
      const open = await this.#open(order).catch((error: unknown) => {
        if (error instanceof AcmeError && error.passing) return []
        throw error
      })
      return { order: stateOf(order), open }
    })
  }

  /** Returns the state of the order and its open authorizations. Fails with the reason if the order is invalid. */
  async look(url: string): Promise<{ order: OrderState; open: readonly Authorization[] }> {
    return await understood(async () => {
      const { data, headers } = await this.#api.getOrder(url)
      const order = { ...data, url }
      if (order.status === 'invalid') throw await this.#givenUp(order)
      const open = order.status === 'pending' ? await this.#open(order) : []
      return { order: stateOf(order, this.#transport.retryAfter(headers)), open }
    })
  }

  /** Asks the authority to look. */
  async begin({ url, type, token }: OpenChallenge): Promise<void> {
    await understood(() => this.#client.completeChallenge({ url, type, token, status: 'pending' } as ClientChallenge))
  }

  /** Requests the certificate of a ready order; returns the updated order. `privateKey`: PEM. */
  async finalize(order: OrderState, names: readonly string[], privateKey: string): Promise<OrderState> {
    return await understood(async () => {
      const [first = '', ...others] = names
      const [, csr] = await crypto.createCsr({ commonName: first, altNames: [first, ...others] }, privateKey)
      const after = await this.#client.finalizeOrder(order as unknown as Order, csr)
      if (after.status === 'invalid') throw await this.#givenUp(after)
      return stateOf(after)
    })
  }

  /** The chain of a valid order, PEM, leaf first. */
  async certificate(order: OrderState): Promise<string> {
    return await understood(async () => {
      const chain: unknown = await this.#client.getCertificate(order as unknown as Order)
      if (typeof chain !== 'string') throw new AcmeError('INTERNAL_ERROR', 'the authority sent no certificate')
      return chain
    })
  }

  /**
   * Returns the suggested renewal time of a certificate (RFC 9773 4); undefined if the authority does not support this, or
   * does not know the certificate. `id`: see `renewalIdOf`.
   */
  async renewalInfo(id: string): Promise<RenewalAnswer | undefined> {
    return await understood(async () => {
      const base = await this.#renewalInfoUrl()
      if (base === undefined) return undefined
      try {
        const { data, headers } = await this.#transport.request(`${base}/${id}`, 'get', undefined)
        return { content: data, retryAfter: headers['retry-after'] }
      } catch (error) {
        if (error instanceof AcmeError && error.status === 404) return undefined
        throw error
      }
    })
  }

  /** Returns the URL; undefined if the authority has no renewal information. */
  async #renewalInfoUrl(): Promise<string | undefined> {
    const { renewalInfo } = (await this.#http.getDirectory()) as { readonly renewalInfo?: unknown }
    return typeof renewalInfo === 'string' ? renewalInfo.replace(/\/$/, '') : undefined
  }

  async #place(names: readonly string[], replaces: string | undefined): Promise<Order> {
    const identifiers = names.map((value) => ({ type: 'dns', value }))
    if (replaces === undefined || (await this.#renewalInfoUrl()) === undefined)
      return await this.#client.createOrder({ identifiers })
    try {
      return await this.#client.createOrder({ identifiers, replaces } as Parameters<Client['createOrder']>[0])
    } catch (error) {
      if (!(error instanceof AcmeError) || !NOT_REPLACED.has(error.kind)) throw error
      return await this.#client.createOrder({ identifiers })
    }
  }

  async #open(order: Order): Promise<Authorization[]> {
    const all = await this.#client.getAuthorizations(order)
    const failed = all.filter(({ status }) => !['pending', 'valid'].includes(status))
    if (failed.length > 0) throw worst(failed.map((one) => validationFailed(nameOf(one), problemOf(one))))
    const pending = all.filter(({ status }) => status === 'pending')
    return await Promise.all(pending.map((one) => this.#authorization(one)))
  }

  /**
   * Why the authority has given an order up. Some say it in the order, some in the challenge that failed alone (RFC 8555 7.1.6
   * demands neither), so both are read; the challenge is the more precise one.
   */
  async #givenUp(order: Order): Promise<AcmeError> {
    const said = readProblem((order as { error?: unknown }).error)
    const whole = validationFailed(order.identifiers?.[0]?.value ?? 'the order', said)
    const authorizations = await this.#authorizations(order)
    const failed =
      authorizations instanceof AcmeError ? [] : authorizations.filter(({ status }) => status === 'invalid')
    const reasons = failed.flatMap((one) => {
      const problem = problemOf(one)
      return isEmpty(problem) ? [] : [validationFailed(nameOf(one), problem)]
    })
    if (reasons.length > 0) return worst(reasons)
    // The order is lost, even if the reason cannot be read.
    return isEmpty(said) && authorizations instanceof AcmeError
      ? new AcmeError('INTERNAL_ERROR', authorizations.message)
      : whole
  }

  /** Those of an order, or why they cannot be had. */
  async #authorizations(order: Order): Promise<FullAuthorization[] | AcmeError> {
    try {
      return await understood(() => this.#client.getAuthorizations(order))
    } catch (error) {
      if (error instanceof AcmeError) return error
      throw error
    }
  }

  async #authorization(one: FullAuthorization): Promise<Authorization> {
    const challenges: OpenChallenge[] = []
    for (const challenge of one.challenges) {
      const { type, token, url, status } = challenge
      if (type !== 'http-01' && type !== 'dns-01' && type !== 'tls-alpn-01') continue
      // The token becomes part of a path (RFC 8555 8.3: base64url).
      if (!/^[A-Za-z0-9_-]{1,256}$/.test(token))
        throw new AcmeError('INTERNAL_ERROR', 'the authority sent a wrong token')
      const value = await this.#client.getChallengeKeyAuthorization(challenge)
      challenges.push({ type, token, url, value, begun: status !== 'pending' })
    }
    return { name: one.identifier.value, wildcard: (one as { wildcard?: boolean }).wildcard === true, challenges }
  }
}

/** A new private key, PEM. RSA keys have 4096 bits, ECDSA keys are of P-256. May take seconds. */
export async function newPrivateKey(type: KeyType): Promise<string> {
  const key = type === 'rsa' ? crypto.createPrivateRsaKey(RSA_BITS) : crypto.createPrivateEcdsaKey('P-256')
  return (await key).toString()
}

/** Creates the certificate for a challenge tls-alpn-01 (RFC 8737 3), with its key: concatenated PEM. */
export async function validationIdentity(name: string, keyAuthorization: string): Promise<string> {
  const authorization = { identifier: { type: 'dns', value: name } } as FullAuthorization
  const [key, certificate] = await crypto.createAlpnCertificate(
    authorization,
    keyAuthorization,
    await newPrivateKey('ecdsa')
  )
  return `${certificate}\n${key}`
}

function stateOf({ url, status, finalize, certificate }: Order, retryAfter = 0): OrderState {
  if (status === 'pending' || status === 'ready' || status === 'processing' || status === 'valid')
    return { url, status, finalize, certificate, retryAfter }
  throw new AcmeError('INTERNAL_ERROR', 'the authority answered with an order that has no known status')
}

function nameOf(authorization: FullAuthorization): string {
  return authorization.identifier?.value ?? 'the name'
}

function problemOf({ challenges }: FullAuthorization) {
  const failed = challenges?.find(({ status }) => status === 'invalid')
  return readProblem((failed as { error?: unknown } | undefined)?.error)
}

function isEmpty({ kind, detail }: AcmeProblem): boolean {
  return kind === '' && detail === ''
}

/** Returns the most important error of several names: one that the user must correct, because every retry includes that name. */
function worst(errors: readonly AcmeError[]): AcmeError {
  const found = errors.find(({ code }) => code === 'DNS_ERROR') ?? errors[0]
  return found ?? new AcmeError('INTERNAL_ERROR', 'the authority has given the order up')
}

/** Converts the plain errors that the library throws for invalid responses. */
async function understood<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    if (error instanceof AcmeError) throw error
    throw new AcmeError('INTERNAL_ERROR', 'the authority answered in a form that is not understood', { cause: error })
  }
}
