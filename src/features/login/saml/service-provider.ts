import { availableParallelism } from 'node:os'
import { deflateRawSync } from 'node:zlib'
import type { Clock } from '../../../lib/clock.js'
import { threadBeside } from '../../../lib/files.js'
import type { Outbound } from '../../../lib/http-client/outbound.js'
import { escapeHtml } from '../../../lib/printable.js'
import { ThreadPool, TOO_SLOW } from '../../../lib/thread-pool.js'
import { Discoveries } from '../discoveries.js'
import { outboundFetch, ProviderFailure } from '../provider-fetch.js'
import type { SamlProvider } from '../providers.js'
import type { AssertedUser, IdentityProvider, SamlJob, SamlOutcome } from './reading.js'

/** Reads XML beside the event loop; `TOO_SLOW` if that took too long. Rejects if the thread crashed. */
export type SamlReader = (job: SamlJob) => Promise<SamlOutcome | typeof TOO_SLOW>

/** Maximum size of metadata (bytes). */
export const LONGEST_METADATA = 256 * 1024
/** Maximum size of a response (bytes). */
const LONGEST_RESPONSE = 256 * 1024
/** Maximum size of a form with a response (bytes): base64, percent-encoded in part, and the state. */
export const LONGEST_FORM = 400 * 1024
/** Maximum number of documents that wait or are read. */
const MAX_WAITING = 64
/** Timeout of one document (ms). */
const LONGEST = 2_000
/** Maximum number of threads. */
const MAX_THREADS = 2
/** Memory of a thread (MiB). */
const THREAD_MEMORY = 192

const POST = 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST'

/** Request of one browser for a login. */
export interface SamlRequest {
  /** Entity id of this service provider. */
  readonly entityId: string
  /** Id of the request. */
  readonly id: string
  readonly relayState: string
}

/** Response to `request`, as posted by the browser. */
export interface SamlAnswer {
  readonly entityId: string
  /** Id of the request. @default a login that the identity provider began */
  readonly request: string | undefined
  /** Base64. */
  readonly response: string
}

/** Returns the reader with threads of its own, which start with the first document. */
function threadReader(): SamlReader {
  const pool = new ThreadPool<SamlJob, SamlOutcome>({
    start: () => threadBeside(import.meta.url, 'saml-thread', undefined, { maxOldGenerationSizeMb: THREAD_MEMORY }),
    size: Math.min(MAX_THREADS, availableParallelism()),
    longest: LONGEST
  })
  return (job) => pool.run(job)
}

/** Returns the URL that takes the responses for an entity id. */
export function consumerOf(entityId: string): string {
  return `${entityId}/acs`
}

/** Service provider of SAML 2.0 (web browser profile). Methods reject with a ProviderFailure. */
export class ServiceProvider {
  readonly #clock: Clock
  readonly #read: SamlReader
  readonly #published: Discoveries<IdentityProvider>
  readonly #given = new WeakMap<SamlProvider, Promise<IdentityProvider>>()
  #waiting = 0

  constructor(outbound: Outbound, clock: Clock, read: SamlReader = threadReader()) {
    this.#clock = clock
    this.#read = read
    const fetch = outboundFetch(outbound)
    this.#published = new Discoveries(clock, async (url) => {
      const answer = await fetch(url, {
        headers: { accept: 'application/samlmetadata+xml, application/xml, text/xml' }
      })
      if (answer.status !== 200)
        throw new ProviderFailure('garbage', `the place of the metadata answered with status ${answer.status}`)
      const { validUntil, ...provider } = await this.#metadataOf(await answer.text())
      if (validUntil !== 0 && validUntil <= this.#clock.wall())
        throw new ProviderFailure('garbage', 'the metadata of the identity provider has expired')
      return { ...provider, validUntil }
    })
  }

  /** Returns the URL that asks the identity provider for a login (SAML Bindings 3.4). */
  async authorizationUrl(provider: SamlProvider, { entityId, id, relayState }: SamlRequest): Promise<string> {
    const { signOn, wantsSigned } = await this.#identityProvider(provider)
    if (!/^https?:\/\//.test(signOn) || !URL.canParse(signOn))
      throw new ProviderFailure('garbage', 'the metadata names no place for logins with the binding HTTP-Redirect')
    if (wantsSigned && provider.sign === undefined)
      throw new ProviderFailure('garbage', 'the identity provider wants signed requests, and no key for them is set')
    const force = provider.forceAuthn ? ' ForceAuthn="true"' : ''
    const xml =
      `<samlp:AuthnRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"` +
      ` ID="${id}" Version="2.0" IssueInstant="${new Date(this.#clock.wall()).toISOString()}" Destination="${escapeHtml(signOn)}"` +
      `${force} ProtocolBinding="${POST}" AssertionConsumerServiceURL="${escapeHtml(consumerOf(entityId))}">` +
      `<saml:Issuer>${escapeHtml(entityId)}</saml:Issuer>` +
      `<samlp:NameIDPolicy Format="${provider.nameIdFormat}" AllowCreate="true"/></samlp:AuthnRequest>`
    const query = new URLSearchParams({ SAMLRequest: deflateRawSync(xml).toString('base64'), RelayState: relayState })
    const signed = provider.sign === undefined ? query.toString() : provider.sign(query)
    return `${signOn}${signOn.includes('?') ? '&' : '?'}${signed}`
  }

  /** Verifies a response and returns its user. */
  async user(provider: SamlProvider, { entityId, request, response }: SamlAnswer): Promise<AssertedUser> {
    const xml = decoded(response)
    const verify = (known: IdentityProvider) =>
      this.#run({
        kind: 'response',
        xml,
        expected: { provider: known, entityId, consumer: consumerOf(entityId), request, now: this.#clock.wall() }
      })
    const known = await this.#identityProvider(provider)
    let outcome = await verify(known)
    if (outcome.kind === 'refused' && outcome.trouble === 'keys-changed' && provider.metadata.url !== undefined) {
      const renewed = await this.#published.renewed(provider.metadata.url)
      if (renewed !== known) outcome = await verify(renewed)
    }
    if (outcome.kind === 'refused')
      throw new ProviderFailure(outcome.trouble === 'denied' ? 'denied' : 'garbage', outcome.reason)
    if (outcome.kind !== 'user') throw new ProviderFailure('garbage', 'the response was read as another document')
    return outcome.user
  }

  #identityProvider(provider: SamlProvider): Promise<IdentityProvider> {
    const { url, xml = '' } = provider.metadata
    if (url !== undefined) return this.#published.get(url)
    const known = this.#given.get(provider)
    if (known !== undefined) return known
    const reading = this.#metadataOf(xml)
    this.#given.set(provider, reading)
    // A busy thread is no property of the document.
    reading.catch(() => this.#given.delete(provider))
    return reading
  }

  async #metadataOf(xml: string): Promise<IdentityProvider> {
    if (xml.length > LONGEST_METADATA) throw new ProviderFailure('garbage', 'the metadata is too long')
    const outcome = await this.#run({ kind: 'metadata', xml })
    if (outcome.kind === 'metadata') return outcome.provider
    throw new ProviderFailure('garbage', outcome.kind === 'refused' ? outcome.reason : 'it is no metadata')
  }

  async #run(job: SamlJob): Promise<SamlOutcome> {
    if (this.#waiting >= MAX_WAITING) throw new ProviderFailure('unavailable', 'too many responses wait')
    this.#waiting++
    try {
      const outcome = await this.#read(job)
      if (outcome === TOO_SLOW) throw new ProviderFailure('garbage', 'the document takes too long to read')
      return outcome
    } catch (cause) {
      if (cause instanceof ProviderFailure) throw cause
      throw new ProviderFailure('garbage', 'the document cannot be read', { cause })
    } finally {
      this.#waiting--
    }
  }
}

/** Returns the metadata of this service provider (SAML Metadata 2.4.4). `certificate`: of the key that signs requests, PEM. */
export function ownMetadata(entityId: string, { nameIdFormat, certificate, sign }: SamlProvider): string {
  const der = certificate.replace(/-----[A-Z ]+-----|\s/g, '')
  const key =
    der === ''
      ? ''
      : `<KeyDescriptor use="signing"><KeyInfo xmlns="http://www.w3.org/2000/09/xmldsig#"><X509Data><X509Certificate>${der}</X509Certificate></X509Data></KeyInfo></KeyDescriptor>`
  return (
    `<?xml version="1.0" encoding="UTF-8"?>\n<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="${escapeHtml(entityId)}">` +
    `<SPSSODescriptor AuthnRequestsSigned="${sign !== undefined}" WantAssertionsSigned="true" protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">` +
    `${key}<NameIDFormat>${nameIdFormat}</NameIDFormat>` +
    `<AssertionConsumerService Binding="${POST}" Location="${escapeHtml(consumerOf(entityId))}" index="0" isDefault="true"/>` +
    `</SPSSODescriptor></EntityDescriptor>\n`
  )
}

const BASE64 = /^[A-Za-z0-9+/\s]+={0,2}\s*$/
const UTF8 = new TextDecoder('utf-8', { fatal: true })

function decoded(response: string): string {
  if (response.length > (LONGEST_RESPONSE / 3) * 4 + 4 || !BASE64.test(response))
    throw new ProviderFailure('garbage', 'the response is too long or not base64')
  try {
    return UTF8.decode(Buffer.from(response, 'base64'))
  } catch {
    throw new ProviderFailure('garbage', 'the response is not UTF-8')
  }
}
