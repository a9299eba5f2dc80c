import { TESTS_FIELD } from '../../../control/policy-tests.js'
import { httpResponseBackend, tunnelGroupBackend, weightedBackend } from '../../../resources/backends.js'
import { certificateAuthority, tlsCertificate } from '../../../resources/certificates.js'
import { httpsEdge, httpsEdgeRoute, PASSTHROUGH, tcpEdge } from '../../../resources/edges.js'
import { fileBackend } from '../../../resources/file-backend.js'
import { ipPolicy, ipPolicyRule, ipRestriction } from '../../../resources/ip-policies.js'
import { staticBackend } from '../../../resources/static-backend.js'
import {
  ABOUT,
  choice,
  either,
  type Fields,
  type Form,
  list,
  map,
  members,
  modules,
  named,
  requests,
  secret,
  settable,
  text,
  variable
} from './form.js'

// The table of the fields of a site file. It defines the known keys, the fields that readers pass on in requests, those that `sluice adopt` writes
// back, the schema of `sluice schema site`, and the places of environment variables. A new field of a resource is a field of the file by itself.

/** A certificate chain and its key. */
export const CERTIFICATE = map(
  'a certificate',
  {
    certificate: text('PEM file of the chain, leaf first.'),
    key: either([text('PEM file of the private key.'), secret('The private key.')]),
    ...requests(tlsCertificate, ABOUT)
  },
  { required: ['certificate', 'key'] }
)

export const AUTHORITY = map('a certificate authority', {
  ca: text('PEM file of its certificate.'),
  crl: text('PEM file of its revocation lists; watched.'),
  ...requests(certificateAuthority, ABOUT)
})

const networks: Form = { schema: { type: 'array', items: ipPolicyRule.fields.cidr.request } }
export const IP_POLICY = map('an IP policy', { allow: networks, deny: networks, ...requests(ipPolicy, ABOUT) })
export const IP_RESTRICTION = map('an IP restriction', requests(ipRestriction, settable(ipRestriction, ['type'])))

export const KEY_TYPES = ['ecdsa', 'rsa'] as const
export const EXTERNAL_ACCOUNT = map(
  'an external account',
  { key_id: text('Key identifier.'), key: secret('HMAC key, base64url.') },
  {
    required: ['key_id', 'key'],
    description: 'Credentials that some authorities give out for the registration (RFC 8555 7.3.4).'
  }
)
export const ACME = map(
  'acme',
  {
    agree_to_terms: {
      schema: {
        const: true,
        description: 'Do you agree to the terms of service of the authority? Must be true.'
      }
    },
    email: text('Where the authority may write to.'),
    directory: variable('URL of the directory of the authority (RFC 8555); Let’s Encrypt unless said otherwise.'),
    ca: text('PEM file of the authorities that its API is checked against, instead of the well-known ones.'),
    key_type: choice(KEY_TYPES, 'Type of the private keys of certificates; ecdsa unless said otherwise.'),
    external_account: EXTERNAL_ACCOUNT
  },
  { required: ['agree_to_terms'], description: 'Certificates that are requested and renewed by ACME.' }
)

const weight: Form = { schema: { type: 'integer', minimum: 0, maximum: 10_000 } }
const flag = (description: string): Form => ({ schema: { type: 'boolean', description } })

const url = variable(
  'http://, https://, h2c://, h2://, grpc://, grpcs:// or tcp:// with host and port, and a path that is put before that of requests if wanted; with srv+ before it, such as srv+http://_http._tcp.web.internal, a service of the DNS; ' +
    'http://unix:/run/app.sock, or unix:///run/app.sock:/path, is a Unix domain socket.'
)
export const SERVER = map(
  'a server',
  { url, weight, backup: flag('It gets requests only while none of the other servers works.') },
  { required: ['url'] }
)
const servers = list(either([url, SERVER]), { minItems: 1, description: 'Servers.' })

/** TLS to servers, with file names in place of contents. The URLs decide whether TLS is used. */
const { enabled: _enabled, client_certificate_id: _id, ...tlsMembers } = members(staticBackend, 'tls')
export const UPSTREAM_TLS: Form & { readonly what: string; readonly fields: Fields } = {
  ...map(
    'tls',
    { ...tlsMembers, ca: text('PEM file of the authorities to trust; watched.'), client_certificate: CERTIFICATE },
    { description: staticBackend.fields.tls.description }
  ),
  request: staticBackend.fields.tls.request
}

/** Settings of a backend that apply to each of its servers. */
export const SERVER_SETTINGS: Fields = {
  ...requests(staticBackend, settable(staticBackend, ['address', 'path', 'http2', ...ABOUT])),
  tls: UPSTREAM_TLS
}
/** Settings for choosing one of several members. */
export const BALANCE_SETTINGS = requests(weightedBackend, settable(tunnelGroupBackend, ['labels', 'balance', ...ABOUT]))
/** Settings of several servers that share traffic. */
export const SHARE_SETTINGS = requests(
  weightedBackend,
  settable(weightedBackend, ['backends', 'balance', ...ABOUT, ...Object.keys(BALANCE_SETTINGS)])
)
/** Settings of `files`. */
export const FILE_SETTINGS = requests(fileBackend, settable(fileBackend, ['folder', ...ABOUT]))
/** Static files in place of a backend. */
export const FILES: Fields = {
  files: text('Folder whose files are sent; its path begins at the site file.'),
  ...FILE_SETTINGS
}
export const RESPONSE = map('a response', requests(httpResponseBackend, settable(httpResponseBackend, ABOUT)))
/** Balancing methods of a backend with several members. */
export const BALANCES = ['weighted', 'round_robin', 'least_requests', 'hash', 'failover']

export const BACKEND = map('a backend', {
  servers,
  ...requests(tunnelGroupBackend, ['labels']),
  response: RESPONSE,
  files: FILES.files as Form,
  backends: {
    schema: {
      anyOf: [
        { type: 'array', items: { type: 'string' } },
        { type: 'object', additionalProperties: weight.schema }
      ],
      description: 'Other backends, with weights where they are weighted.'
    }
  },
  balance: {
    ...choice(BALANCES, 'How one of several is chosen; weighted unless said otherwise.'),
    request: weightedBackend.fields.balance.request
  },
  ...BALANCE_SETTINGS,
  ...SHARE_SETTINGS,
  ...SERVER_SETTINGS,
  ...FILE_SETTINGS,
  ...requests(weightedBackend, ABOUT)
})

/** A backend in place of a map with it. */
const backendAlone = either(
  [variable('Name of a backend, URL of a server, or path of a folder of files such as ./public.'), servers],
  'Where traffic goes.'
)
const backend = either([backendAlone, BACKEND], 'Where traffic goes.')

/** Place of the schema of policies. */
export const POLICY_DEFINITION = 'traffic_policy'
const policy: Fields = {
  policy: {
    schema: {
      anyOf: [
        text('File of the traffic policy; `none`: none on purpose.').schema,
        { $ref: `#/$defs/${POLICY_DEFINITION}` }
      ],
      description: 'Traffic policy: a file, or the document itself.'
    }
  },
  [TESTS_FIELD]: {
    schema: {
      anyOf: [
        text('File of the tests of the policy.').schema,
        { type: 'object', properties: { cases: { type: 'array', items: { type: 'object' } } }, required: ['cases'] }
      ],
      description:
        'Tests of the policy, as `sluice test` reads them: a file, or the document itself. The site file is refused when one fails.'
    }
  }
}

const target = 'URL or path that takes the place of the URL, or of what `from` matches; $1 is a group.'
const from = text('RE2 pattern.')
const values: Form = {
  schema: {
    ...named({ schema: { type: ['string', 'number', 'boolean', 'null'] } }, '').schema,
    description: 'Values by name; each replaces the field that is there. null removes it.'
  }
}
export const REWRITE = map('rewrite', { from, to: text(target) }, { required: ['to'] })
export const REDIRECT = map(
  'redirect',
  { from, to: text(target), status_code: choice([301, 302, 303, 307, 308]) },
  { required: ['to'] }
)
export const HEADERS = map(
  'headers',
  { request: values, response: values },
  { description: 'Header fields that are set or removed.' }
)

/** Fields of a site that apply to every route without its own value. */
export const SITE_ROUTE_FIELDS: Fields = {
  strip_prefix: {
    schema: {
      anyOf: [{ type: 'boolean' }, text('The prefix, such as /api.').schema],
      description: 'Beginning of the path that the upstream does not get; true: the path of the route.'
    }
  },
  rewrite: either([text(target), REWRITE], 'URL that the upstream gets.'),
  headers: HEADERS
}

export const PAGE = map('a page', { body: text('The page itself.') }, { required: ['body'] })
/** Modules of routes. Those of a site apply to every route that does not override them. */
export const ROUTE_MODULES: Fields = {
  ...modules(httpsEdgeRoute),
  error_pages: named(
    either([text('File of the page.'), PAGE]),
    'Pages of errors that Sluice answers, by status (404) or class (5xx); ${…} is an expression.'
  )
}

export const ROUTE = map('a route', {
  backend,
  ...FILES,
  ...policy,
  ...SITE_ROUTE_FIELDS,
  redirect: either([text(target), REDIRECT], 'Redirect to another URL.'),
  ...ROUTE_MODULES,
  ...requests(httpsEdgeRoute, ABOUT)
})

export const TCP_EDGE = map('a TCP edge', {
  backend,
  ...policy,
  ...modules(tcpEdge),
  ...requests(tcpEdge, ABOUT)
})

/** Fields of the edge of a site. */
export const EDGE: Fields = requests(httpsEdge, [
  ...httpsEdge.modules,
  ...settable(httpsEdge, ['hostports', 'on_http'])
])

export const SITE = map('a site', {
  hosts: list({ schema: { type: 'string' }, variables: true }, { description: 'Further hosts of the site.' }),
  ...policy,
  backend,
  ...FILES,
  routes: named(either([backendAlone, ROUTE]), 'By path: one that ends with / is a prefix, another one is exact.'),
  redirect: choice(
    ['on', 'off', true, false],
    'Are clients without TLS sent to HTTPS, where there is a listener with TLS and a certificate?'
  ),
  certificate: either(
    [choice(['managed', 'none']), CERTIFICATE],
    'Otherwise one of `certificates` that covers the name, else a managed one where the terms are agreed to.'
  ),
  tls: {
    schema: {
      const: PASSTHROUGH,
      description:
        'TLS is not ended here: the connection goes to the backend as it comes, which shows its own certificate. Nothing of HTTP is possible then.'
    }
  },
  ...EDGE,
  ...SITE_ROUTE_FIELDS,
  ...ROUTE_MODULES
})

/** Keys of a site with TLS passthrough. */
export const PASSED_KEYS: ReadonlySet<string> = new Set(['hosts', 'tls', ...Object.keys(TCP_EDGE.fields)])

const files: Form = {
  schema: {
    type: ['string', 'array'],
    items: { type: 'string', minLength: 1 },
    description:
      'Further site files that this one is one with; a star in the last part of a path stands for any characters.'
  }
}

export const SITE_FILE = map(
  'a site file',
  {
    listeners: {
      variables: true,
      items: { schema: {}, variables: true, entries: { schema: {}, variables: true } },
      schema: {
        type: 'array',
        description:
          'Where traffic is accepted: URLs such as https://0.0.0.0:443, ports for http, or maps as of the option `listeners`.',
        items: { type: ['string', 'integer', 'object'] }
      }
    },
    acme: ACME,
    certificates: list(CERTIFICATE, { description: 'Chains with their keys; watched.' }),
    certificate_authorities: named(either([text('PEM file.'), AUTHORITY]), 'Authorities of clients, by name.'),
    ip_policies: named(IP_POLICY, 'Networks that are allowed and denied, by name.'),
    ip_restrictions: named(IP_RESTRICTION, 'By class of traffic.'),
    vaults: named(named(secret('Its value.'), 'Secrets by name.'), 'Vaults by name.'),
    sites: named(either([backendAlone, SITE]), 'By host, or host:port.', { variables: true }),
    tcp: named(either([backendAlone, TCP_EDGE]), 'TCP edges by host:port.', { variables: true }),
    backends: named(BACKEND, 'Where traffic goes, by name.'),
    import: files,
    include: files
  },
  { title: 'Site file of Sluice', patternProperties: { '^x-': { description: 'Ignored: a place for YAML anchors.' } } }
)
