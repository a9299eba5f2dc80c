import { isObject } from '../../../lib/json.js'
import { httpResponseBackend, tunnelGroupBackend, weightedBackend } from '../../../resources/backends.js'
import { certificateAuthority } from '../../../resources/certificates.js'
import { httpsEdge, httpsEdgeRoute, PASSTHROUGH, tcpEdge } from '../../../resources/edges.js'
import { fileBackend } from '../../../resources/file-backend.js'
import { ipPolicyRule, ipRestriction } from '../../../resources/ip-policies.js'
import type { Resource } from '../../../resources/resource.js'
import { staticBackend } from '../../../resources/static-backend.js'
import { RESTRICTION_KEYS } from './access.js'
import { ACME_KEYS, KEY_TYPES } from './acme.js'
import { BALANCE_SETTINGS, BALANCES } from './backends.js'
import { TCP_MODULES } from './carriers.js'
import { FILE_SETTINGS } from './files.js'
import { SERVER_SETTINGS, SHARE_SETTINGS } from './servers.js'
import { ROUTE_MODULES, SITE_KEYS } from './sites.js'
import { NAMED_LISTS } from './values.js'

type Schema = Readonly<Record<string, unknown>>

const text = (description: string): Schema => ({ type: 'string', minLength: 1, description })
const mapOf = (values: Schema, description: string): Schema => ({
  type: ['object', 'null'],
  description,
  additionalProperties: values
})

function object(properties: Readonly<Record<string, unknown>>, about: Schema = {}): Schema {
  return { type: 'object', ...about, properties, additionalProperties: false }
}

const secret = (description: string): Schema => ({
  description,
  oneOf: ['env', 'file', 'vault'].map((key) => object({ [key]: { type: 'string', minLength: 1 } }, { required: [key] }))
})

/**
 * Returns the JSON Schema of site files, for editors; fields of the API have the API's schemas. `documents`: schema of
 * policy documents.
 */
export function siteFileSchema(documents: object): object {
  const { $schema, $defs, ...document } = documents as Schema
  const policy = {
    anyOf: [text('File of the traffic policy; `none`: none on purpose.'), document],
    description: 'Traffic policy: a file, or the document itself.'
  }
  const policy_tests = {
    anyOf: [
      text('File of the tests of the policy.'),
      { type: 'object', properties: { cases: { type: 'array', items: { type: 'object' } } }, required: ['cases'] }
    ],
    description:
      'Tests of the policy, as `sluice test` reads them: a file, or the document itself. The site file is refused when one fails.'
  }
  const backend = {
    anyOf: [
      text('Name of a backend, URL of a server, or path of a folder of files such as ./public.'),
      servers,
      backendSchema()
    ],
    description: 'Where traffic goes.'
  }
  const authority = object({
    ca: text('PEM file of its certificate.'),
    crl: text('PEM file of its revocation lists; watched.'),
    ...requestFields(certificateAuthority, ['description', 'metadata'])
  })
  const url = 'URL or path that takes the place of the URL, or of what `from` matches; $1 is a group.'
  const values = mapOf(
    { type: ['string', 'number', 'boolean', 'null'] },
    'Values by name; each replaces the field that is there. null removes it.'
  )
  const siteRouteFields = {
    strip_prefix: {
      anyOf: [{ type: 'boolean' }, text('The prefix, such as /api.')],
      description: 'Beginning of the path that the upstream does not get; true: the path of the route.'
    },
    rewrite: {
      anyOf: [text(url), object({ from: text('RE2 pattern.'), to: text(url) }, { required: ['to'] })],
      description: 'URL that the upstream gets.'
    },
    headers: object({ request: values, response: values }, { description: 'Header fields that are set or removed.' })
  }
  const redirect = {
    anyOf: [
      text(url),
      object(
        { from: text('RE2 pattern.'), to: text(url), status_code: { enum: [301, 302, 303, 307, 308] } },
        { required: ['to'] }
      )
    ],
    description: 'Redirect to another URL.'
  }
  const error_pages = mapOf(
    { anyOf: [text('File of the page.'), object({ body: text('The page itself.') }, { required: ['body'] })] },
    'Pages of errors that Sluice answers, by status (404) or class (5xx); ${…} is an expression.'
  )
  const route = object({
    ...siteRouteFields,
    redirect,
    backend,
    ...filesSchema(),
    policy,
    policy_tests,
    ...requestFields(httpsEdgeRoute, ['description', 'metadata']),
    ...modules(httpsEdgeRoute, ROUTE_MODULES),
    error_pages
  })
  const tcp = object({
    backend,
    policy,
    policy_tests,
    ...requestFields(tcpEdge, ['description', 'metadata']),
    ...modules(tcpEdge, TCP_MODULES)
  })
  const ofEdge = SITE_KEYS.filter((key) => httpsEdge.fields[key as 'metadata']?.request !== undefined)
  const site = object({
    ...siteRouteFields,
    hosts: { type: 'array', items: { type: 'string' }, description: 'Further hosts of the site.' },
    policy,
    policy_tests,
    backend,
    ...filesSchema(),
    redirect: {
      enum: ['on', 'off', true, false],
      description: 'Are clients without TLS sent to HTTPS, where there is a listener with TLS and a certificate?'
    },
    tls: {
      const: PASSTHROUGH,
      description:
        'TLS is not ended here: the connection goes to the backend as it comes, which shows its own certificate. Nothing of HTTP is possible then.'
    },
    certificate: {
      anyOf: [{ enum: ['managed', 'none'] }, certificate],
      description:
        'Otherwise one of `certificates` that covers the name, else a managed one where the terms are agreed to.'
    },
    routes: mapOf({ anyOf: [backend, route] }, 'By path: one that ends with / is a prefix, another one is exact.'),
    ...requestFields(httpsEdge, ofEdge),
    ...modules(httpsEdgeRoute, ROUTE_MODULES),
    error_pages
  })
  return {
    $schema,
    $defs,
    title: 'Site file of Sluice',
    patternProperties: { '^x-': { description: 'Ignored: a place for YAML anchors.' } },
    ...object({
      listeners: {
        type: 'array',
        description:
          'Where traffic is accepted: URLs such as https://0.0.0.0:443, ports for http, or maps as of the option `listeners`.',
        items: { type: ['string', 'integer', 'object'] }
      },
      acme,
      certificates: { type: 'array', items: certificate, description: 'Chains with their keys; watched.' },
      certificate_authorities: mapOf({ anyOf: [text('PEM file.'), authority] }, 'Authorities of clients, by name.'),
      ip_policies: mapOf(ipPolicy(), 'Networks that are allowed and denied, by name.'),
      ip_restrictions: mapOf(object(requestFields(ipRestriction, RESTRICTION_KEYS)), 'By class of traffic.'),
      vaults: mapOf(mapOf(secret('Its value.'), 'Secrets by name.'), 'Vaults by name.'),
      sites: mapOf({ anyOf: [backend, site] }, 'By host, or host:port.'),
      tcp: mapOf({ anyOf: [backend, tcp] }, 'TCP edges by host:port.'),
      backends: mapOf(backendSchema(), 'Where traffic goes, by name.'),
      import: files,
      include: files
    })
  }
}

const files: Schema = {
  type: ['string', 'array'],
  items: { type: 'string', minLength: 1 },
  description:
    'Further site files that this one is one with; a star in the last part of a path stands for any characters.'
}

const certificate: Schema = object(
  {
    certificate: text('PEM file of the chain, leaf first.'),
    key: { anyOf: [text('PEM file of the private key.'), secret('The private key.')] },
    description: { type: 'string' },
    metadata: { type: 'string' }
  },
  { required: ['certificate', 'key'] }
)

const acme: Schema = object(
  {
    agree_to_terms: { const: true, description: ACME_KEYS.agree_to_terms },
    email: text(ACME_KEYS.email),
    directory: text(ACME_KEYS.directory),
    ca: text(ACME_KEYS.ca),
    key_type: { enum: KEY_TYPES, description: ACME_KEYS.key_type },
    external_account: object(
      { key_id: text('Key identifier.'), key: secret('HMAC key, base64url.') },
      { required: ['key_id', 'key'], description: ACME_KEYS.external_account }
    )
  },
  { required: ['agree_to_terms'], description: 'Certificates that are requested and renewed by ACME.' }
)

function ipPolicy(): Schema {
  const networks = { type: 'array', items: ipPolicyRule.fields.cidr.request }
  return object({ allow: networks, deny: networks, description: { type: 'string' }, metadata: { type: 'string' } })
}

const url = text(
  'http://, https://, h2c://, h2://, grpc://, grpcs:// or tcp:// with host and port, and a path that is put before that of requests if wanted; with srv+ before it, such as srv+http://_http._tcp.web.internal, a service of the DNS; ' +
    'http://unix:/run/app.sock, or unix:///run/app.sock:/path, is a Unix domain socket.'
)
const server = object(
  {
    url,
    weight: { type: 'integer', minimum: 0, maximum: 10_000 },
    backup: { type: 'boolean', description: 'It gets requests only while none of the other servers works.' }
  },
  { required: ['url'] }
)
const servers: Schema = { type: 'array', minItems: 1, items: { anyOf: [url, server] }, description: 'Servers.' }

function filesSchema(): Record<string, unknown> {
  return {
    files: text('Folder whose files are sent; its path begins at the site file.'),
    ...requestFields(fileBackend, FILE_SETTINGS)
  }
}

function backendSchema(): Schema {
  const names = { type: 'array', items: { type: 'string' } }
  const weights = { type: 'object', additionalProperties: { type: 'integer', minimum: 0, maximum: 10_000 } }
  return object({
    servers,
    ...requestFields(tunnelGroupBackend, ['labels']),
    response: object(requestFields(httpResponseBackend, ['body', 'headers', 'status_code'])),
    ...filesSchema(),
    backends: { anyOf: [names, weights], description: 'Other backends, with weights where they are weighted.' },
    balance: { enum: BALANCES, description: 'How one of several is chosen; weighted unless said otherwise.' },
    ...requestFields(staticBackend, SERVER_SETTINGS),
    tls: tlsSchema(),
    ...requestFields(weightedBackend, [...SHARE_SETTINGS, ...BALANCE_SETTINGS]),
    description: { type: 'string' },
    metadata: { type: 'string' }
  })
}

/** Returns the schema of TLS to servers, with files in place of their contents; the URLs decide whether TLS is used. */
function tlsSchema(): Schema {
  const schema = inFile(staticBackend.fields.tls?.request, 'tls') as Schema
  const {
    enabled: _enabled,
    client_certificate_id: _id,
    ...members
  } = schema.properties as Readonly<Record<string, unknown>>
  const files = { ca: text('PEM file of the authorities to trust; watched.'), client_certificate: certificate }
  return { ...schema, properties: { ...members, ...files } }
}

function requestFields({ fields }: Resource, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(names.map((name) => [name, inFile(fields[name]?.request, name)]))
}

/** Returns the schemas of modules in a file; `true` enables defaults, `false` overrides the site. */
function modules(resource: Resource, names: readonly string[]): Record<string, unknown> {
  const fields = Object.entries(requestFields(resource, names))
  return Object.fromEntries(fields.map(([name, schema]) => [name, { anyOf: [{ type: ['boolean', 'null'] }, schema] }]))
}

/** A schema of requests as files have it: names in place of ids, references in place of secrets. */
function inFile(schema: unknown, name: string): unknown {
  if (NAMED_LISTS[name] !== undefined) return { type: 'array', items: { type: 'string' } }
  if (!isObject(schema)) return schema
  if (schema.writeOnly === true) return secret(String(schema.description ?? ''))
  const { properties, required } = schema
  if (!isObject(properties)) return schema
  const known = new Map(Object.entries(NAMED_LISTS).map(([key, { request }]) => [request, key]))
  const members = Object.entries(properties).map(([key, inner]) => {
    const written = known.get(key) ?? key
    return [written, inFile(inner, written)]
  })
  const needed = Array.isArray(required) ? { required: required.map((key) => known.get(String(key)) ?? key) } : {}
  return { ...schema, properties: Object.fromEntries(members), ...needed }
}
