import { TESTS_FIELD } from '../../../control/policy-tests.js'
import { isObject, type Json } from '../../../lib/json.js'
import {
  failoverBackend,
  httpResponseBackend,
  tunnelGroupBackend,
  weightedBackend
} from '../../../resources/backends.js'
import { certificateAuthority, tlsCertificate } from '../../../resources/certificates.js'
import { httpsEdge, httpsEdgeRoute, PASSTHROUGH, tcpEdge } from '../../../resources/edges.js'
import { fileBackend } from '../../../resources/file-backend.js'
import { ipPolicy, ipPolicyRule, ipRestriction } from '../../../resources/ip-policies.js'
import type { Resource } from '../../../resources/resource.js'
import { staticBackend } from '../../../resources/static-backend.js'
import { vault, vaultSecret } from '../../../resources/vaults.js'
import type { ResourceRecord } from '../../../schema/field.js'
import { requestForm } from '../../transfer/export.js'
import {
  type Adoption,
  type Data,
  endsWithSlash,
  type Found,
  hostOf,
  isUsual,
  type LeftOut,
  type NeededSecret,
  type OnHttp,
  setAt,
  slug,
  switchedOn,
  withNames
} from './adoption-form.js'
import { declaredId } from './declaration.js'
import {
  AUTHORITY,
  BACKEND,
  CERTIFICATE,
  EDGE,
  IP_POLICY,
  IP_RESTRICTION,
  RESPONSE,
  ROUTE,
  TCP_EDGE
} from './fields.js'
import { ABOUT, type Fields, type MapForm } from './form.js'
import { serverUrl } from './server-url.js'
import type { RemovedRecord } from './site-request.js'

/** Writes records of the API as a site file. */
export class Adopter {
  readonly left: LeftOut[] = []
  readonly #found: ReadonlyMap<string, readonly Found[]>
  readonly #edgesOnHttp: OnHttp
  readonly #clientFiles = new Map<string, Data>()
  readonly #files: { name: string; text: string }[] = []
  readonly #secrets: NeededSecret[] = []
  readonly #taken: RemovedRecord[] = []
  /** Names of the file by the ids of records. */
  readonly #names = new Map<string, string>()
  readonly #used = new Set<string>()

  constructor(found: ReadonlyMap<string, readonly Found[]>, edgesOnHttp: OnHttp) {
    this.#found = found
    this.#edgesOnHttp = edgesOnHttp
  }

  leave({ name: resource }: Pick<Resource, 'name'>, id: string, why: string): void {
    this.left.push({ resource, id, why })
  }

  adopt(): Omit<Adoption, 'left'> {
    const site: Data = {}
    const section = (key: string, data: Json) => {
      if (Object.keys(data as object).length > 0) site[key] = data
    }
    section('vaults', this.#vaults())
    section('ip_policies', this.#ipPolicies())
    section('ip_restrictions', this.#ipRestrictions())
    section('certificate_authorities', this.#authorities())
    section('certificates', this.#certificates())
    const backends = this.#backends()
    site.sites = this.#sites()
    section('tcp', this.#tcp())
    section('backends', backends)
    return { site, files: this.#files, secrets: this.#secrets, records: this.#taken }
  }

  #all({ name }: Resource): readonly Found[] {
    return this.#found.get(name) ?? []
  }

  #take({ record, revision }: Found): void {
    this.#taken.push({ resource: record.kind, id: record.id, revision })
  }

  /** Returns a unique name for its kind: from the user's text, or the id. */
  #name(kind: string, { id }: ResourceRecord, ...wishes: unknown[]): string {
    const wish = wishes.map(slug).find((one) => one !== '') ?? slug(id)
    let name = wish
    for (let n = 2; this.#used.has(`${kind} ${name}`); n++) name = `${wish}-${n}`
    this.#used.add(`${kind} ${name}`)
    this.#names.set(id, name)
    return name
  }

  /** Returns the fields of a map that requests have too, without those that have their defaults. `place`: for the names of its files. */
  #given(known: Fields, resource: Resource, record: ResourceRecord, place = ''): Data {
    const { fields, secrets } = requestForm(resource, record)
    const data: Data = {}
    for (const [key, { request, fields: own }] of Object.entries(known)) {
      const field = resource.fields[key]
      if (request === undefined || field === undefined) continue
      const name = field.requestName(key)
      const value = hasSwitch(request) ? this.#withFiles(record, switchedOn(fields[name])) : fields[name]
      if (value === undefined || isUsual(value, field.initial)) continue
      if (own !== undefined && Object.keys(value as object).length === 0) continue
      for (const path of secrets.filter((one) => one.startsWith(`${key}.`))) {
        const file = this.#secretFile(`secrets/${slug(place)}-${slug(path)}`, record, path)
        setAt(value as Data, path.split('.').slice(1), file)
      }
      Object.assign(data, withNames({ [name]: value }, this.#names))
    }
    return data
  }

  /** Reports data that the section cannot express. */
  #lost(record: ResourceRecord): void {
    const names = ABOUT.filter((key) => (record.body[key] ?? '') !== '')
    if (names.length > 0)
      this.leave({ name: record.kind }, record.id, `is in the file without its ${names.join(' and ')}`)
  }

  #secretFile(name: string, record: ResourceRecord, path: string): Data {
    this.#secrets.push({ file: name, resource: record.kind, id: record.id, path })
    return { file: name }
  }

  #vaults(): Data {
    const vaults: Data = {}
    for (const one of this.#all(vault)) {
      const { record } = one
      const usable = record.body.usable_by as readonly string[]
      if (usable.length > 0) {
        this.leave(vault, record.id, 'stays in the API with its secrets: a site file does not say who may use a vault')
        continue
      }
      const secrets: Data = {}
      for (const inner of this.#all(vaultSecret)) {
        if (inner.record.body.vault !== record.id) continue
        const name = String(inner.record.body.name)
        secrets[name] = this.#secretFile(`secrets/${slug(record.body.name)}/${slug(name)}`, inner.record, 'value')
        this.#lost(inner.record)
        this.#take(inner)
      }
      vaults[String(record.body.name)] = secrets
      this.#lost(record)
      this.#take(one)
    }
    return vaults
  }

  #ipPolicies(): Data {
    const policies: Data = {}
    for (const one of this.#all(ipPolicy)) {
      const { record } = one
      const rules: { allow: Json[]; deny: Json[] } = { allow: [], deny: [] }
      for (const rule of this.#all(ipPolicyRule)) {
        if (rule.record.body.ip_policy !== record.id) continue
        rules[rule.record.body.action as 'allow' | 'deny'].push(rule.record.body.cidr as Json)
        this.#lost(rule.record)
        this.#take(rule)
      }
      const given = Object.fromEntries(Object.entries(rules).filter(([, list]) => list.length > 0))
      const about = this.#given(IP_POLICY.fields, ipPolicy, record)
      policies[this.#name('ip_policy', record, record.body.description)] = { ...about, ...given }
      this.#take(one)
    }
    return policies
  }

  #ipRestrictions(): Data {
    const restrictions: Data = {}
    for (const one of this.#all(ipRestriction)) {
      const { type, ip_policies: ids } = one.record.body
      if ((ids as readonly string[]).some((id) => !this.#names.has(id))) {
        this.leave(ipRestriction, one.record.id, 'stays in the API: it names an IP policy that is gone')
        continue
      }
      restrictions[String(type)] = this.#given(IP_RESTRICTION.fields, ipRestriction, one.record)
      this.#take(one)
    }
    return restrictions
  }

  #authorities(): Data {
    const authorities: Data = {}
    for (const one of this.#all(certificateAuthority)) {
      const { record } = one
      const name = this.#name('authority', record, record.body.description, record.body.subject_common_name)
      const file = `authorities/${name}.pem`
      this.#files.push({ name: file, text: String(record.body.ca_pem) })
      const list = typeof record.body.crl_pem === 'string' ? record.body.crl_pem : ''
      if (list !== '') this.#files.push({ name: `authorities/${name}.crl.pem`, text: list })
      const given = this.#given(AUTHORITY.fields, certificateAuthority, record)
      const about = { ...(list === '' ? {} : { crl: `authorities/${name}.crl.pem` }), ...given }
      authorities[name] = Object.keys(about).length === 0 ? file : { ca: file, ...about }
      this.#take(one)
    }
    return authorities
  }

  #certificates(): Json[] {
    const certificates: Json[] = []
    for (const one of this.#all(tlsCertificate)) {
      const { record } = one
      if (record.body.issued_at !== null && record.body.issued_at !== undefined) {
        this.leave(tlsCertificate, record.id, 'stays in the API, which renews it for its reserved domain')
        continue
      }
      const { subject_common_name: common, subject_alternative_names: other } = record.body
      const name = this.#name('certificate', record, common, (other as { dns_names?: unknown[] }).dns_names?.[0])
      const certificate = `tls/${name}.pem`
      this.#files.push({ name: certificate, text: String(record.body.certificate_pem) })
      const key = `tls/${name}.key`
      this.#secretFile(key, record, 'private_key_pem')
      certificates.push({ certificate, key, ...this.#given(CERTIFICATE.fields, tlsCertificate, record) })
      this.#clientFiles.set(record.id, { certificate, key })
      this.#take(one)
    }
    return certificates
  }

  /** Settings that name a certificate by its id name its files instead. */
  #withFiles({ id: backend }: ResourceRecord, settings: Data | undefined): Data | undefined {
    const { client_certificate_id: id, ...rest } = settings ?? {}
    if (settings === undefined || id === undefined) return settings
    const files = this.#clientFiles.get(String(id))
    if (files !== undefined) return { ...rest, client_certificate: files }
    this.leave(staticBackend, backend, 'is in the file without its client certificate, which the API renews')
    return rest
  }

  #backends(): Data {
    const backends: Data = {}
    const named = (id: string) => this.#names.get(id) ?? id
    const add = (one: Found, resource: Resource, data: Data, ...wishes: unknown[]) => {
      const name = this.#name('backend', one.record, one.record.body.description, ...wishes)
      backends[name] = { ...data, ...this.#given(BACKEND.fields, resource, one.record) }
      this.#take(one)
    }
    for (const one of this.#all(staticBackend)) {
      add(one, staticBackend, { servers: [serverUrl(one.record.body)] }, one.record.body.address)
    }
    for (const one of this.#all(httpResponseBackend)) {
      add(one, httpResponseBackend, { response: this.#given(RESPONSE.fields, httpResponseBackend, one.record) })
    }
    for (const one of this.#all(fileBackend)) {
      const { folder } = one.record.body
      add(one, fileBackend, { files: folder as Json }, folder)
    }
    for (const one of this.#all(tunnelGroupBackend)) add(one, tunnelGroupBackend, {})
    for (const one of this.#all(weightedBackend)) {
      const shares = Object.entries(one.record.body.backends as Data).map(
        ([id, weight]) => [named(id), weight] as const
      )
      add(one, weightedBackend, { backends: Object.fromEntries(shares) })
    }
    for (const one of this.#all(failoverBackend)) {
      const backends = (one.record.body.backends as readonly string[]).map(named)
      add(one, failoverBackend, { balance: 'failover', backends })
    }
    return backends
  }

  #sites(): Data {
    const sites: Data = {}
    for (const one of this.#all(httpsEdge)) {
      const { record } = one
      const routes = this.#all(httpsEdgeRoute).filter(({ record: route }) => route.body.edge_id === record.id)
      const refusal = this.#siteRefusal(record, routes)
      if (refusal !== undefined) {
        this.leave(httpsEdge, record.id, `stays in the API with its routes: ${refusal}`)
        continue
      }
      const [first = '', ...hosts] = (record.body.hostports as readonly string[]).map(hostOf)
      sites[first] = {
        ...(hosts.length === 0 ? {} : { hosts }),
        ...this.#edge(record),
        routes: this.#routes(first, routes)
      }
      this.#take(one)
    }
    for (const one of this.#all(tcpEdge).filter(isPassed)) {
      const [first, ...hosts] = (one.record.body.hostports as readonly string[]).map(hostOf)
      if (first === undefined || !isLed(one)) this.leave(tcpEdge, one.record.id, WITHOUT_USE)
      else {
        const about = { ...(hosts.length === 0 ? {} : { hosts }), tls: PASSTHROUGH }
        sites[first] = { ...about, ...this.#carrier(tcpEdge, one.record, TCP_EDGE, first) }
        this.#take(one)
      }
    }
    return sites
  }

  #siteRefusal({ body }: ResourceRecord, routes: readonly Found[]): string | undefined {
    if ((body.hostports as readonly string[]).length === 0) return 'it has no host'
    if (this.#onHttp(body.on_http) === 'refuse') return 'a site file cannot refuse clients without TLS'
    const exact = routes.find(({ record: { body } }) => body.match_type === 'exact_path' && endsWithSlash(body.match))
    if (exact !== undefined) return `its route ${String(exact.record.body.match)} is exact and ends with a slash`
    const authorities = isObject(body.mutual_tls) ? (body.mutual_tls.certificate_authorities as readonly string[]) : []
    const missing = authorities.find((id) => !this.#names.has(id))
    return missing === undefined ? undefined : `it uses ${missing}, which stays there`
  }

  #onHttp(said: unknown): OnHttp {
    return said === 'serve' || said === 'redirect' || said === 'refuse' ? said : this.#edgesOnHttp
  }

  #edge(record: ResourceRecord): Data {
    const data: Data = this.#onHttp(record.body.on_http) === 'serve' ? { redirect: 'off' } : {}
    return { ...data, ...this.#given(EDGE, httpsEdge, record) }
  }

  #routes(host: string, routes: readonly Found[]): Data {
    const data: Data = {}
    for (const { record } of routes) {
      const path = String(record.body.match)
      const prefix = record.body.match_type !== 'exact_path'
      const key = prefix && !endsWithSlash(path) ? `${path}/` : path
      data[key] = this.#carrier(httpsEdgeRoute, record, ROUTE, `${host}${path}`)
    }
    return data
  }

  #tcp(): Data {
    const edges: Data = {}
    for (const one of this.#all(tcpEdge).filter((edge) => !isPassed(edge))) {
      const { record } = one
      const ports = record.body.hostports as readonly string[]
      const shared = tcpEdge.modules.some((name) => isObject(record.body[name]))
      const [first] = ports
      if (first === undefined || !isLed(one)) this.leave(tcpEdge, record.id, WITHOUT_USE)
      else if (ports.length > 1 && shared) {
        this.leave(tcpEdge, record.id, 'stays in the API: several addresses share one policy or module')
      } else {
        for (const port of ports) edges[port] = this.#carrier(tcpEdge, record, TCP_EDGE, port)
        this.#take(one)
      }
    }
    return edges
  }

  /** A route or TCP edge: backend, policy and modules. `place`: for the names of its files. */
  #carrier(resource: Resource, record: ResourceRecord, { fields }: MapForm, place: string): Data {
    const { backend, traffic_policy: policy } = record.body
    const data: Data = {}
    if (isObject(backend) && backend.enabled === true) data.backend = this.#names.get(String(backend.backend)) ?? ''
    if (isObject(policy) && policy.enabled === true) {
      data.policy = this.#policy(place, String(policy.value))
      const tests = String(record.body[TESTS_FIELD] ?? '')
      if (tests !== '') data[TESTS_FIELD] = this.#policy(place, tests, '.test')
    }
    const pages = switchedOn(record.body.error_pages as Json)?.pages as Data | undefined
    if (pages !== undefined) {
      data.error_pages = Object.fromEntries(Object.entries(pages).map(([status, body]) => [status, { body }]))
    }
    const off = resource.modules.filter((name) => name !== 'backend' && isOff(record.body[name]))
    if (off.length > 0) {
      this.leave(resource, record.id, `is in the file without ${off.join(', ')}, switched off there`)
    }
    return { ...data, ...this.#given(fields, resource, record, place) }
  }

  /** Replaces ids of IP policies in a policy, which are different in a file. */
  #policy(place: string, text: string, kind = ''): string {
    let written = text
    for (const { record } of this.#all(ipPolicy)) {
      const name = this.#names.get(record.id)
      if (name !== undefined) written = written.replaceAll(record.id, declaredId(ipPolicy, [name]))
    }
    const known = this.#files.find((one) => one.name.startsWith('policies/') && one.text === written)
    if (known !== undefined) return known.name
    let name = `policies/${slug(place)}${kind}.yaml`
    for (let n = 2; this.#files.some((one) => one.name === name); n++) name = `policies/${slug(place)}-${n}${kind}.yaml`
    this.#files.push({ name, text: written })
    return name
  }
}
/** Does a field have the member `enabled`? */
const hasSwitch = ({ properties = {} }: { readonly properties?: object }) => 'enabled' in properties
const isOff = (module: unknown) => isObject(module) && module.enabled !== true
const WITHOUT_USE = 'stays in the API: it has no address or no backend'
const isPassed = ({ record }: Found) => record.body.tls === PASSTHROUGH
const isLed = ({ record: { body } }: Found) => isObject(body.backend) && body.backend.enabled !== false
