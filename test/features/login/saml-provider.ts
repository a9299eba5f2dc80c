import { randomBytes } from 'node:crypto'
import samlify from 'samlify/build/index.js'
import type { Test } from 'tap'
import { type Expected, readSaml, type SamlOutcome } from '../../../src/features/login/saml/reading.js'
import { type Identity, issue } from '../../resources/certificates.js'

samlify.setSchemaValidator({ validate: async () => 'not validated by a schema here' })

const SHA256 = 'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256'
const PERSISTENT = 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent'

/** What a response says; the defaults are a right one. */
export interface Said {
  readonly entityId: string
  readonly consumer: string
  readonly request?: string | undefined
  readonly now: number
  readonly issuer?: string
  readonly nameId?: string
  readonly format?: string
  readonly status?: string
  readonly destination?: string
  readonly recipient?: string
  readonly audience?: string
  readonly attributes?: Readonly<Record<string, readonly string[]>>
  /** Milliseconds from now. */
  readonly lasts?: number
  readonly from?: number
  readonly session?: number
  readonly id?: string
}

/** An identity provider of SAML: its metadata, and responses signed by samlify. */
export class SamlIdp {
  readonly entityId = 'https://idp.example.com/saml'
  readonly signOn: string
  keys: Identity

  private constructor(keys: Identity, signOn: string) {
    this.keys = keys
    this.signOn = signOn
  }

  static async make(signOn = 'https://idp.example.com/sso?tenant=1'): Promise<SamlIdp> {
    return new SamlIdp(await issue({ subject: 'CN=idp.example.com', algorithm: 'rsa' }), signOn)
  }

  get certificate(): string {
    return bodyOf(this.keys.pem)
  }

  metadata(more = ''): string {
    return (
      `<?xml version="1.0"?>\n<!-- of the tests --><md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="${this.entityId}"${more}>` +
      '<md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">' +
      `<md:KeyDescriptor use="signing"><ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:X509Data><ds:X509Certificate>${this.certificate}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>` +
      `<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="https://idp.example.com/post"/>` +
      `<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="${this.signOn.replaceAll('&', '&amp;')}"/>` +
      '</md:IDPSSODescriptor></md:EntityDescriptor>'
    )
  }

  /** A response without a signature. */
  response(said: Said): string {
    const { now, entityId, consumer, request } = said
    const at = (milliseconds: number) => new Date(now + milliseconds).toISOString()
    const answers = request === undefined ? '' : ` InResponseTo="${request}"`
    const ends = at(said.lasts ?? 300_000)
    const issuer = `<saml:Issuer>${said.issuer ?? this.entityId}</saml:Issuer>`
    const attributes = Object.entries(said.attributes ?? {}).map(
      ([name, values]) =>
        `<saml:Attribute Name="${name}">${values.map((value) => `<saml:AttributeValue>${value}</saml:AttributeValue>`).join('')}</saml:Attribute>`
    )
    const session = said.session === undefined ? '' : ` SessionNotOnOrAfter="${at(said.session)}"`
    const id = said.id ?? `_${randomBytes(16).toString('hex')}`
    return (
      `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_r${id}" Version="2.0" IssueInstant="${at(0)}" Destination="${said.destination ?? consumer}"${answers}>` +
      `${issuer}<samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:${said.status ?? 'Success'}"/></samlp:Status>` +
      `<saml:Assertion ID="${id}" Version="2.0" IssueInstant="${at(0)}">${issuer}` +
      `<saml:Subject><saml:NameID Format="${said.format ?? PERSISTENT}">${said.nameId ?? 'u1'}</saml:NameID>` +
      `<saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer"><saml:SubjectConfirmationData NotOnOrAfter="${ends}" Recipient="${said.recipient ?? consumer}"${answers}/></saml:SubjectConfirmation></saml:Subject>` +
      `<saml:Conditions NotBefore="${at(said.from ?? -1_000)}" NotOnOrAfter="${ends}"><saml:AudienceRestriction><saml:Audience>${said.audience ?? entityId}</saml:Audience></saml:AudienceRestriction></saml:Conditions>` +
      `<saml:AuthnStatement AuthnInstant="${at(0)}" SessionIndex="s1"${session}><saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>` +
      `${attributes.length === 0 ? '' : `<saml:AttributeStatement>${attributes.join('')}</saml:AttributeStatement>`}</saml:Assertion></samlp:Response>`
    )
  }

  /** Signs the assertion, or the whole response. */
  signed(xml: string, what: 'Assertion' | 'Response' = 'Assertion', algorithm = SHA256, keys = this.keys): string {
    const path = what === 'Response' ? "/*[local-name(.)='Response']" : "/*/*[local-name(.)='Assertion']"
    return samlify.SamlLib.constructSAMLSignature({
      rawSamlMessage: xml,
      referenceTagXPath: path,
      privateKey: keys.key,
      signatureAlgorithm: algorithm,
      signingCert: bodyOf(keys.pem),
      isBase64Output: false,
      signatureConfig: { prefix: 'ds', location: { reference: `${path}/*[local-name(.)='Issuer']`, action: 'after' } }
    })
  }

  /** Reads a request at the sign-on URL by the service provider's own metadata, as samlify does, and answers it. */
  async answers(url: string, metadata: string, said: Omit<Partial<Said>, 'entityId'> & { readonly now: number }) {
    const query = Object.fromEntries(new URL(url).searchParams)
    const sp = samlify.ServiceProvider({ metadata })
    const idp = samlify.IdentityProvider({
      metadata: this.metadata(/AuthnRequestsSigned="true"/.test(metadata) ? ' ' : '').replace(
        '<md:IDPSSODescriptor ',
        `<md:IDPSSODescriptor WantAuthnRequestsSigned="${/AuthnRequestsSigned="true"/.test(metadata)}" `
      ),
      privateKey: this.keys.key,
      requestSignatureAlgorithm: SHA256
    })
    const { SAMLRequest, RelayState, SigAlg } = query
    const octetString = new URLSearchParams({ SAMLRequest, RelayState, ...(SigAlg && { SigAlg }) } as never).toString()
    const { extract } = await idp.parseLoginRequest(sp, 'redirect', { query, octetString })
    const { context, entityEndpoint } = await idp.createLoginResponse(
      sp,
      { extract },
      'post',
      {},
      {
        customTagReplacement: () => ({
          id: 'x',
          context: this.response({
            entityId: /entityID="([^"]*)"/.exec(metadata)?.[1] ?? '',
            consumer: /AssertionConsumerService[^>]*Location="([^"]*)"/.exec(metadata)?.[1] ?? '',
            request: extract.request.id,
            ...said
          })
        })
      }
    )
    return { request: extract.request, consumer: entityEndpoint, SAMLResponse: context, RelayState: RelayState ?? '' }
  }
}

/** DER in base64. */
function bodyOf(pem: string): string {
  return pem.replace(/-----[A-Z ]+-----|\s/g, '')
}

export const NOW = Date.parse('2026-06-01T12:00:00Z')
const ENTITY = 'https://app.example.com/.sluice/saml/r1'

/** What a right response to the request `_request` says. */
export const RIGHT: Said = { entityId: ENTITY, consumer: `${ENTITY}/acs`, request: '_request', now: NOW }

/** Reads responses of an identity provider as the answer to the request `_request`. */
export function reader(idp: SamlIdp) {
  const read = async (xml: string, other: Partial<Expected> = {}): Promise<SamlOutcome> => {
    const metadata = await readSaml({ kind: 'metadata', xml: idp.metadata() })
    if (metadata.kind !== 'metadata') throw new Error(JSON.stringify(metadata))
    const { provider } = metadata
    const expected = { provider, entityId: ENTITY, consumer: `${ENTITY}/acs`, request: '_request', now: NOW, ...other }
    return readSaml({ kind: 'response', xml, expected })
  }
  const refused = async (t: Test, name: string, xml: string, reason: RegExp, trouble = 'garbage'): Promise<void> => {
    t.match(await read(xml), { kind: 'refused', trouble, reason }, name)
  }
  return { read, refused }
}
