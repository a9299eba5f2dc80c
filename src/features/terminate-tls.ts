import type { Template } from '../expression/expression.js'
import { certificateMeaning } from '../expression/meanings/connection.js'
import { NAME_ATTRIBUTES, parseCertificate } from '../expression/variables/certificate.js'
import { type Flow, type Termination, takeTermination } from '../flow/flow.js'
import { closeConnection } from '../flow/verdict.js'
import { type Coded, defineErrors } from '../lib/errors.js'
import { checkPrivateKey, readChain } from '../lib/x509.js'
import { defineAction, ERROR_RESULTS, type ResultFields, type Scope } from '../policy/action.js'
import { config } from '../policy/fields.js'
import { type NodePath, policyErrors } from '../policy/problems.js'
import { isPlaceholderWord } from '../policy/values.js'
import { given, implies, valueLike } from '../schema/editor.js'
import { choice, either, list, optional, template } from '../schema/values.js'
import { defineFeature } from './contract.js'

/** Codes of the results of the action terminate-tls. */
const terminateTlsErrors = defineErrors({
  NO_TLS_HERE: {
    text: 'TLS cannot be ended on this connection.',
    help: 'Use the action once, on TCP edges whose clients speak TLS.'
  },
  HANDSHAKE_FAILED: {
    text: 'The TLS handshake with the client failed.',
    help: 'Look at error.message; mostly the client does not accept or does not show a certificate.'
  }
})

/** Problem codes of the action terminate-tls. */
const terminateTlsProblems = defineErrors({
  LIST_EXPECTED: {
    text: 'A single text stands where a list belongs; it is taken as a list of one.',
    help: 'Write a list.'
  }
})

const version = (description: string, standard: '1.2' | '1.3') =>
  optional(choice(['1.0', '1.1', '1.2', '1.3'], { description, default: standard }))

const STRATEGIES = ['require-and-verify', 'require-any', 'request'] as const

const authority = template({
  description: 'A certificate authority: PEM, or the id of one.',
  min: 1,
  editor: valueLike('-----BEGIN', '^\\s*ca_\\w+\\s*$')
})

const below = (version: number) =>
  ['1.0', '1.1', '1.2', '1.3'].filter((one) => Number(one) < version).flatMap((one) => [one, Number(one)])
const VERIFYING = given('mutual_tls_verification_strategy', ['require-and-verify'])
const AUTHORITIES = 'mutual_tls_certificate_authorities'

/** JSON schema for editors of the checks in `compile`. */
const BETWEEN_FIELDS = {
  dependentRequired: {
    server_private_key: ['server_certificate'],
    server_certificate: ['server_private_key']
  },
  allOf: [
    implies(VERIFYING, { required: [AUTHORITIES], properties: { [AUTHORITIES]: { minItems: 1 } } }),
    implies(
      { not: { required: ['mutual_tls_verification_strategy'] } },
      { properties: { [AUTHORITIES]: { minItems: 1 } } }
    ),
    implies(given('min_version', ['1.3', 1.3]), { not: given('max_version', below(1.3)) }),
    implies({ not: given('min_version', below(1.2)) }, { not: given('max_version', below(1.2)) }),
    implies(given('min_version', ['1.1', 1.1]), { not: given('max_version', below(1.1)) })
  ]
}

const MUSTS = { 'require-and-verify': 'verified', 'require-any': 'any', request: 'requested' } as const
const RESULT = 'terminate_tls'

const NAME_FIELDS: Readonly<Record<string, string>> = {
  common_name: 'string',
  country: 'list<string>',
  locality: 'list<string>',
  organization: 'list<string>',
  organizational_unit: 'list<string>',
  postal_code: 'list<string>',
  province: 'list<string>',
  street_address: 'list<string>'
}

/**
 * Terminates TLS on a connection to a TCP edge, with a certificate of the policy or that of the SNI name. Later modules see plain bytes,
 * and later rules the client's certificate. If TLS cannot be terminated (it already was, or the listener is HTTP) the connection is closed:
 * a policy that requires certificates must not get clients without.
 */
const action = defineAction({
  type: 'terminate-tls',
  summary: 'Ends TLS on a connection to a TCP edge, with client certificates if asked for.',
  example: {
    policy: `on_tcp_connect:
  - actions:
      - type: terminate-tls
        config:
          min_version: '1.3'
`
  },
  confined: { guest: ownCertificates },
  phases: ['on_tcp_connect'],
  needs: 'tls',
  config: config(
    {
      min_version: version('Lowest TLS version.', '1.2'),
      max_version: version('Highest TLS version.', '1.3'),
      server_private_key: optional(template({ description: 'Private key, PEM.', min: 1 })),
      server_certificate: optional(template({ description: 'Certificate chain, PEM.', min: 1 })),
      mutual_tls_certificate_authorities: optional(
        either([list(authority, { description: 'Who signs the certificates of clients.' }), authority], {
          description: 'Who signs the certificates of clients: an authority, or a list of them.'
        })
      ),
      mutual_tls_verification_strategy: optional(
        choice(STRATEGIES, {
          description: 'What is asked of clients; with authorities and without this: require-and-verify.'
        })
      )
    },
    BETWEEN_FIELDS
  ),
  configOptional: true,
  terminates: 'sometimes',
  changes: ['conn.tls'],
  results: {
    name: RESULT,
    fields: {
      cipher_suite: ['string', 'Cipher suite of the connection.'],
      sni: ['string', 'Name that the client gave in its handshake.'],
      version: ['string', 'Version of TLS, 1.2 or 1.3.'],
      warnings: ['list<string>', 'What is remarkable about the handshake.'],
      ...ERROR_RESULTS,
      error_code: ['string', 'As error.code.'],
      error_message: ['string', 'As error.message.'],
      'client.pem': ['string', 'The certificate that the client showed, as PEM; empty without one.'],
      ...certificateFields('client'),
      ...certificateFields('server')
    }
  },
  leaves: ({ mutual_tls_certificate_authorities: authorities, mutual_tls_verification_strategy: strategy }) => {
    const shown = authorities === undefined ? strategy === 'require-any' : strategy !== 'request'
    const always = ['cipher_suite', 'sni', 'version', 'warnings', 'error', 'server', 'error_code', 'error_message']
    return (shown ? [''] : always.map((field) => `.${field}`)).map((field) => `actions.service.${RESULT}${field}`)
  },
  compile({ min_version = '1.2', max_version = '1.3', ...config }, scope) {
    const versions = { minVersion: speaks(min_version), maxVersion: speaks(max_version) }
    if (Number(min_version) > Number(max_version)) {
      scope.problem(['min_version'], policyErrors.CONFIG_INVALID, 'min_version is above max_version')
    }
    for (const [field, version] of Object.entries({ min_version, max_version })) {
      if (Number(version) >= 1.2) continue
      scope.unavailable([field], 'TLS 1.0 and 1.1 are broken (RFC 8996) and not spoken; use 1.2 or 1.3')
    }
    const identity = compileIdentity(config.server_certificate, config.server_private_key, scope)
    const clients = compileClients(
      authoritiesOf(config.mutual_tls_certificate_authorities, scope),
      config.mutual_tls_verification_strategy,
      scope
    )
    return async (flow) => {
      const terminate = takeTermination(flow)
      if (terminate === undefined)
        return failed(flow, terminateTlsErrors.NO_TLS_HERE, 'TLS cannot be ended on this connection')
      const [own, asked] = [identity(flow), clients(flow)]
      const result = await terminate({
        ...versions,
        ...(own === undefined ? {} : { identity: own }),
        ...(asked === undefined ? {} : { clients: asked })
      })
      if (result.kind === 'failed') return failed(flow, terminateTlsErrors.HANDSHAKE_FAILED, result.why)
      publish(flow, result.tls)
      return undefined
    }
  }
})

/** Returns the minimum version; versions below 1.2 are never used. */
function speaks(version: string): 'TLSv1.2' | 'TLSv1.3' {
  return version === '1.3' ? 'TLSv1.3' : 'TLSv1.2'
}

/** Returns the same object for the same texts, because contexts are cached by it. */
function compileIdentity(
  certificate: string | undefined,
  privateKey: string | undefined,
  scope: Scope
): (flow: Flow) => Termination['identity'] {
  if (certificate === undefined && privateKey === undefined) return () => undefined
  if (certificate === undefined || privateKey === undefined) {
    const given = certificate === undefined ? 'server_private_key' : 'server_certificate'
    const message = 'server_private_key and server_certificate belong together: give both or neither'
    scope.problem([given], policyErrors.CONFIG_INVALID, message)
    return () => undefined
  }
  const chain = scope.template(certificate, ['server_certificate'])
  const key = scope.template(privateKey, ['server_private_key'])
  if (chain.constant !== undefined && key.constant !== undefined) checkIdentity(chain.constant, key.constant, scope)
  let last: NonNullable<Termination['identity']> = { chain: '', privateKey: '' }
  return (flow) => {
    const now = { chain: chain.text(flow), privateKey: key.text(flow) }
    if (now.chain !== last.chain || now.privateKey !== last.privateKey) last = now
    return last
  }
}

function checkIdentity(chain: string, privateKey: string, scope: Scope): void {
  const read = readChain(chain)
  if (!read.ok) {
    scope.unavailable(
      ['server_certificate'],
      `server_certificate cannot be used: ${read.message}`,
      policyErrors.CONFIG_INVALID
    )
    return
  }
  const refused = checkPrivateKey(privateKey, read.certificates)
  if (refused !== undefined) {
    scope.unavailable(
      ['server_private_key'],
      `server_private_key cannot be used: ${refused.message}`,
      policyErrors.CONFIG_INVALID
    )
  }
}

const AUTHORITY_ID = /^ca_\w+$/

/** Returns the authorities; published documents have a single one without a list. */
function authoritiesOf(given: readonly string[] | string | undefined, scope: Scope): readonly Authority[] | undefined {
  if (given === undefined) return undefined
  if (typeof given !== 'string') return given.map((text, index) => ({ text, at: [AUTHORITIES, index] }))
  const message = `${AUTHORITIES} is a list of authorities; one text is taken as a list of one`
  scope.warn([AUTHORITIES], terminateTlsProblems.LIST_EXPECTED, message)
  return [{ text: given, at: [AUTHORITIES] }]
}

interface Authority {
  readonly text: string
  /** Path in the configuration. */
  readonly at: NodePath
}

function compileClients(
  authorities: readonly Authority[] | undefined,
  strategy: (typeof STRATEGIES)[number] | undefined,
  scope: Scope
): (flow: Flow) => Termination['clients'] {
  if (authorities === undefined && strategy === undefined) return () => undefined
  const must = MUSTS[strategy ?? 'require-and-verify']
  if (must === 'verified' && (authorities === undefined || authorities.length === 0)) {
    const message = 'require-and-verify needs mutual_tls_certificate_authorities to verify by'
    scope.problem(['mutual_tls_verification_strategy'], policyErrors.CONFIG_INVALID, message)
  }
  const templates = (authorities ?? []).map(({ text, at }): Template => {
    const compiled = scope.template(text, at)
    const { constant } = compiled
    const read = constant?.includes('-----BEGIN') === true ? readChain(constant) : undefined
    if (read?.ok === false) {
      scope.unavailable(at, `the authority cannot be used: ${read.message}`, policyErrors.CONFIG_INVALID)
    } else if (constant !== undefined && read === undefined && !AUTHORITY_ID.test(constant.trim())) {
      if (isPlaceholderWord(constant)) {
        scope.unavailable(at, `"${constant}" is a placeholder: put an authority in its place`, policyErrors.PLACEHOLDER)
      } else scope.problem(at, policyErrors.CONFIG_INVALID, 'an authority is a PEM text or the id of one (ca_…)')
    }
    if (constant !== undefined && read === undefined && AUTHORITY_ID.test(constant.trim()))
      scope.names({ kind: 'authority', id: constant.trim() }, at)
    return compiled
  })
  return (flow) => ({ must, authorities: templates.map((one) => one.text(flow)) })
}

function failed(flow: Flow, { code }: Coded, message: string): typeof closeConnection {
  flow.publish(RESULT, { 'error.code': code, 'error.message': message, error_code: code, error_message: message })
  return closeConnection
}

type Tls = NonNullable<Flow['connection']['tls']>

function publish(
  flow: Flow,
  { cipher, sni, version, clientCertificate, clientVerified, serverCertificate }: Tls
): void {
  const warnings =
    clientCertificate !== undefined && clientVerified === false
      ? ['the certificate of the client is vouched for by none of the authorities']
      : []
  flow.publish(RESULT, {
    cipher_suite: cipher,
    sni: sni ?? '',
    version: version.replace(/^TLSv/, ''),
    warnings,
    'error.code': '',
    'error.message': '',
    error_code: '',
    error_message: '',
    ...certificateValues('client', clientCertificate),
    ...certificateValues('server', serverCertificate)
  })
}

/** Returns the fields of a certificate; without one only the empty texts. */
function certificateValues(side: string, der: Uint8Array | undefined): Record<string, unknown> {
  const certificate = der === undefined ? undefined : parseCertificate(der)
  if (certificate === undefined) return {}
  const values: Record<string, unknown> = {
    [`${side}.extensions`]: certificate.extensions,
    [`${side}.serial_number`]: certificate.serialNumber,
    [`${side}.signature_algorithm`]: certificate.signatureAlgorithm,
    [`${side}.validity.not_before`]: certificate.notBefore,
    [`${side}.validity.not_after`]: certificate.notAfter,
    [`${side}.san`]: certificate.san,
    [`${side}.san.dns_names`]: certificate.dnsNames,
    [`${side}.san.email_addresses`]: certificate.emailAddresses,
    [`${side}.san.ip_addresses`]: certificate.ipAddresses,
    [`${side}.san.uris`]: certificate.uris
  }
  if (side === 'client') values['client.pem'] = certificate.pem
  for (const name of ['issuer', 'subject'] as const) {
    values[`${side}.${name}`] = certificate[name].text
    values[`${side}.${name}.common_name`] = certificate[name].commonName
    for (const [field, attribute] of Object.entries(NAME_ATTRIBUTES)) {
      values[`${side}.${name}.${field}`] = certificate[name].values[attribute]
    }
  }
  return values
}

function certificateFields(side: string): ResultFields {
  const types: Record<string, string> = {
    extensions: 'list<dyn>',
    serial_number: 'string',
    signature_algorithm: 'string',
    'validity.not_before': 'timestamp',
    'validity.not_after': 'timestamp',
    san: 'string'
  }
  for (const names of ['dns_names', 'email_addresses', 'ip_addresses', 'uris']) types[`san.${names}`] = 'list<string>'
  for (const name of ['issuer', 'subject']) {
    types[name] = 'string'
    for (const [field, type] of Object.entries(NAME_FIELDS)) types[`${name}.${field}`] = type
  }
  const fields = Object.entries(types).map(([member, type]) => [
    `${side}.${member}`,
    [type, certificateMeaning(member) ?? '']
  ])
  return Object.fromEntries(fields)
}

function ownCertificates(config: Readonly<Record<string, unknown>>, scope: Scope): void {
  const { server_certificate, server_private_key, mutual_tls_certificate_authorities: authorities } = config
  if (server_certificate === undefined || server_private_key === undefined) {
    const message =
      'the policy of an agent does not use certificates of the account; write server_certificate and server_private_key'
    scope.problem([], policyErrors.ACTION_UNSUPPORTED, message)
  }
  for (const [index, authority] of [authorities ?? []].flat().entries()) {
    if (String(authority).includes('-----BEGIN')) continue
    const message = 'the policy of an agent does not use authorities of the account; write the certificate as PEM'
    scope.problem(['mutual_tls_certificate_authorities', index], policyErrors.ACTION_UNSUPPORTED, message)
  }
}

export const terminateTls = defineFeature({
  name: 'terminate-tls',
  summary: 'Ends TLS on a connection, with a certificate of its own if wanted.',
  actions: [action],
  notInAgent: 'what reaches an agent is no connection that TLS could begin on',
  errors: [terminateTlsErrors],
  problems: [terminateTlsProblems]
})
