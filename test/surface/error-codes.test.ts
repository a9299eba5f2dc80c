import t from 'tap'
import { apiStatusOf } from './product.js'
import { sameAsRecorded } from './recorded.js'
import * as source from './source.js'

/**
 * Codes of refusals, failures and problems, with the HTTP statuses that the source gives them. Recorded again with
 * SLUICE_RECORD=1 (see `recorded.ts`).
 *
 * Every text in capitals counts as a code unless it is one of the words below, so that a code is found whatever table or
 * call it stands in. A status is found beside its code: in one object, in one call, or under its name in a table.
 */

const CODE = /^[A-Z][A-Z0-9]{2,}(_[A-Z0-9]+)*$/
/** Words of the system, of libraries and of protocols: they come from elsewhere and are compared with. */
const FOREIGN = [
  /^E[A-Z]{3,12}$|^EAI_AGAIN$/,
  /^(ERR|FST|HPE|SQLITE|OAUTH|SLUICE|TLS_(AES|CHACHA20)|UNABLE|SELF)_/,
  /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE)$/,
  /^(RS|PS|ES|HS|S)\d{3}$|^(RSA|OKP|ECDSA|PLAIN|NFKC|UTC|TRUE|FALSE)$/,
  /^(SIG[A-Z]+|TCP[46]|CNAME|CAA|API|OIDC|CERTIFICATE|TAG_RESOLVE_FAILED|UNEXPECTED_TOKEN|RESOURCE_EXHAUSTION)$/
]

const statuses = new Map<string, Set<number>>()

function found(code: string | undefined, status?: number): void {
  if (code === undefined || !isCode(code)) return
  const known = statuses.get(code) ?? new Set()
  statuses.set(code, known)
  if (status !== undefined && status >= 400 && status <= 599) known.add(status)
}

function isCode(text: string): boolean {
  return CODE.test(text) && !FOREIGN.some((words) => words.test(text))
}

await source.everyNode((node) => {
  found(source.textOf(node))
  if (source.isObject(node)) {
    const status = source.numberOf(source.member(node, 'status'))
    for (const name of ['code', 'word']) found(source.textOf(source.member(node, name)), status)
    const { parent } = node
    if (status !== undefined) found(source.propertyName(parent), status)
  }
  const call = source.called(node)
  for (const [index, value] of (call?.args ?? []).entries()) {
    const status = source.numberOf(value)
    if (status !== undefined) found(source.textOf(call?.args[index + 1]), status)
  }
  if (source.isArray(node) && node.elements.length === 2) {
    const [code, status] = node.elements
    found(source.textOf(code), source.numberOf(status))
  }
})

t.test('codes and the statuses that stand beside them', async (t) => {
  t.ok(statuses.size > 200, 'the source is read')
  const lines = [...statuses].map(([code, of]) => `${code} ${[...of].sort().join(' ')}`.trim()).sort()
  await sameAsRecorded(t, 'error-codes', lines)
})

t.test('the status that the API gives to each code of a refusal', async (t) => {
  const lines = [...statuses.keys()].sort().map((code) => `${code} ${apiStatusOf(code)}`)
  await sameAsRecorded(t, 'api-error-statuses', lines)
})
