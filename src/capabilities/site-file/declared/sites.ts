import { TESTS_FIELD } from '../../../control/policy-tests.js'
import { takesStrictPaths } from '../../../flow/target.js'
import type { NodePath } from '../../../policy/problems.js'
import { child, dataOf, isNull, type MapEntry, nameOf, type TreeNode } from '../../../policy/tree.js'
import { httpsEdge, httpsEdgeRoute, PREFIX_STAR, tcpEdge } from '../../../resources/edges.js'
import type { Resource } from '../../../resources/resource.js'
import { fieldErrors } from '../../../schema/errors.js'
import { refusalOfMatch } from '../../../schema/formats.js'
import { readCertificate } from './access.js'
import { backendAt } from './backends.js'
import { type Declaration, declaredId } from './declaration.js'
import type { CertificateChoice, CertificateHost } from './declared-part.js'
import { locator } from './locator.js'
import type { Names } from './names.js'
import { siteErrors } from './site-codes.js'
import type { PolicyCarrier } from './site-input.js'
import { lacks } from './synonyms.js'
import { inFileWords, RENAMED, type Values } from './values.js'

const OWN_MODULES = ['backend', 'traffic_policy']
const modulesOf = ({ modules }: Resource) => modules.filter((name) => !OWN_MODULES.includes(name))

const ABOUT = ['description', 'metadata']
/** Modules of routes under their names in the API; of a site they hold for every route that does not say otherwise. */
export const ROUTE_MODULES = modulesOf(httpsEdgeRoute)
export const TCP_MODULES = modulesOf(tcpEdge)
const ROUTE_KEYS = ['backend', 'policy', TESTS_FIELD, ...ROUTE_MODULES, ...ABOUT]
const EDGE_KEYS = ['mutual_tls', 'tls_termination', 'path_form', 'hsts', ...ABOUT]
export const SITE_KEYS = [
  'hosts',
  'policy',
  TESTS_FIELD,
  'backend',
  'routes',
  'redirect',
  'certificate',
  ...EDGE_KEYS,
  ...ROUTE_MODULES
]
const TCP_KEYS = ['backend', 'policy', TESTS_FIELD, ...TCP_MODULES, ...ABOUT]

/** A policy that every route of a site runs before its own. */
export interface SitePolicy {
  readonly edge: string
  readonly text: string
}

/** What every carrier of traffic is read with. */
interface Reader {
  readonly declaration: Declaration
  readonly names: Names
  readonly values: Values
}

/** Reads `sites`; answers with the policies of whole sites. `hosts` gets those that may need a certificate. */
export async function readSites(
  reader: Reader,
  { key, value }: MapEntry,
  hosts: CertificateHost[]
): Promise<SitePolicy[]> {
  const policies: SitePolicy[] = []
  for (const entry of reader.declaration.entries(value, [key], key)) {
    const { slices } = reader.declaration
    if (slices.due) await slices.rest()
    const policy = await readSite(reader, entry, hosts)
    if (policy !== undefined) policies.push(policy)
  }
  return policies
}

/** Reads one of the sites; answers with the policy of the whole site. */
export async function readSite(
  reader: Reader,
  entry: MapEntry,
  hosts: CertificateHost[]
): Promise<SitePolicy | undefined> {
  return await new SiteReader(reader, entry, hosts).read()
}

class SiteReader {
  readonly #reader: Reader
  readonly #entry: MapEntry
  readonly #path: NodePath
  readonly #label: string
  readonly #edge: string
  readonly #hosts: CertificateHost[]
  #carrier: PolicyCarrier = { layer: 'http', isStrict: true }

  constructor(reader: Reader, entry: MapEntry, hosts: CertificateHost[]) {
    this.#reader = reader
    this.#hosts = hosts
    this.#entry = entry
    this.#path = ['sites', entry.key]
    this.#label = `site ${entry.key}`
    this.#edge = declaredId(httpsEdge, [entry.key])
  }

  async read(): Promise<SitePolicy | undefined> {
    const { declaration } = this.#reader
    const { keySpan, value } = this.#entry
    if (value.kind === 'broken') return undefined
    const short = backendAlone(this.#entry)
    if (short === undefined && value.kind !== 'map') {
      const message = `a site is a backend, or a map such as { backend: web }, not ${nameOf(value)}`
      declaration.error({ path: this.#path, span: keySpan }, fieldErrors.FIELD_INVALID, message)
      return undefined
    }
    const fields = short ?? declaration.fields(value, this.#path, 'a site', SITE_KEYS)
    const form = fields.get('path_form')
    const isStrict = takesStrictPaths(form && dataOf(form.value), declaration.lenientPaths)
    this.#carrier = { layer: 'http', isStrict }
    await this.#edgeRecord(fields)
    const { text } = await policyOf(declaration, fields, this.#path, this.#carrier, {
      id: this.#edge,
      place: this.#entry
    })
    const policed = text !== undefined
    await this.#routes(fields, policed)
    return policed ? { edge: this.#edge, text } : undefined
  }

  async #edgeRecord(fields: ReadonlyMap<string, MapEntry>): Promise<void> {
    const { declaration, values } = this.#reader
    const { key, keySpan, value } = this.#entry
    const further = fields.get('hosts')
    const items = further === undefined ? [] : declaration.items(further.value, [...this.#path, 'hosts'], 'hosts')
    const hosts = [key, ...items.map((item) => String(dataOf(item)))]
    const body: Record<string, unknown> = { hostports: hosts.map(withPort) }
    for (const name of EDGE_KEYS) {
      const given = fields.get(name)
      if (given === undefined) continue
      body[name] = await values.of(given.value, [...this.#path, name], httpsEdge.fields[name as 'path_form']?.request)
    }
    body.on_http = this.#redirects(fields.get('redirect')) ? 'redirect' : 'serve'
    const inside = locator(value, this.#path, keySpan, RENAMED)
    const choice = await this.#certificate(fields.get('certificate'))
    const edge = await declaration.add(httpsEdge, {
      label: this.#label,
      name: [key],
      body,
      at: { path: this.#path, span: keySpan },
      locate: (field) => {
        const index = Number(/^hostports\[(\d+)\]/.exec(field)?.[1] ?? 0)
        const item = index === 0 ? undefined : items[index - 1]
        if (item !== undefined) return { path: [...this.#path, 'hosts', index - 1], span: item.span }
        return inside(field)
      },
      word: (message) => inFileWords(message).replace(/^hostports /, `the host "${key}" `)
    })
    const hostports = (edge?.body.hostports ?? []) as readonly string[]
    for (const [index, hostport] of hostports.entries()) {
      const item = index === 0 ? undefined : items[index - 1]
      const path = item === undefined ? this.#path : [...this.#path, 'hosts', index - 1]
      const colon = hostport.lastIndexOf(':')
      const [host, port] = [hostport.slice(0, colon), Number(hostport.slice(colon + 1))]
      this.#hosts.push({ host, port, choice, at: { path, span: item?.span ?? keySpan } })
    }
  }

  /** `managed` and `none`, or the files of a certificate, which then stands in the list of all. */
  async #certificate(given: MapEntry | undefined): Promise<CertificateChoice> {
    if (given === undefined) return 'listed'
    const { declaration, values } = this.#reader
    const path = [...this.#path, 'certificate']
    if (given.value.kind === 'map') {
      await readCertificate(declaration, values, given.value, path)
      return 'listed'
    }
    const word = dataOf(given.value)
    if (word === 'managed' || word === 'none') return word
    const message = 'certificate must be managed, none, or { certificate: FILE, key: FILE }'
    declaration.error({ path, span: given.value.span }, fieldErrors.FIELD_INVALID, message)
    return 'none'
  }

  /** Clients without TLS are sent to HTTPS, where there is a listener with TLS and a certificate, unless the site says `off`. */
  #redirects(given: MapEntry | undefined): boolean {
    const word = given?.value.kind === 'scalar' ? given.value.value : undefined
    if (given === undefined || word === 'on' || word === true) return true
    if (word !== 'off' && word !== false) {
      const at = { path: [...this.#path, 'redirect'], span: given.value.span }
      this.#reader.declaration.error(at, fieldErrors.FIELD_INVALID, 'redirect must be on or off')
    }
    return false
  }

  async #routes(fields: ReadonlyMap<string, MapEntry>, policed: boolean): Promise<void> {
    const { declaration } = this.#reader
    const [routes, backend] = [fields.get('routes'), fields.get('backend')]
    const usual = new Map(ROUTE_MODULES.flatMap((name) => (fields.has(name) ? [[name, fields.get(name)!]] : [])))
    if (backend !== undefined) await this.#route('/', new Map([...usual, ['backend', backend]]), backend, this.#path)
    if (routes === undefined) {
      if (backend !== undefined) return
      if (policed) await this.#route('/', usual, this.#entry, this.#path)
      else if (lacks(this.#entry.value, SITE_KEYS)) {
        const at = { path: this.#path, span: this.#entry.keySpan }
        declaration.error(at, fieldErrors.FIELD_REQUIRED, 'a site needs a backend, routes, or a policy that answers')
      }
      return
    }
    const path = [...this.#path, 'routes']
    for (const entry of declaration.entries(routes.value, path, 'routes')) {
      const within = [...path, entry.key]
      const known = backendAlone(entry) ?? declaration.fields(entry.value, within, 'a route', ROUTE_KEYS)
      await this.#route(entry.key, new Map([...usual, ...known]), entry, within)
    }
  }

  async #route(match: string, fields: ReadonlyMap<string, MapEntry>, entry: MapEntry, path: NodePath): Promise<void> {
    const name = [this.#entry.key, match]
    const id = declaredId(httpsEdgeRoute, name)
    const { declaration } = this.#reader
    const body = await modulesBody(this.#reader, httpsEdgeRoute, fields, path)
    const isRoute = path.length > 2
    const own = await policyOf(declaration, isRoute ? fields : NO_FIELDS, path, this.#carrier, {
      id,
      place: isRoute ? entry : undefined
    })
    const at = { path, span: entry.keySpan }
    const inside = locator(entry.value, path, entry.keySpan, RENAMED)
    const refusal = match.includes('${')
      ? 'has no variables: they stand in hosts, URLs and listeners alone'
      : this.#carrier.isStrict
        ? refusalOfMatch(match)
        : undefined
    if (refusal !== undefined) declaration.error(at, fieldErrors.FIELD_INVALID, `the path "${match}" ${refusal}`)
    await declaration.add(httpsEdgeRoute, {
      label: this.#label,
      name,
      body: {
        ...body,
        match,
        match_type: match.endsWith('/') || PREFIX_STAR.test(match) ? 'path_prefix' : 'exact_path',
        ...policyFields(own)
      },
      parents: { edge_id: this.#edge },
      at,
      locate: (field) => {
        const usual = fields.get(field.split('.')[0] as string)
        if (usual === undefined || child(mapOf(entry.value), usual.key) !== undefined) return inside(field)
        const rest = field.slice(usual.key.length + 1)
        return locator(usual.value, [...this.#path, usual.key], usual.keySpan, RENAMED)(rest)
      },
      word: (message) => inFileWords(message).replace(/^match /, `the path "${match}" `)
    })
  }
}

const NO_MAP = { kind: 'map', span: { start: 0, end: 0 }, entries: [] } as const
const mapOf = (node: TreeNode) => (node.kind === 'map' ? node : NO_MAP)

/** A host without a port is served as HTTPS is, on 443. */
function withPort(host: string): string {
  return /:\d+$/.test(host) ? host : `${host}:443`
}

/** The fields of a site, route or TCP edge that says its backend alone; undefined for one that is a map. */
function backendAlone(entry: MapEntry): ReadonlyMap<string, MapEntry> | undefined {
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

const NO_FIELDS: ReadonlyMap<string, MapEntry> = new Map()

/** As a request has them. */
function policyFields({ text, tests = '' }: PolicyTexts): Record<string, unknown> {
  return text === undefined
    ? {}
    : { traffic_policy: { value: text }, ...(tests === '' ? {} : { [TESTS_FIELD]: tests }) }
}

/**
 * The policy of a site, route or TCP edge, with its tests; without text for none and after a report. A place that has a policy while the process
 * runs does not lose it by silence. `id`: its owner's; `place`: the entry that carries it.
 */
async function policyOf(
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

/** The modules of a route or TCP edge, and its backend, as a request has them. */
async function modulesBody(
  { declaration, names, values }: Reader,
  { fields: declared, modules }: Resource,
  fields: ReadonlyMap<string, MapEntry>,
  path: NodePath
): Promise<Record<string, unknown>> {
  const body: Record<string, unknown> = {}
  for (const [key, entry] of fields) {
    const { value } = entry
    const within = [...path, key]
    if (key === 'backend') {
      const id = await backendAt(declaration, names, values, entry, within)
      if (id !== undefined) body.backend = { backend_id: id }
    } else if (ABOUT.includes(key)) body[key] = dataOf(value)
    else if (modules.includes(key)) {
      const on = value.kind === 'scalar' && (value.value === true || isNull(value))
      const off = value.kind === 'scalar' && value.value === false
      if (on) body[key] = {}
      else if (!off) body[key] = await values.of(value, within, declared[key]?.request)
    }
  }
  return body
}

/** Reads `tcp`: entries for TCP traffic by their address. */
export async function readTcp(reader: Reader, { key, value }: MapEntry): Promise<void> {
  const { declaration } = reader
  for (const entry of declaration.entries(value, [key], key)) {
    const path = [key, entry.key]
    const fields = backendAlone(entry) ?? declaration.fields(entry.value, path, 'a TCP edge', TCP_KEYS)
    const body = await modulesBody(reader, tcpEdge, fields, path)
    const id = declaredId(tcpEdge, [entry.key])
    const policy = await policyOf(declaration, fields, path, { layer: 'tcp', isStrict: false }, { id, place: entry })
    const at = { path, span: entry.keySpan }
    if (!fields.has('backend') && lacks(entry.value, TCP_KEYS)) {
      declaration.error(at, fieldErrors.FIELD_REQUIRED, 'a TCP edge needs a backend')
    }
    await declaration.add(tcpEdge, {
      label: `TCP edge ${entry.key}`,
      name: [entry.key],
      body: { ...body, hostports: [entry.key], ...policyFields(policy) },
      at,
      locate: locator(entry.value, path, entry.keySpan, RENAMED),
      word: (message) => inFileWords(message).replace(/^hostports /, `the address "${entry.key}" `)
    })
  }
}
