import { errorGroups } from '../../src/app/catalogue.js'
import type { ErrorRow } from '../../src/lib/errors.js'

const CODE = /^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$|^[A-Z][A-Z0-9]{2,}$/
/** Words of the system, of libraries and of protocols: they come from elsewhere and are compared with or written. */
const FOREIGN = [
  /^E[A-Z]{2,12}$|^EAI_AGAIN$/,
  /^(ERR|FST|HPE|SQLITE|OAUTH|SLUICE|TLS_(AES|CHACHA20)|UNABLE|SELF)_/,
  /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE|HTTP)$/,
  /^(RS|PS|ES|HS|S)\d{3}$|^(RSA|OKP|ECDSA|PLAIN|NFKC|UTC|TRUE|FALSE)$/,
  /^(SIG[A-Z0-9]+|TCP[46]|X25519MLKEM768|CNAME|CAA|API|CEL|OIDC|CERTIFICATE|TAG_RESOLVE_FAILED|UNEXPECTED_TOKEN|RESOURCE_EXHAUSTION)$/,
  // A status of the health protocol of gRPC.
  /^SERVING$/,
  // Words of the files of other servers that `sluice import` reads.
  /^(METH_GET|LOCALHOST|SERVERID|DENY)$/,
  // What `domains verify` prints beside a record of DNS that has to change.
  /^WRONG$/,
  // SAML, the attribute of its references, and states of abuse reports.
  /^(SAML|URI|PENDING|PROCESSED|PARTIALLY_PROCESSED)$/,
  // What node and OpenSSL say of certificates, and the alerts of TLS.
  /^(CERT|INVALID_CA|INVALID_PURPOSE|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)(_|$)/,
  /^(PROTOCOL_VERSION|HANDSHAKE_FAILURE|UNKNOWN_CA|ACCESS_DENIED|UNSUPPORTED_CERTIFICATE|NO_CERTIFICATE|BAD_CERTIFICATE)$/,
  /^CERTIFICATE_(REQUIRED|REVOKED|UNKNOWN)$/
]

/** The engine of the rule language of ModSecurity, whose variables and severities are in capitals; its own codes begin with WAF_. */
const RULE_LANGUAGE = /^features\/waf\//

/** Returns true if a text of a file is an error code: every text in capitals is one unless it is a word that comes from elsewhere. */
export function isCode(text: string, file: string): boolean {
  if (RULE_LANGUAGE.test(file) && !text.startsWith('WAF_')) return false
  return CODE.test(text) && !FOREIGN.some((words) => words.test(text))
}

/** Every row of every table; a code that readers meet in several places has several. */
export const errorRows: readonly ErrorRow[] = (await errorGroups()).flatMap(({ tables }) =>
  tables.flatMap(Object.values<ErrorRow>)
)

/** Statuses with which each code is answered. */
export const statuses: ReadonlyMap<string, readonly number[]> = new Map(
  errorRows.map(({ code }) => {
    const found = errorRows.filter((row) => row.code === code)
    const all = found.flatMap(({ status, otherStatuses = [] }) => [
      ...(status === undefined ? [] : [status]),
      ...otherStatuses
    ])
    return [code, [...new Set(all)].sort()]
  })
)
