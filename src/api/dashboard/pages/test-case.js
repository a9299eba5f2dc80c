/** Tests of policies that are made of exchanges, in the form that `sluice test` reads. */

import { call } from './api.js'
import { pairsOf, REDACTED } from './exchange-text.js'
import { decidingRule, ownersOf } from './explanation.js'

/** Requests that are tried at most to find out how many come before one that is decided like the exchange. */
const MOST_TRIED = 1_000
/** Fields that a transport makes. */
const MADE = new Set(['content-length', 'transfer-encoding', 'connection', 'keep-alive', 'host'])

/**
 * The decision in a few words, as `sluice log` shows it.
 * @param {any} decision
 */
export function decidedOf({ outcome, status, code, by }) {
  if (outcome === 'closed') return by === null ? 'closed' : `closed ${by.action}`
  if (by !== null) return `${status} ${by.action}`
  return outcome === 'forwarded' ? 'forwarded' : `${status} ${code ?? 'answered'}`
}

/**
 * Why no test of a policy can be made of an exchange; undefined: one can.
 * @param {any} exchange
 * @returns {string | undefined}
 */
export function untestable({ decision, url }) {
  if (!URL.canParse(url)) return 'Its URL is not known.'
  if (decision.outcome !== 'forwarded' && decision.by === null) return 'No rule of a policy decided it.'
  return undefined
}

/**
 * A request as `POST /explain` takes it, without what is not known of it.
 * @param {any} exchange
 */
export function imagined({ method, url, client_ip: client, http_version: version, request }) {
  const { headers, body } = request
  return {
    url: url.split(REDACTED).join('redacted'),
    method,
    client_ip: client,
    http_version: version,
    headers: headersOf(headers),
    ...(body?.text === undefined || !body.whole ? {} : { body: body.text })
  }
}

/** @param {readonly string[]} fields */
function headersOf(fields) {
  /** @type {Record<string, string | string[]>} A field may be called `__proto__`. */
  const headers = Object.create(null)
  for (const [name, value] of pairsOf(fields)) {
    const small = name.toLowerCase()
    if (MADE.has(small) || name.startsWith(':') || value.includes(REDACTED)) continue
    const known = headers[small]
    headers[small] = known === undefined ? value : [...(Array.isArray(known) ? known : [known]), value]
  }
  return headers
}

/**
 * How many such requests come first, with nothing counted, until one is decided as the exchange was; undefined: none of the first
 * thousand is.
 * @param {any} exchange
 * @returns {Promise<number | undefined>}
 */
export async function requestsBefore(exchange) {
  const wanted = decidedOf(exchange.decision)
  const body = { ...imagined(exchange), at: exchange.at, counters: 'empty' }
  for (let repeat = 1; ; repeat = Math.min(repeat * 4, MOST_TRIED)) {
    const { explanations } = await call('POST', '/explain', { ...body, repeat })
    const at = explanations.findIndex((/** @type {any} */ one) => decidedOf(one.decision) === wanted)
    if (at !== -1) return at
    if (repeat === MOST_TRIED) return undefined
  }
}

/**
 * An exchange as a case of a test, in YAML. `before`: how many such requests come first.
 * @param {any} exchange
 * @param {number} before
 * @param {string} name
 */
export function caseOf(exchange, before, name) {
  const { decision, at, upstream, tries = [] } = exchange
  const { status, by } = decision
  const request = requestOf(exchange)
  const expect = [
    `decided: ${quoted(decidedOf(decision))}`,
    `status: ${status}`,
    ...(by === null ? [] : [`rule: ${quoted(by.rule)}`, `action: ${quoted(by.action)}`])
  ]
  const answered = upstream === null ? undefined : (tries.at(-1)?.status ?? status)
  const stub = answered === undefined || answered < 200 ? [] : [`upstream: { status: ${answered} }`]
  const step = [...request, ...stub, `expect: { ${expect.join(', ')} }`]
  const lines = [`- name: ${quoted(name)}`, `  now: ${quoted(at)}`]
  const secret = pairsOf(exchange.request.headers).filter(([, value]) => value.includes(REDACTED))
  if (secret.length > 0)
    lines.push(`  # Secret, and so not here: ${secret.map(([field]) => field.replace(/[^\w-]/g, '')).join(', ')}`)
  if (before === 0) return [...lines, ...step.map((line) => `  ${line}`)].join('\n')
  return [...lines, '  steps:', ...listed([...request, `repeat: ${before}`]), ...listed(step)].join('\n')
}

/**
 * Lines of a map as an entry of the list of steps.
 * @param {readonly string[]} lines
 */
function listed(lines) {
  return lines.map((line, at) => `    ${at === 0 ? '- ' : '  '}${line}`)
}

/**
 * The request of a case, in lines.
 * @param {any} exchange
 */
function requestOf(exchange) {
  const { method, url, client_ip: client, http_version: version, headers, body } = imagined(exchange)
  const lines = ['request:', `  url: ${quoted(url)}`, `  client_ip: ${quoted(client)}`]
  if (method !== 'GET') lines.push(`  method: ${quoted(method)}`)
  if (version !== '1.1') lines.push(`  http_version: ${quoted(version)}`)
  const fields = Object.entries(headers)
  if (fields.length > 0) lines.push('  headers:')
  for (const [name, value] of fields)
    lines.push(`    ${quoted(name)}: ${Array.isArray(value) ? `[${value.map(quoted).join(', ')}]` : quoted(value)}`)
  if (body !== undefined) lines.push(`  body: ${quoted(body)}`)
  return lines
}

/**
 * A text in double quotes, which YAML reads as JSON does.
 * @param {string} text
 */
function quoted(text) {
  return JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`
  )
}

/**
 * The secrets of vaults that a policy reads, as its tests name them.
 * @param {string} policy
 * @returns {string[]}
 */
function secretsOf(policy) {
  /** @type {Map<string, Set<string>>} */
  const vaults = new Map()
  for (const [, vault = '', name = ''] of policy.matchAll(
    /secrets\.get\(\s*['"]([^'"\\]+)['"]\s*,\s*['"]([^'"\\]+)['"]/g
  ))
    vaults.set(vault, (vaults.get(vault) ?? new Set()).add(name))
  if (vaults.size === 0) return []
  const lines = [...vaults].map(
    ([vault, names]) => `  ${quoted(vault)}: { ${[...names].map((name) => `${quoted(name)}: for-tests`).join(', ')} }`
  )
  return ['secrets:', ...lines]
}

/**
 * The IP policies that a policy names, with their networks as they are now, as its tests have them.
 * @param {string} policy
 * @returns {Promise<string[]>}
 */
async function ipPoliciesOf(policy) {
  const ids = [...new Set(policy.match(/\bipp_\w+/g) ?? [])]
  if (ids.length === 0) return []
  /** @type {any[]} */
  const rules = []
  for (let before = ''; ; ) {
    const page = await call('GET', `/ip_policy_rules?limit=100${before}`)
    rules.push(...page.ip_policy_rules)
    if (page.next_page_uri === null) break
    before = `&before_id=${encodeURIComponent(rules.at(-1).id)}`
  }
  const networks = (/** @type {string} */ id, /** @type {string} */ action) =>
    rules.filter((one) => one.ip_policy.id === id && one.action === action).map(({ cidr }) => quoted(cidr))
  const lines = ids.map(
    (id) => `  ${id}: { allow: [${networks(id, 'allow').join(', ')}], deny: [${networks(id, 'deny').join(', ')}] }`
  )
  return ['ip_policies:', ...lines]
}

/**
 * A document of tests with one case.
 * @param {string} oneCase
 * @param {string} [policy] Its text, for the secrets that it reads and the IP policies that it names.
 */
export async function documentOf(oneCase, policy = '') {
  const lines = [...secretsOf(policy), ...(await ipPoliciesOf(policy)), 'cases:', indented(oneCase, 2)]
  return `${lines.join('\n')}\n`
}

/**
 * A document of tests with one case more, after its others; undefined: it is written in a form that is not extended here.
 * @param {string} document
 * @param {string} oneCase
 * @returns {string | undefined}
 */
export function withCase(document, oneCase) {
  const lines = document.replace(/\s+$/, '').split('\n')
  const head = lines.findIndex((line) => /^cases:\s*(?:#.*)?$/.test(line))
  if (head === -1) {
    // Recorded exchanges alone, say; not what is written in one line, or as JSON.
    const isOpen = lines.every((line) => !/^(?:cases\b|["'{[]|---|\.\.\.)/.test(line))
    return isOpen ? `${lines.join('\n')}\ncases:\n${indented(oneCase, 2)}\n` : undefined
  }
  const first = lines.findIndex((line, at) => at > head && /\S/.test(line) && !/^\s*#/.test(line))
  const indent = first === -1 ? -1 : (lines[first] ?? '').search(/-\s/)
  if (indent === -1 || (lines[first] ?? '').slice(0, indent).trim() !== '') return undefined
  let end = first + 1
  for (let at = end; at < lines.length; at++) {
    const line = lines[at] ?? ''
    const own = line.search(/\S/)
    if (own === -1 || line[own] === '#') continue
    if (own < indent || (own === indent && !/^-(?:\s|$)/.test(line.slice(own)))) break
    end = at + 1
  }
  return `${[...lines.slice(0, end), indented(oneCase, indent), ...lines.slice(end)].join('\n')}\n`
}

/**
 * @param {string} text
 * @param {number} by
 */
function indented(text, by) {
  return text
    .split('\n')
    .map((line) => `${' '.repeat(by)}${line}`)
    .join('\n')
}

/**
 * The owner of the policy that a test is for: that of the rule that decided, else that of the route.
 * @param {any} exchange
 * @returns {string | undefined}
 */
export function testedOwner({ explanation, route }) {
  if (explanation === null) return route ?? undefined
  const deciding = decidingRule(explanation)
  if (deciding !== undefined) return deciding.owner
  const owners = ownersOf(explanation)
  return owners.includes(route) ? route : (owners.at(-1) ?? route ?? undefined)
}
