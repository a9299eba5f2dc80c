import { TESTS_FIELD } from '../../../control/policy-tests.js'
import type { NodePath } from '../../../policy/problems.js'
import type { MapEntry } from '../../../policy/tree.js'
import { backendAt } from './backends.js'
import type { Declaration } from './declaration.js'
import { errorPagesOf } from './error-pages.js'
import type { MapForm } from './form.js'
import { siteErrors } from './site-codes.js'
import type { PolicyCarrier } from './site-input.js'
import type { Reader } from './values.js'

/** A host without a port is served as HTTPS is, on 443. */
export function withPort(host: string): string {
  return /:\d+$/.test(host) ? host : `${host}:443`
}

/** The fields of a site, route or TCP edge that says its backend alone; undefined for one that is a map. */
export function backendAlone(entry: MapEntry): ReadonlyMap<string, MapEntry> | undefined {
  const { value } = entry
  const alone =
    value.kind === 'list' || (value.kind === 'scalar' && typeof value.value === 'string' && value.value !== '')
  return alone ? new Map([['backend', { ...entry, key: 'backend' }]]) : undefined
}

/** A policy with its tests. */
interface PolicyTexts {
  readonly text?: string
  readonly tests?: string | undefined
}

export const NO_FIELDS: ReadonlyMap<string, MapEntry> = new Map()

/** Returns the policy's fields of an API request. */
export function policyFields({ text, tests = '' }: PolicyTexts): Record<string, unknown> {
  return text === undefined
    ? {}
    : { traffic_policy: { value: text }, ...(tests === '' ? {} : { [TESTS_FIELD]: tests }) }
}

/**
 * The policy of a site, route or TCP edge, with its tests; without text for none and after a report. A place that has a policy while the process
 * runs does not lose it by silence. `place`: the entry that carries it.
 */
export async function policyOf(
  declaration: Declaration,
  fields: ReadonlyMap<string, MapEntry>,
  path: NodePath,
  carrier: PolicyCarrier,
  { id, place }: { readonly id: string; readonly place: MapEntry | undefined }
): Promise<PolicyTexts> {
  const key = path.join(' ')
  const [given, tested] = [fields.get('policy'), fields.get(TESTS_FIELD)]
  const isNone = given?.value.kind === 'scalar' && given.value.value === 'none'
  if (tested !== undefined && (given === undefined || isNone)) {
    const message = 'tests a policy, and there is none beside it'
    declaration.error({ path: [...path, TESTS_FIELD], span: tested.keySpan }, siteErrors.POLICY_MISSING, message)
  }
  if (given !== undefined) {
    const text = await declaration.policy(given.value, [...path, 'policy'], id, carrier)
    if (text === undefined) return {}
    declaration.policed.add(key)
    if (tested === undefined) return { text }
    return { text, tests: await declaration.policyTests(tested.value, [...path, TESTS_FIELD], { text, ...carrier }) }
  }
  if (place === undefined) return {}
  declaration.unpoliced.push(key)
  if (declaration.input.policed.has(key)) {
    const message = 'has a policy while the process runs and names none here; write "policy: none" to take it away'
    declaration.error({ path, span: place.keySpan }, siteErrors.POLICY_MISSING, message)
  }
  return {}
}

/** Reads the modules of a route or TCP edge and its backend, as in API requests. */
export async function modulesBody(
  reader: Reader,
  { fields: known }: MapForm,
  fields: ReadonlyMap<string, MapEntry>,
  path: NodePath
): Promise<Record<string, unknown>> {
  const body = await reader.values.fields(fields, path, known)
  const [backend, pages] = [fields.get('backend'), fields.get('error_pages')]
  if (backend !== undefined) {
    // The keys of files are in the site or route itself.
    const within = backend.key === 'files' ? path : [...path, 'backend']
    const id = await backendAt(reader, backend, within)
    if (id !== undefined) body.backend = { backend_id: id }
  }
  if (pages !== undefined)
    body.error_pages = await errorPagesOf(reader.declaration, pages.value, [...path, 'error_pages'])
  return body
}
