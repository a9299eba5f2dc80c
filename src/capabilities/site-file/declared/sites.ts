import { takesStrictPaths } from '../../../flow/target.js'
import type { NodePath } from '../../../policy/problems.js'
import { child, dataOf, type MapEntry, nameOf, type TreeNode } from '../../../policy/tree.js'
import { httpsEdge, httpsEdgeRoute, PREFIX_STAR } from '../../../resources/edges.js'
import { fieldErrors } from '../../../schema/errors.js'
import { refusalOfMatch } from '../../../schema/formats.js'
import { readCertificate } from './access.js'
import { backendAlone, modulesBody, NO_FIELDS, policyFields, policyOf } from './carriers.js'
import { declaredId } from './declaration.js'
import type { CertificateChoice, CertificateHost } from './declared-part.js'
import { EDGE, ROUTE, ROUTE_MODULES, SITE, SITE_ROUTE_FIELDS } from './fields.js'
import { withFiles } from './files.js'
import { inFileWords, RENAMED } from './form.js'
import { locator } from './locator.js'
import { policyOfFields } from './route-fields.js'
import type { PolicyCarrier } from './site-input.js'
import { lacks } from './synonyms.js'
import { placeOfHost, readHosts, readPassedSite, splitLast } from './tcp-edges.js'
import type { Reader } from './values.js'

/** Policies of a site beside those that its routes name. */
export interface SitePolicy {
  readonly edge: string
  /** Policy that every route of the site runs before its own; undefined if there is none. */
  readonly text: string | undefined
  /** Policies from fields of routes, by the ids of the routes; they run after the route's own. */
  readonly routes: ReadonlyMap<string, string>
}

/** Reads `sites`; returns the policies of whole sites. Hosts that may need a certificate are added to `hosts`. */
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

/** Reads one site; returns the policy of the whole site. */
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
  readonly #fieldPolicies = new Map<string, string>()
  #siteHeaders: MapEntry | undefined
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
    const own = short ?? declaration.fields(value, this.#path, SITE)
    const fields = withFiles(declaration, own, this.#path)
    if (fields.has('tls')) {
      await readPassedSite(this.#reader, this.#entry, fields, this.#hosts)
      return undefined
    }
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
    if (!policed && this.#fieldPolicies.size === 0) return undefined
    return { edge: this.#edge, text, routes: this.#fieldPolicies }
  }

  async #edgeRecord(fields: ReadonlyMap<string, MapEntry>): Promise<void> {
    const { declaration, values } = this.#reader
    const { key, keySpan, value } = this.#entry
    const named = readHosts(declaration, this.#entry, fields.get('hosts'))
    const on_http = this.#redirects(fields.get('redirect')) ? 'redirect' : 'serve'
    const body = { ...(await values.fields(fields, this.#path, EDGE)), hostports: named.hostports, on_http }
    const inside = locator(value, this.#path, keySpan, RENAMED)
    const choice = await this.#certificate(fields.get('certificate'))
    const edge = await declaration.add(httpsEdge, {
      label: this.#label,
      name: [key],
      body,
      at: { path: this.#path, span: keySpan },
      locate: (field) => placeOfHost(field, named) ?? inside(field),
      word: (message) => inFileWords(message).replace(/^hostports /, `the host "${key}" `)
    })
    const hostports = (edge?.body.hostports ?? []) as readonly string[]
    for (const [index, hostport] of hostports.entries())
      this.#hosts.push({ ...splitLast(hostport), choice, at: named.at(index) })
  }

  /** Reads `managed`, `none`, or the files of a certificate, which is added to the list of all. */
  async #certificate(given: MapEntry | undefined): Promise<CertificateChoice> {
    if (given === undefined) return 'listed'
    const { declaration } = this.#reader
    const path = [...this.#path, 'certificate']
    if (given.value.kind === 'map') {
      await readCertificate(this.#reader, given.value, path)
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
    this.#siteHeaders = fields.get('headers')
    const [routes, backend] = [fields.get('routes'), fields.get('backend')]
    const usual = new Map([...fields].filter(([name]) => name in SITE_ROUTE_FIELDS || name in ROUTE_MODULES))
    if (backend !== undefined) await this.#route('/', new Map([...usual, ['backend', backend]]), backend, this.#path)
    if (routes === undefined) {
      if (backend !== undefined) return
      if (policed) await this.#route('/', usual, this.#entry, this.#path)
      else if (lacks(this.#entry.value, SITE)) {
        const at = { path: this.#path, span: this.#entry.keySpan }
        declaration.error(at, fieldErrors.FIELD_REQUIRED, 'a site needs a backend, routes, or a policy that answers')
      }
      return
    }
    const path = [...this.#path, 'routes']
    for (const entry of declaration.entries(routes.value, path, 'routes')) {
      const within = [...path, entry.key]
      const given = backendAlone(entry) ?? declaration.fields(entry.value, within, ROUTE)
      const known = withFiles(declaration, given, within)
      await this.#route(entry.key, new Map([...usual, ...known]), entry, within)
    }
  }

  async #route(match: string, fields: ReadonlyMap<string, MapEntry>, entry: MapEntry, path: NodePath): Promise<void> {
    const name = [this.#entry.key, match]
    const id = declaredId(httpsEdgeRoute, name)
    const { declaration } = this.#reader
    const body = await modulesBody(this.#reader, ROUTE, fields, path)
    const isRoute = path.length > 2
    const own = await policyOf(declaration, isRoute ? fields : NO_FIELDS, path, this.#carrier, {
      id,
      place: isRoute ? entry : undefined
    })
    const ofFields = await policyOfFields(declaration, {
      match,
      fields,
      siteHeaders: this.#siteHeaders,
      path,
      carrier: this.#carrier
    })
    if (ofFields !== undefined) this.#fieldPolicies.set(id, ofFields)
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
