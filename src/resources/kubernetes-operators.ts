import { X509Certificate } from 'node:crypto'
import Type from 'typebox'
import { ObjectFilters } from '../expression/object-filters.js'
import { MAX_REQUEST, readCertificateRequest, signClientCertificate } from '../lib/certificate-request.js'
import { isObject, type Json, timestampText } from '../lib/json.js'
import { makeAuthority } from '../lib/self-signed.js'
import { type Body, defineField, type Field, type Fields } from '../schema/field.js'
import { computed, described, keptText, text, texts, updatedAt } from '../schema/fields.js'
import { responseMembers } from '../schema/json-schema.js'
import { object, presentMembers, type RuleView } from '../schema/objects.js'
import { endpoint } from './endpoints.js'
import { creator } from './identities.js'
import { fieldTypes } from './list-filter.js'
import { defineResource, type MakeView } from './resource.js'

/** Features that an operator can have. */
const FEATURES: readonly string[] = ['bindings', 'ingress', 'gateway']

/** Milliseconds of a day. */
const DAY = 86_400_000
/** Lifetime of a certificate (ms). */
const CERTIFICATE_LIFE = 365 * DAY
/** Lifetime of an authority (ms). */
const AUTHORITY_LIFE = 3650 * DAY

/** Binding of the endpoints that an operator brings into its cluster. */
const KUBERNETES = 'kubernetes'

/** Sealed text of a record: certificate and key of the authority of an operator, in PEM. */
const AUTHORITY = 'authority'

let language: ObjectFilters | undefined

/** Compiles a selector: CEL over `endpoint`, with the fields of an endpoint as lists show it. */
function compileSelector(source: string) {
  language ??= new ObjectFilters({ root: 'endpoint', fields: fieldTypes(endpoint) })
  return language.compile(source)
}

/**
 * Returns whether an endpoint, as lists show it, belongs into the cluster of an operator: its bindings have `kubernetes`, and
 * one of the operator's selectors is true for it. `operator`: as the API shows it.
 */
export function isBoundBy(operator: Json): (shown: unknown) => boolean {
  const { binding } = operator as { readonly binding?: { readonly endpoint_selectors?: readonly string[] } }
  const selectors = (binding?.endpoint_selectors ?? []).flatMap((source) => {
    const compiled = compileSelector(source)
    return compiled.ok ? [compiled.filter] : []
  })
  return (shown) => {
    const one = shown as Readonly<Record<string, unknown>>
    if (!Array.isArray(one.bindings) || !one.bindings.includes(KUBERNETES)) return false
    return selectors.some((selects) => selects((name) => one[name]))
  }
}

/** An object whose members responses always show. An update changes only the members that it has: `keepsOthers`. */
function partial<const F extends Fields>(
  members: F,
  description: string,
  rules: Parameters<typeof object>[1]['rules'] = []
): Field<Body | null> {
  const field = object(members, { description, rules })
  return defineField<Body | null>({
    ...(field as Field<Body | null>),
    response: responseMembers(members, { description }),
    read(value, at, path, reading) {
      const read = field.read(value, at, path, reading)
      if (!isObject(read) || !isObject(value)) return undefined
      return Object.fromEntries(Object.entries(read).filter(([name]) => (value[name] ?? null) !== null))
    },
    present: (stored, path, record, context) => presentMembers(members, stored ?? {}, path, record, context)
  })
}

/** Returns a rule by which an update keeps those members of the object `name` that it does not have. */
function keepsOthers(name: string) {
  return ({ body, given, before }: RuleView): void => {
    const [former, written] = [before?.[name], body[name]]
    if (given.has(name) && isObject(former) && isObject(written)) body[name] = { ...former, ...written }
  }
}

const name = (description: string) => text({ description, bytes: 255 })

const deployment = partial(
  {
    name: name('Name of the deployment.'),
    namespace: name('Its namespace.'),
    version: name('Version of the operator.'),
    cluster_name: name('Name of the cluster, for people.')
  },
  'Deployment of the operator. An update changes only the members that it has.'
)

/** Time of a certificate that there is not. */
const NEVER = '0001-01-01T00:00:00Z'

const certificateSchema = Type.Object({
  cert: Type.String({ description: 'The certificate in PEM; empty if there was no request for one.' }),
  not_before: Type.String({ description: 'Start of its validity (RFC 3339).', format: 'date-time' }),
  not_after: Type.String({ description: 'End of its validity (RFC 3339).', format: 'date-time' })
})

function presentCertificate(pem: string): Json {
  if (pem === '') return { cert: '', not_before: NEVER, not_after: NEVER }
  const { validFrom, validTo } = new X509Certificate(pem)
  return {
    cert: pem,
    not_before: timestampText(Date.parse(validFrom)),
    not_after: timestampText(Date.parse(validTo))
  }
}

const binding = partial(
  {
    endpoint_selectors: texts({
      description:
        'CEL over `endpoint`, with its fields as `GET /endpoints` shows them: an endpoint with the binding kubernetes belongs into the cluster if one of them is true. Empty: none does.',
      item: 'A condition, such as endpoint.host.endsWith(".staging").',
      bytes: 2048,
      max: 20
    }),
    csr: text({
      description:
        'Certificate signing request in PEM (PKCS #10, RFC 2986), signed by its own key. Its key gets a certificate for TLS clients; nothing else of it is used, and it is not kept.',
      bytes: MAX_REQUEST,
      hidden: true
    }),
    ingress_endpoint: text({ description: 'Where the operator connects to; kept as given.', bytes: 300 }),
    cert: computed(
      certificateSchema,
      'Certificate of the operator, by an authority of its own. A new csr replaces it.',
      (_stored, _path, { body }) => presentCertificate(String(body.certificate ?? ''))
    )
  },
  'Feature bindings. An update changes only the members that it has; null removes all of them.',
  [{ on: ['endpoint_selectors'], check: checkSelectors }]
)

function checkSelectors({ body, report }: RuleView): void {
  for (const [index, source] of (body.endpoint_selectors as readonly string[]).entries()) {
    const compiled = compileSelector(source)
    if (compiled.ok) continue
    const message = `character ${compiled.start + 1}: ${compiled.message}`
    report(`endpoint_selectors[${index}]`, 'FIELD_INVALID', message)
  }
}

/** Features in lower case, each once. */
function readFeatures({ body, report }: RuleView): void {
  const features = (body.enabled_features as readonly string[]).map((feature) => feature.toLowerCase())
  for (const [index, feature] of features.entries()) {
    if (!FEATURES.includes(feature)) {
      report(`enabled_features[${index}]`, 'FIELD_INVALID', `must be one of ${FEATURES.join(', ')}`)
    }
  }
  body.enabled_features = [...new Set(features)]
}

/** Signs the request, and forgets it. */
async function certify({ id, body, before, makers, secret, report }: MakeView): Promise<void> {
  const { binding } = body
  if (!isObject(binding)) {
    body.certificate = ''
    return
  }
  const { csr = '', ...rest } = binding
  body.binding = rest
  if (csr === '') return
  const request = await readCertificateRequest(String(csr))
  if (!request.ok) {
    const code = request.code === 'TOO_LONG' ? request.code : 'FIELD_INVALID'
    report('binding.csr', code, request.message, { reason: request.code })
    return
  }
  const now = makers.clock.wall()
  const subject = `CN=${id}, O=Sluice Kubernetes operators`
  const known = before === undefined ? undefined : (await makers.find(KIND, id))?.secrets[AUTHORITY]
  const authority = known !== undefined && outlasts(known, now) ? known : await newAuthority(subject, now)
  if (authority !== known) secret(AUTHORITY, authority)
  const key = authority.slice(authority.indexOf('-----BEGIN PRIVATE KEY-----'))
  const issuer = { subject: authoritySubject(subject), key }
  body.certificate = await signClientCertificate(request, subject, { now, life: CERTIFICATE_LIFE }, issuer)
}

const authoritySubject = (subject: string) => `${subject}, OU=Authority`

async function newAuthority(subject: string, now: number): Promise<string> {
  const { cert, key } = await makeAuthority(authoritySubject(subject), { now, life: AUTHORITY_LIFE })
  return cert + key
}

/** Is the authority valid longer than a certificate that it signs now? */
function outlasts(authority: string, now: number): boolean {
  return Date.parse(new X509Certificate(authority).validTo) > now + CERTIFICATE_LIFE
}

/** Record kind. */
const KIND = 'kubernetes_operator'

const { response: _, ...certificate } = keptText('The certificate of the binding, in PEM.')

/** Operator in a Kubernetes cluster, as it registers itself. */
export const kubernetesOperator = defineResource({
  name: KIND,
  description:
    'An operator in a Kubernetes cluster, which registers itself. Sluice does not carry traffic of endpoints into clusters.',
  path: '/kubernetes_operators',
  listKey: 'operators',
  idPrefix: 'k8sop',
  rules: [
    { on: ['enabled_features'], check: readFeatures },
    { on: ['deployment'], check: keepsOthers('deployment') },
    { on: ['binding'], check: keepsOthers('binding') }
  ],
  make: certify,
  fields: {
    updated_at: updatedAt(),
    ...described,
    principal: creator('The user or bot who created it.'),
    enabled_features: texts({
      description: 'Features that are on: bindings, ingress and gateway, in any case; shown in lower case.',
      item: 'bindings, ingress or gateway.',
      bytes: 32,
      max: FEATURES.length
    }),
    region: { ...text({ description: 'Kept as given. Default: global.', bytes: 32 }), initial: 'global' },
    deployment,
    binding,
    certificate
  }
})
