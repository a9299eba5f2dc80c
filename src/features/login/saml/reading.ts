import { createHash, X509Certificate } from 'node:crypto'
import { SAML, ValidateInResponseTo } from '@node-saml/node-saml'
import { checkSignatures, DSIG } from './signatures.js'
import { elementsOf, isNamed, named, only, parseXml, textIn, timeIn, type XmlElement, XmlRefused } from './xml.js'

const PROTOCOL = 'urn:oasis:names:tc:SAML:2.0:protocol'
const ASSERTION = 'urn:oasis:names:tc:SAML:2.0:assertion'
const METADATA = 'urn:oasis:names:tc:SAML:2.0:metadata'
const REDIRECT = 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect'
const BEARER = 'urn:oasis:names:tc:SAML:2.0:cm:bearer'
const SUCCESS = 'urn:oasis:names:tc:SAML:2.0:status:Success'
/** Tolerated clock difference (ms). */
const SKEW = 60_000
/** Maximum length of a user's id (characters); SAML Core 8.3.7 permits 256. */
const LONGEST_ID = 1_024

/** Identity provider as its metadata describes it. */
export interface IdentityProvider {
  readonly entityId: string
  /** DER in base64, of the keys that sign. */
  readonly certificates: readonly string[]
  /** Place for requests with the binding HTTP-Redirect; '' for none. */
  readonly signOn: string
  /** Requests must be signed. */
  readonly wantsSigned: boolean
  /** End of the document's validity (ms); 0: none. */
  readonly validUntil: number
}

/** Expected response. */
export interface Expected {
  readonly provider: IdentityProvider
  /** Entity id of the service provider, the audience of the assertion. */
  readonly entityId: string
  /** URL that the response was sent to. */
  readonly consumer: string
  /** Id of the request; undefined for a login that the identity provider began. */
  readonly request: string | undefined
  /** Wall clock (ms). */
  readonly now: number
}

/** User named by a verified assertion. */
export interface AssertedUser {
  readonly nameId: string
  readonly nameIdFormat: string
  readonly sessionIndex: string
  /** Values by the attribute's name. */
  readonly attributes: Readonly<Record<string, readonly string[]>>
  /** Identifies the assertion, which is valid once. */
  readonly once: string
  /** End of the assertion's validity, with the tolerated clock difference (ms). */
  readonly expires: number
  /** Latest end of the session (ms); 0: not limited. */
  readonly sessionEnds: number
}

/** Job of the thread. */
export type SamlJob =
  | { readonly kind: 'metadata'; readonly xml: string }
  | { readonly kind: 'response'; readonly xml: string; readonly expected: Expected }

/**
 * Result of a job. `garbage`: not acceptable. `denied`: the identity provider did not log the user in. `keys-changed`: not signed with a
 * key of the metadata. `reason` contains nothing of the document.
 */
export type SamlOutcome =
  | { readonly kind: 'metadata'; readonly provider: IdentityProvider }
  | { readonly kind: 'user'; readonly user: AssertedUser }
  | { readonly kind: 'refused'; readonly trouble: 'garbage' | 'denied' | 'keys-changed'; readonly reason: string }

/** Error with the trouble of a refused response. */
class ResponseRefused extends XmlRefused {
  readonly trouble: 'denied' | 'keys-changed'

  constructor(trouble: 'denied' | 'keys-changed', message: string) {
    super(message)
    this.trouble = trouble
  }
}

/** Does one job. Does not reject. */
export async function readSaml(job: SamlJob): Promise<SamlOutcome> {
  try {
    if (job.kind === 'metadata') return { kind: 'metadata', provider: readMetadata(job.xml) }
    return { kind: 'user', user: await readResponse(job.xml, job.expected) }
  } catch (error) {
    const trouble = error instanceof ResponseRefused ? error.trouble : 'garbage'
    const reason = error instanceof XmlRefused ? error.message : 'the document cannot be processed'
    return { kind: 'refused', trouble, reason }
  }
}

/** Reads the metadata of one identity provider (SAML Metadata 2.4.3), or the only one in a list. */
function readMetadata(xml: string): IdentityProvider {
  const root = parseXml(xml)
  const entities = [...elementsOf(root)].filter(
    (element) =>
      isNamed(element, METADATA, 'EntityDescriptor') && named(element, METADATA, 'IDPSSODescriptor').length > 0
  )
  const [entity] = entities
  if (entity === undefined) throw new XmlRefused('the metadata describes no identity provider')
  if (entities.length > 1) throw new XmlRefused('the metadata describes several identity providers')
  const role = only(entity, METADATA, 'IDPSSODescriptor') as XmlElement
  const entityId = entity.getAttribute('entityID')
  if (entityId === '') throw new XmlRefused('the metadata has no entityID')
  const certificates = named(role, METADATA, 'KeyDescriptor')
    .filter((key) => key.getAttribute('use') !== 'encryption')
    .flatMap((key) => [...elementsOf(key)].filter((element) => isNamed(element, DSIG, 'X509Certificate')))
    .map(certificateIn)
  const signOn = named(role, METADATA, 'SingleSignOnService').find(
    (service) => service.getAttribute('Binding') === REDIRECT
  )
  const ends = [root, entity, role].map((element) => timeIn(element, 'validUntil') ?? 0).filter((time) => time > 0)
  return {
    entityId,
    certificates,
    signOn: signOn?.getAttribute('Location') ?? '',
    wantsSigned: /^(?:true|1)$/.test(role.getAttribute('WantAuthnRequestsSigned')),
    validUntil: ends.length === 0 ? 0 : Math.min(...ends)
  }
}

/** Returns a certificate of metadata as DER in base64. Its key must be able to sign what is accepted. */
function certificateIn(element: XmlElement): string {
  try {
    const certificate = new X509Certificate(Buffer.from(textIn(element), 'base64'))
    if (certificate.publicKey.asymmetricKeyType === 'rsa') return certificate.raw.toString('base64')
  } catch {
    throw new XmlRefused('the metadata has a certificate that cannot be read')
  }
  throw new XmlRefused('the metadata has a signing key that is not RSA, which is not supported')
}

/** Verifies a response and returns its user. Only the bytes of the verified signature are read, but for status and addresses. */
async function readResponse(xml: string, expected: Expected): Promise<AssertedUser> {
  const { provider, entityId, consumer, request } = expected
  const root = parseXml(xml)
  if (!isNamed(root, PROTOCOL, 'Response') || root.getAttribute('Version') !== '2.0')
    throw new XmlRefused('the document is no Response of SAML 2.0')
  if (root.hasAttribute('Destination') && root.getAttribute('Destination') !== consumer)
    throw new XmlRefused('the response is for another destination')
  checkAnswers(root, request, 'response')
  checkIssuer(root, provider, 'response')
  checkStatus(root)
  checkSignatures(root, ASSERTION)
  if (provider.certificates.length === 0)
    throw new XmlRefused('the metadata has no certificate of the identity provider')
  const library = new SAML({
    idpCert: [...provider.certificates],
    issuer: entityId,
    audience: entityId,
    callbackUrl: consumer,
    // A signature of the response covers its assertion; without one the assertion must be signed.
    wantAssertionsSigned: false,
    wantAuthnResponseSigned: false,
    validateInResponseTo: ValidateInResponseTo.never,
    // Times are checked below, by the clock of the process.
    acceptedClockSkewMs: -1
  })
  const signed = await library
    .validatePostResponseAsync({ SAMLResponse: Buffer.from(xml).toString('base64') })
    .then(({ profile }) => profile?.getAssertionXml?.())
    .catch((error: unknown) => {
      const text = error instanceof Error ? error.message : ''
      if (/audience/i.test(text)) throw new XmlRefused('the assertion is for another audience')
      throw new ResponseRefused('keys-changed', 'the signature is not one of the identity provider')
    })
  if (signed === undefined) throw new XmlRefused('the response has no assertion')
  return readAssertion(parseXml(signed), expected)
}

/** Reads a verified assertion by the rules of the web browser profile (SAML Profiles 4.1.4.3). */
function readAssertion(assertion: XmlElement, expected: Expected): AssertedUser {
  const { provider, now } = expected
  if (!isNamed(assertion, ASSERTION, 'Assertion') || assertion.getAttribute('Version') !== '2.0')
    throw new XmlRefused('the signed element is no assertion of SAML 2.0')
  if (textIn(only(assertion, ASSERTION, 'Issuer')) === '') throw new XmlRefused('the assertion has no issuer')
  checkIssuer(assertion, provider, 'assertion')
  const subject = only(assertion, ASSERTION, 'Subject')
  const nameId = subject === undefined ? undefined : only(subject, ASSERTION, 'NameID')
  const id = textIn(nameId)
  if (subject === undefined || id === '' || id.length > LONGEST_ID)
    throw new XmlRefused('the assertion names no user in clear text')
  const ends = confirmedUntil(subject, expected)
  const conditions = only(assertion, ASSERTION, 'Conditions')
  if (conditions === undefined) throw new XmlRefused('the assertion has no conditions')
  const [from, until] = [timeIn(conditions, 'NotBefore') ?? 0, timeIn(conditions, 'NotOnOrAfter')]
  if (from > now + SKEW) throw new XmlRefused('the assertion is not valid yet')
  if (until !== undefined && until <= now - SKEW) throw new XmlRefused('the assertion has expired')
  const statements = named(assertion, ASSERTION, 'AuthnStatement')
  if (statements.length === 0) throw new XmlRefused('the assertion does not say that the user logged in')
  const sessionEnds = statements.map((one) => timeIn(one, 'SessionNotOnOrAfter') ?? 0).filter((time) => time > 0)
  const session = sessionEnds.length === 0 ? 0 : Math.min(...sessionEnds)
  if (session !== 0 && session <= now - SKEW) throw new XmlRefused('the session at the identity provider is over')
  return {
    nameId: id,
    nameIdFormat: nameId?.getAttribute('Format') ?? '',
    sessionIndex: statements[0]?.getAttribute('SessionIndex') ?? '',
    attributes: attributesIn(assertion),
    once: onceOf(provider.entityId, assertion.getAttribute('ID')),
    expires: ends + SKEW,
    sessionEnds: session
  }
}

/** Returns the end of the subject confirmation for this recipient and request. */
function confirmedUntil(subject: XmlElement, { consumer, request, now }: Expected): number {
  const bearers = named(subject, ASSERTION, 'SubjectConfirmation').filter(
    (one) => one.getAttribute('Method') === BEARER
  )
  let refusal = new XmlRefused('the assertion has no confirmation for its bearer')
  for (const bearer of bearers) {
    const data = only(bearer, ASSERTION, 'SubjectConfirmationData')
    try {
      if (data === undefined) continue
      if (data.getAttribute('Recipient') !== consumer) throw new XmlRefused('the assertion is for another recipient')
      checkAnswers(data, request, 'assertion')
      if ((request !== undefined) !== data.hasAttribute('InResponseTo'))
        throw new XmlRefused('the assertion is not the answer to the request')
      const [from, until] = [timeIn(data, 'NotBefore') ?? 0, timeIn(data, 'NotOnOrAfter')]
      if (until === undefined) throw new XmlRefused('the assertion has no end')
      if (until <= now - SKEW) throw new XmlRefused('the assertion has expired')
      if (from > now + SKEW) throw new XmlRefused('the assertion is not valid yet')
      return until
    } catch (error) {
      if (!(error instanceof XmlRefused)) throw error
      refusal = error
    }
  }
  throw refusal
}

/** Throws if `InResponseTo` names another request. */
function checkAnswers(element: XmlElement, request: string | undefined, what: string): void {
  if (element.hasAttribute('InResponseTo') && element.getAttribute('InResponseTo') !== request)
    throw new XmlRefused(`the ${what} is not the answer to the request`)
}

function checkIssuer(element: XmlElement, { entityId }: IdentityProvider, what: string): void {
  const issuer = only(element, ASSERTION, 'Issuer')
  if (issuer !== undefined && textIn(issuer) !== entityId)
    throw new XmlRefused(`the ${what} is from another identity provider`)
}

function checkStatus(root: XmlElement): void {
  const status = only(root, PROTOCOL, 'Status')
  const code = status === undefined ? undefined : only(status, PROTOCOL, 'StatusCode')
  if (code === undefined) throw new XmlRefused('the response has no status')
  if (code.getAttribute('Value') !== SUCCESS)
    throw new ResponseRefused('denied', 'the identity provider did not log the user in')
}

function attributesIn(assertion: XmlElement): Record<string, string[]> {
  const attributes = new Map<string, string[]>()
  for (const statement of named(assertion, ASSERTION, 'AttributeStatement')) {
    for (const attribute of named(statement, ASSERTION, 'Attribute')) {
      const name = attribute.getAttribute('Name')
      const values = named(attribute, ASSERTION, 'AttributeValue').map(textIn)
      attributes.set(name, [...(attributes.get(name) ?? []), ...values])
    }
  }
  return Object.fromEntries(attributes)
}

/** Returns the key of an assertion among those that were used. */
function onceOf(entityId: string, id: string): string {
  return `saml.${createHash('sha256')
    .update(JSON.stringify([entityId, id]))
    .digest('base64url')}`
}
