import { createHash, createPrivateKey, X509Certificate } from 'node:crypto'
import Type from 'typebox'
import type { Flow, FlowRequest } from '../../../flow/flow.js'
import { originOf, SAML_PATH } from '../../../flow/reserved-paths.js'
import type { Field, PresentContext, ResourceRecord } from '../../../schema/field.js'
import { choice, computed, flag, text, texts } from '../../../schema/fields.js'
import type { Rule, RuleView } from '../../../schema/objects.js'
import { secret } from '../../../schema/secrets.js'
import { defineModule } from '../../contract.js'
import { createGate } from '../gate.js'
import { loginSteps, longestSession, seconds, sessionOf } from '../module-parts.js'
import type { Application, SamlProvider } from '../providers.js'
import { userResults } from '../service.js'
import { NAME_ID_FORMATS, querySigner } from './claims.js'
import { consumerOf, LONGEST_METADATA } from './service-provider.js'

/** Maximum size of a certificate or key (bytes). */
const LONGEST_PEM = 16 * 1024
/** Maximum number of authorized groups. */
const MAX_GROUPS = 1_000

const ENTITY = /<(?:[\w.-]+:)?EntityDescriptor\b[^<>]*?\sentityID\s*=\s*(?:"([^"<>]+)"|'([^'<>]+)')/
const SIGN_ON = /<(?:[\w.-]+:)?SingleSignOnService\b/

const rules: readonly Rule[] = [
  { on: ['idp_metadata', 'idp_metadata_url'], check: oneMetadata },
  { on: ['request_signing_key_pem', 'request_signing_certificate_pem'], check: wholeKey }
]

function oneMetadata({ body, given, report }: RuleView): void {
  const [xml, url] = [body.idp_metadata as string, body.idp_metadata_url as string]
  if (xml === '' && url === '') {
    report('idp_metadata', 'FIELD_REQUIRED', 'is required, or idp_metadata_url')
    return
  }
  if (xml !== '' && url !== '') {
    const second = given.has('idp_metadata_url') ? 'idp_metadata_url' : 'idp_metadata'
    report(second, 'CONFLICTING_FIELDS', 'give idp_metadata or idp_metadata_url, and set the other one to ""')
    return
  }
  if (xml === '') {
    if (/^https?:\/\/[^/]/.test(url) && URL.canParse(url)) return
    report('idp_metadata_url', 'FIELD_INVALID', 'must be a URL with http or https')
    return
  }
  const refusal = /<!(?!--|\[CDATA\[)/.test(xml)
    ? 'must have no document type declaration'
    : ENTITY.exec(xml) === null
      ? 'must be the XML of an identity provider: it has no EntityDescriptor with an entityID'
      : SIGN_ON.test(xml)
        ? undefined
        : 'must be the XML of an identity provider: it has no SingleSignOnService'
  if (refusal !== undefined) report('idp_metadata', 'FIELD_INVALID', refusal)
}

function wholeKey({ body, secret: clear, report }: RuleView): void {
  const pem = body.request_signing_certificate_pem as string
  const hasKey = body.request_signing_key_pem === true
  if (hasKey && pem === '') report('request_signing_certificate_pem', 'FIELD_REQUIRED', 'is required with its key')
  if (pem === '') return
  if (!hasKey) {
    report('request_signing_key_pem', 'FIELD_REQUIRED', 'is required with its certificate')
    return
  }
  const certificate = readRsaCertificate(pem)
  if (certificate === undefined)
    report('request_signing_certificate_pem', 'FIELD_INVALID', 'must be a certificate with an RSA key, PEM')
  else if (!fits(certificate, clear('request_signing_key_pem') ?? ''))
    report('request_signing_key_pem', 'FIELD_INVALID', 'must be the RSA key of the certificate, PEM')
}

function readRsaCertificate(pem: string): X509Certificate | undefined {
  try {
    const certificate = new X509Certificate(pem)
    return certificate.publicKey.asymmetricKeyType === 'rsa' ? certificate : undefined
  } catch {
    return undefined
  }
}

function fits(certificate: X509Certificate, key: string): boolean {
  try {
    return certificate.checkPrivateKey(createPrivateKey(key))
  } catch {
    return false
  }
}

/** Returns the entity id of a route's service provider at the first host of its edge; '' without a host that has a name. */
function entityIdOf({ id, body }: ResourceRecord, { hostportsOf }: PresentContext): string {
  const hostport = hostportsOf?.(String(body.edge_id)).find((one) => !one.includes('*')) ?? ''
  return hostport === '' ? '' : `https://${hostport.replace(/:443$/, '')}${SAML_PATH}${id}`
}

/** Returns a field with a URL made of the entity id. */
function place(description: string, from: (entityId: string) => string = (same) => same): Field<null> {
  return computed(Type.String(), description, (_stored, _path, record, context) => {
    const entityId = entityIdOf(record, context)
    return entityId === '' ? '' : from(entityId)
  })
}

/** Configuration of the identity provider. */
interface ProviderConfig {
  readonly idp_metadata: string
  readonly idp_metadata_url: string
  readonly force_authn: boolean
  readonly allow_idp_initiated: boolean
  readonly nameid_format: string
  readonly request_signing_certificate_pem: string
}

/** Returns the provider. `key`: PEM; undefined without signed requests. */
function toProvider(config: ProviderConfig, key: string | undefined): SamlProvider {
  const { idp_metadata: xml, idp_metadata_url: url } = config
  const [, double, single] = ENTITY.exec(xml) ?? []
  return {
    kind: 'saml',
    issuer: url === '' ? (double ?? single ?? createHash('sha256').update(xml).digest('hex')) : url,
    metadata: url === '' ? { xml } : { url },
    forceAuthn: config.force_authn,
    unsolicited: config.allow_idp_initiated,
    nameIdFormat: config.nameid_format,
    sign: key === undefined ? undefined : querySigner(key),
    certificate: key === undefined ? '' : config.request_signing_certificate_pem
  }
}

/** Results of the module, which later rules of the route's policy can read. */
export const samlResults = userResults({
  'identity.groups': ['list<string>', 'Groups of the user.'],
  'identity.current_session_id': ['string', 'Id of the session here.'],
  attributes: ['map<string, list<string>>', 'Values of the attributes of the assertion by their names.']
})

/** Allows users who have logged in at an identity provider of SAML. */
export const samlModule = defineModule({
  name: 'saml',
  description:
    'Lets users pass who have logged in at an identity provider of SAML 2.0. Its paths /.sluice/saml/<id of the route> (metadata) and ' +
    '/.sluice/saml/<id of the route>/acs belong to the login on every host of the edge, as do /.sluice/login and /.sluice/logout.',
  on: ['https'],
  excludes: ['oauth'],
  rules,
  fields: {
    options_passthrough: flag({ description: 'true lets OPTIONS requests pass, as CORS needs.', default: false }),
    cookie_prefix: text({
      description: 'Prefix of the names of cookies; empty: none.',
      bytes: 128,
      form: 'cookie_prefix'
    }),
    inactivity_timeout: seconds('Time without a request after which a session ends'),
    maximum_duration: longestSession,
    idp_metadata_url: text({
      description:
        'URL of the metadata of the identity provider, read when it is first needed and every hour; or idp_metadata.',
      bytes: 2048
    }),
    idp_metadata: text({
      description: 'Metadata of the identity provider: XML with an EntityDescriptor; or idp_metadata_url.',
      bytes: LONGEST_METADATA
    }),
    force_authn: flag({
      description: 'true asks the identity provider to ask for the password at each login.',
      default: false
    }),
    allow_idp_initiated: flag({
      description:
        'true lets the identity provider begin a login; its RelayState is the path to go to. Another site can then log a visitor in as somebody else.',
      default: false
    }),
    authorized_groups: texts({
      description: 'Groups whose members may pass, as the identity provider writes them; none: every user.',
      item: 'A group.',
      max: MAX_GROUPS,
      distinct: true
    }),
    entity_id: place('Entity id of this service provider: the URL of its metadata, at the first host of the edge.'),
    assertion_consumer_service_url: place('Where the identity provider sends its responses.', consumerOf),
    single_logout_url: computed(Type.String(), 'Always empty: single logout is not supported.', () => ''),
    request_signing_key_pem: secret({
      description: 'An extension of Sluice: RSA key that signs requests, PEM; together with its certificate.',
      bytes: LONGEST_PEM,
      shown: 'null'
    }),
    request_signing_certificate_pem: text({
      description: 'Certificate of the key that signs requests, PEM; empty: requests are not signed.',
      bytes: LONGEST_PEM
    }),
    metadata_url: place('Where the identity provider can read the metadata of this service provider.'),
    nameid_format: choice([...NAME_ID_FORMATS], {
      description: 'Form of the id of users that the identity provider is asked for.',
      default: NAME_ID_FORMATS[0]
    })
  },
  compile(config, scope) {
    const provider = toProvider(config, scope.secret('request_signing_key_pem'))
    const application = (flow: Flow): Application => ({
      id: `${originOf(flow.request as FlowRequest)}${SAML_PATH}${scope.owner}`,
      secret: ''
    })
    return loginSteps(
      createGate(
        {
          result: 'saml',
          ...sessionOf(config),
          owner: scope.owner,
          provider,
          serviceProvider: scope.owner,
          client: '',
          application,
          scopes: [],
          check: 0,
          providerLogout: false,
          access: { groups: config.authorized_groups }
        },
        scope.services
      )
    )
  }
})
