import { isObject } from '../../../lib/json.js'
import { quotedPattern } from '../../../lib/regex.js'
import { formatPath, type NodePath } from '../../../policy/problems.js'
import { dataOf, type MapEntry } from '../../../policy/tree.js'
import { PREFIX_STAR } from '../../../resources/edges.js'
import { fieldErrors } from '../../../schema/errors.js'
import type { Declaration } from './declaration.js'
import { HEADERS, REDIRECT, REWRITE, SITE_ROUTE_FIELDS } from './fields.js'
import type { MapForm } from './form.js'
import { type PolicyCarrier, problemsOn } from './site-input.js'

/** Header fields that one action takes. */
const MAX_HEADERS = 10

interface Action {
  readonly type: string
  readonly config: Readonly<Record<string, unknown>>
}

type Phase = 'on_http_request' | 'on_http_response'

/** Rules of one field. */
type FieldRules = readonly { readonly phase: Phase; readonly action: Action }[]

/** A route whose fields become a policy. */
export interface FieldsOfRoute {
  /** Path of the route as the site file has it. */
  readonly match: string
  /** Headers of the site, which the route's own override field by field. */
  readonly siteHeaders: MapEntry | undefined
  readonly fields: ReadonlyMap<string, MapEntry>
  readonly path: NodePath
  readonly carrier: PolicyCarrier
}

/** Returns the policy for the fields of a route; undefined if there is none, or after a report. */
export async function policyOfFields(declaration: Declaration, route: FieldsOfRoute): Promise<string | undefined> {
  const rules: { readonly phase: Phase; readonly action: Action; readonly entry: MapEntry }[] = []
  // A redirect precedes the fields that would change its request.
  for (const name of ['redirect', ...Object.keys(SITE_ROUTE_FIELDS)]) {
    const own = route.fields.get(name)
    const usual = name === 'headers' && route.siteHeaders !== own ? route.siteHeaders : undefined
    for (const entry of [usual, own]) {
      if (entry === undefined) continue
      const made = rulesOf(name, dataOf(entry.value), route.match)
      if (typeof made === 'string')
        declaration.error({ path: [...route.path, name], span: entry.value.span }, fieldErrors.FIELD_INVALID, made)
      else rules.push(...made.map((rule) => ({ ...rule, entry })))
    }
  }
  const [first] = rules
  if (first === undefined) return undefined
  const phases: Phase[] = ['on_http_request', 'on_http_response']
  const ofPhase = (phase: Phase) => rules.filter((rule) => rule.phase === phase)
  const text = JSON.stringify(
    Object.fromEntries(
      phases.map((phase) => [
        phase,
        ofPhase(phase).map(({ entry, action }) => ({ name: `${entry.key} of the site file`, actions: [action] }))
      ])
    )
  )
  for (const problem of await declaration.slices.run(problemsOn(route.carrier, text, declaration.input))) {
    if (problem.severity !== 'error') continue
    const [, phase = '', index = ''] = /^(on_http_\w+)\[(\d+)\]/.exec(problem.path) ?? []
    const entry = ofPhase(phase as Phase)[Number(index)]?.entry ?? first.entry
    const at = { path: [...route.path, entry.key], span: entry.value.span }
    declaration.error(at, fieldErrors.FIELD_INVALID, `${entry.key}: ${problem.message}`)
  }
  const name = `${formatPath(route.path)} ${[...new Set(rules.map(({ entry }) => entry.key))].join(', ')}`
  declaration.policies.set(name, { name, ...declaration.lineAt(first.entry.keySpan), text })
  return text
}

/** Returns the rules of a field, or an error message. */
function rulesOf(name: string, value: unknown, match: string): FieldRules | string {
  if (name === 'strip_prefix') return stripRules(value, match)
  if (name === 'redirect') return urlRules('redirect', value, REDIRECT)
  if (name === 'rewrite') return urlRules('url-rewrite', value, REWRITE)
  return headersRules(value)
}

/** Converts `strip_prefix`: `true` strips the path of the route, a text another prefix, `false` none. */
function stripRules(value: unknown, match: string): FieldRules | string {
  if (value === false) return []
  const prefix = (value === true ? match.replace(PREFIX_STAR, '/') : String(value)).replace(/\/+$/, '')
  if (value === true && prefix === '') return 'strip_prefix: true needs a route with a path, such as /api/'
  if (value !== true && (typeof value !== 'string' || !/^\/[^/]/.test(value) || /[?#$\s]/.test(value)))
    return 'strip_prefix is true, or a path such as /api'
  // The prefix ends where a segment ends; a query that follows it stays.
  const config = { from: `^${quotedPattern(prefix)}(?:/|(\\?.*)?$)`, to: '/$1' }
  return [{ phase: 'on_http_request', action: { type: 'url-rewrite', config } }]
}

/** Converts a redirect or rewrite; a text replaces the whole URL. */
function urlRules(type: 'redirect' | 'url-rewrite', value: unknown, form: MapForm): FieldRules | string {
  const config = typeof value === 'string' ? { to: value } : value
  const { what: field, fields } = form
  const keys = Object.keys(fields)
  if (!isObject(config)) return `${field} is a URL or path, or a map of ${keys.join(', ')}`
  const unknown = Object.keys(config).find((key) => !keys.includes(key))
  if (unknown !== undefined) return `${field} has no "${unknown}"; it takes ${keys.join(', ')}`
  return [{ phase: 'on_http_request', action: { type, config } }]
}

/** Converts header changes: each field replaces the existing one; null removes it. */
function headersRules(value: unknown): FieldRules | string {
  const about = 'headers is a map of request and response, each a map of names and values; null removes a field'
  if (!isObject(value)) return about
  const unknown = Object.keys(value).find((key) => !(key in HEADERS.fields))
  if (unknown !== undefined) return `${about}; there is no "${unknown}"`
  const rules: { phase: Phase; action: Action }[] = []
  for (const side of ['request', 'response'] as const) {
    const wanted = value[side] ?? {}
    if (!isObject(wanted)) return about
    const phase = side === 'request' ? 'on_http_request' : 'on_http_response'
    const given = Object.entries(wanted)
    const set = given.filter(([, text]) => text !== null)
    if (set.some(([, text]) => !['string', 'number', 'boolean'].includes(typeof text))) return about
    // Host cannot be removed: adding it replaces it.
    const gone = given.map(([name]) => name).filter((name) => side === 'response' || name.toLowerCase() !== 'host')
    for (const headers of pieces(gone)) rules.push({ phase, action: { type: 'remove-headers', config: { headers } } })
    for (const some of pieces(set)) {
      const headers = Object.fromEntries(some.map(([name, text]) => [name, String(text)]))
      rules.push({ phase, action: { type: 'add-headers', config: { headers } } })
    }
  }
  return rules
}

function pieces<T>(items: readonly T[]): T[][] {
  const found: T[][] = []
  for (let at = 0; at < items.length; at += MAX_HEADERS) found.push(items.slice(at, at + MAX_HEADERS))
  return found
}
