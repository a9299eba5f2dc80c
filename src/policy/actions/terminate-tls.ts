import Type from 'typebox'
import { defineUnavailable } from '../action.js'
import { choice, config, template } from '../fields.js'

const version = (description: string, standard: '1.2' | '1.3') =>
  Type.Optional(choice(['1.0', '1.1', '1.2', '1.3'], { description, default: standard }))

const STRATEGIES = ['require-and-verify', 'require-any', 'request'] as const

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

/** Ends TLS here, with a certificate of the policy or the entry's own. */
export const terminateTls = defineUnavailable({
  type: 'terminate-tls',
  phases: ['on_tcp_connect'],
  config: config({
    min_version: version('Lowest TLS version.', '1.2'),
    max_version: version('Highest TLS version.', '1.3'),
    server_private_key: Type.Optional(template({ description: 'Private key, PEM.', minLength: 1 })),
    server_certificate: Type.Optional(template({ description: 'Certificate chain, PEM.', minLength: 1 })),
    mutual_tls_certificate_authorities: Type.Optional(
      Type.Array(template({ description: 'A certificate authority: PEM, or the id of one.', minLength: 1 }), {
        description: 'Who signs the certificates of clients.'
      })
    ),
    mutual_tls_verification_strategy: Type.Optional(
      choice(STRATEGIES, { description: 'What is asked of clients.', default: 'require-and-verify' })
    )
  }),
  configOptional: true,
  terminates: 'never',
  results: {
    name: 'terminate_tls',
    fields: {
      cipher_suite: 'string',
      sni: 'string',
      version: 'string',
      warnings: 'list<string>',
      'error.code': 'string',
      'error.message': 'string',
      error_code: 'string',
      error_message: 'string',
      'client.pem': 'string',
      ...certificateFields('client'),
      ...certificateFields('server')
    }
  },
  check({ min_version, max_version, server_private_key, server_certificate }, scope) {
    const lowest = Number(min_version ?? '1.2')
    if (lowest > Number(max_version ?? '1.3')) {
      scope.problem(['min_version'], 'CONFIG_INVALID', 'min_version is above max_version')
    }
    if (lowest < 1.2)
      scope.warn(['min_version'], 'TLS_OUTDATED', 'TLS 1.0 and 1.1 are broken (RFC 8996); use 1.2 or 1.3')
    if ((server_private_key === undefined) !== (server_certificate === undefined)) {
      const given = server_private_key === undefined ? 'server_certificate' : 'server_private_key'
      scope.problem(
        [given],
        'CONFIG_INVALID',
        'server_private_key and server_certificate belong together: give both or neither'
      )
    }
  }
})

function certificateFields(side: string): Record<string, string> {
  const fields: Record<string, string> = {
    [`${side}.extensions`]: 'list<dyn>',
    [`${side}.serial_number`]: 'string',
    [`${side}.signature_algorithm`]: 'string',
    [`${side}.validity.not_before`]: 'timestamp',
    [`${side}.validity.not_after`]: 'timestamp',
    [`${side}.san`]: 'string'
  }
  for (const names of ['dns_names', 'email_addresses', 'ip_addresses', 'uris'])
    fields[`${side}.san.${names}`] = 'list<string>'
  for (const name of ['issuer', 'subject']) {
    fields[`${side}.${name}`] = 'string'
    for (const [field, type] of Object.entries(NAME_FIELDS)) fields[`${side}.${name}.${field}`] = type
  }
  return fields
}
