import { createHash, createHmac, randomBytes } from 'node:crypto'
import { formatAuthority, takesIpv6 } from '../../lib/host.js'
import type { UnitProblems } from '../../policy/problems.js'
import { policyErrors } from '../../policy/problems.js'
import { dataOf, type MapEntry, type TreeNode } from '../../policy/tree.js'
import { policyWarnings } from '../../policy/warnings/codes.js'
import { readTree } from '../../policy/yaml-tree.js'
import { tcpEdge } from '../../resources/edges.js'
import { splitHostport } from '../../resources/units.js'
import {
  type HostPort,
  type ListenerUnit,
  policyKey,
  type RouteUnit,
  type SecretValues,
  type Unit
} from '../../runtime/plan.js'
import { fieldErrors } from '../../schema/errors.js'
import { type FileListener, listenerUnit } from '../file-units.js'
import { addUnits, type DerivedUnits } from '../units.js'
import { readAuthorities, readCertificates, readIpPolicies, readIpRestrictions, readVaults } from './access.js'
import { type CertificateHost, type DeclaredCertificates, managedHosts, readAcme } from './acme.js'
import { readBackends } from './backends.js'
import { Declaration, type DeclaredRecord, type NamedPolicy, type SiteFileInput, siteErrors } from './declaration.js'
import { createNames } from './names.js'
import { readSites, readTcp, type SitePolicy } from './sites.js'
import { Values } from './values.js'

/** Keys of a site file. */
const SITE_FILE_KEYS = [
  'listeners',
  'acme',
  'certificates',
  'certificate_authorities',
  'ip_policies',
  'ip_restrictions',
  'vaults',
  'sites',
  'tcp',
  'backends'
] as const

type Key = (typeof SITE_FILE_KEYS)[number]

const LIMITS = { depth: 40, nodes: 200_000 }
const EMPTY =
  'the file says nothing; write "sites: {}" where there is to be none, so that an empty file takes nothing away by mistake'
const OPTIONS = ['listen', 'upstream', 'policy', 'api', 'data', 'store', 'limits', 'timeouts', 'log', 'agents']

/** A site file without errors: what it means for traffic. */
export interface SiteFile {
  readonly records: readonly DeclaredRecord[]
  readonly listeners: readonly DeclaredListener[]
  readonly policies: readonly NamedPolicy[]
  readonly certificates: DeclaredCertificates
  /** Names of policies by the ids of the sites, routes and TCP edges that they run for. */
  readonly policyOf: ReadonlyMap<string, string>
  /** SHA-256 of the file with everything that it names. */
  readonly digest: string
  readonly units: ReadonlyMap<string, Unit>
  readonly secrets: SecretValues
  /** What it says by label (`site shop.example.com`), each with a digest of what it means. */
  readonly contents: ReadonlyMap<string, string>
  /** Places that have a policy. */
  readonly policed: ReadonlySet<string>
}

/** A listener with its line in the file. */
interface DeclaredListener {
  readonly unit: ListenerUnit
  readonly line: number
}

/** What reading a site file came to. */
export interface SiteFileRead {
  /** Absent when there is an error. */
  readonly file?: SiteFile
  readonly problems: readonly UnitProblems[]
  /** Absolute paths of the files that it names. */
  readonly files: readonly string[]
}

/** Does this document say what a site file says? It tells one from a traffic policy. */
export function looksLikeSiteFile(text: string): boolean {
  const { root } = readTree(text, LIMITS)
  return root?.kind === 'map' && root.entries.some(({ key }) => (SITE_FILE_KEYS as readonly string[]).includes(key))
}

/** Reads a site file with everything that it names. Finds every problem in one pass; rejects for a fault of the machine alone. */
export async function readSiteFile(input: SiteFileInput): Promise<SiteFileRead> {
  const declaration = new Declaration(input)
  const { root, problems } = readTree(input.text, LIMITS)
  for (const { code, message, span } of problems) declaration.error({ path: [], span }, { code }, message)
  const read = await readRoot(declaration, root, problems.length > 0)
  const about = {
    problems: withoutNeedless(declaration.problems(), read?.listeners ?? []),
    files: [...declaration.files]
  }
  if (declaration.failed || read === undefined) return about
  return { ...about, file: derived(declaration, read, await declaration.digest()) }
}

/** A file without listeners does not say whether clients come by IPv6; then that is no reason to warn. */
function withoutNeedless(
  problems: readonly UnitProblems[],
  listeners: readonly DeclaredListener[]
): readonly UnitProblems[] {
  if (listeners.some(({ unit }) => takesIpv6(unit.host))) return problems
  const { code } = policyWarnings.LIMIT_KEY_IPV6
  return problems
    .map((one) => ({ ...one, problems: one.problems.filter((problem) => problem.code !== code) }))
    .filter((one) => one.problems.length > 0)
}

interface RootRead {
  readonly listeners: readonly DeclaredListener[]
  readonly policies: readonly SitePolicy[]
  readonly certificates: DeclaredCertificates
}

async function readRoot(
  declaration: Declaration,
  root: TreeNode | undefined,
  broken: boolean
): Promise<RootRead | undefined> {
  const at = { path: [], span: root?.span ?? { start: 0, end: 0 } }
  if (root === undefined || (root.kind === 'map' && root.entries.length === 0)) {
    if (!broken) declaration.error(at, policyErrors.DOCUMENT_EMPTY, EMPTY)
    return undefined
  }
  const options = root.kind === 'map' ? root.entries.filter(({ key }) => OPTIONS.includes(key)) : []
  for (const { key, keySpan } of options) {
    const message = `"${key}" is an option of the process and stands in the options file (sluice start --config FILE)`
    declaration.error({ path: [key], span: keySpan }, fieldErrors.FIELD_UNKNOWN, message)
  }
  const rest = root.kind === 'map' ? { ...root, entries: root.entries.filter((one) => !options.includes(one)) } : root
  const fields = declaration.fields(rest, [], 'a site file', SITE_FILE_KEYS)
  const names = createNames(declaration)
  const given = async <T>(key: Key, read: (entry: MapEntry) => Promise<T>): Promise<T | undefined> => {
    const entry = fields.get(key)
    return entry === undefined ? undefined : await read(entry)
  }
  const vaults = await given('vaults', (entry) => readVaults(declaration, names, entry))
  const values = new Values(declaration, names, vaults ?? new Map())
  const reader = { declaration, names, values }
  await given('ip_policies', (entry) => readIpPolicies(declaration, names, entry))
  await given('ip_restrictions', (entry) => readIpRestrictions(declaration, values, entry))
  await given('certificate_authorities', (entry) => readAuthorities(declaration, names, entry))
  await given('certificates', (entry) => readCertificates(declaration, values, entry))
  await given('backends', (entry) => readBackends(declaration, names, values, entry))
  const hosts: CertificateHost[] = []
  const policies = await given('sites', (entry) => readSites(reader, entry, hosts))
  await given('tcp', (entry) => readTcp(reader, entry))
  const listeners = await given('listeners', async (entry) => readListeners(declaration, entry))
  warnOfLoops(declaration, listeners ?? [])
  const acme = await given('acme', (entry) => readAcme(declaration, values, entry))
  const secure = (listeners ?? []).map(({ unit }) => unit)
  const managed = managedHosts(declaration, acme, hosts, secure)
  const certificates = {
    ...(acme === undefined ? {} : { authority: acme.authority, line: acme.line }),
    keyType: acme?.keyType ?? 'ecdsa',
    hosts: managed
  }
  return { listeners: listeners ?? [], policies: policies ?? [], certificates }
}

/** Listeners with the places of their addresses, which no other listener and no TCP edge may have. */
function readListeners(declaration: Declaration, { key, value }: MapEntry): DeclaredListener[] {
  const units = new Map<string, Unit>()
  const found: DeclaredListener[] = []
  const taken = [...declaration.input.opened].map(([address, by]) => ({ at: splitHostport(address), by }))
  for (const { resource, record, label, line } of declaration.records) {
    if (resource !== tcpEdge) continue
    for (const address of record.body.hostports as readonly string[])
      taken.push({ at: splitHostport(address), by: `${label} in line ${line}` })
  }
  for (const [index, item] of declaration.items(value, [key], key).entries()) {
    const at = { path: [key, index], span: item.span }
    const read = declaration.input.readListener(dataOf(item))
    if (!read.ok) {
      declaration.error(at, fieldErrors.FIELD_INVALID, `listeners must be ${read.refused}`)
      continue
    }
    const listener = read.value as FileListener
    const { host, port } = listener.listen
    const address = formatAuthority(host, port)
    const other = taken.find((one) => clashes(one.at, listener.listen))
    if (other !== undefined) declaration.error(at, siteErrors.PORT_CLASH, `${address} is opened by ${other.by} already`)
    taken.push({ at: { host, port }, by: `the listener in line ${declaration.lineOf(item.span)}` })
    const unit = listenerUnit(listener, listener.path_form ?? 'strict', units)
    units.set(`listener:${unit.name}`, unit)
    found.push({ unit, line: declaration.lineOf(item.span) })
  }
  return found
}

/** Warns of servers that are listeners of the file or of the options: what is sent there comes back. */
function warnOfLoops(declaration: Declaration, listeners: readonly DeclaredListener[]): void {
  const own = [
    ...listeners.map(({ unit: { host, port }, line }) => ({ at: { host, port }, by: `the listener in line ${line}` })),
    ...[...declaration.input.opened].map(([address, by]) => ({ at: splitHostport(address), by }))
  ]
  for (const { at, address } of declaration.servers) {
    const server = splitHostport(address)
    const one = own.find((listener) => leadsTo(server, listener.at))
    if (one !== undefined)
      declaration.warning(at, siteErrors.BACKEND_LOOP, `${address} is ${one.by}: requests come back`)
  }
}

const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)$/

/** Is a connection to `server` one to `listener`? Other addresses of this machine are not known here. */
function leadsTo(server: HostPort, listener: HostPort): boolean {
  if (server.port !== listener.port) return false
  if (server.host === listener.host || EVERY_ADDRESS.has(server.host)) return true
  return LOOPBACK.test(server.host) && (LOOPBACK.test(listener.host) || EVERY_ADDRESS.has(listener.host))
}

/** Addresses that take every address of the machine. */
const EVERY_ADDRESS: ReadonlySet<string> = new Set(['0.0.0.0', '::'])

/** Can only one of them be opened? Port 0 is any that is free. */
function clashes(one: HostPort, other: HostPort): boolean {
  if (one.port === 0 || one.port !== other.port) return false
  return one.host === other.host || EVERY_ADDRESS.has(one.host) || EVERY_ADDRESS.has(other.host)
}

const VERSION_KEY_BYTES = 32
const VERSION_BYTES = 6

function derived(declaration: Declaration, { listeners, policies, certificates }: RootRead, digest: string): SiteFile {
  const key = declaration.input.versionKey
  const whole: DerivedUnits = { units: new Map(), secrets: new Map() }
  const labels = new Map<string, string>()
  for (const { record, label } of declaration.records) {
    const before = new Set(whole.units.keys())
    const revision = createHmac('sha256', key).update(JSON.stringify(record.secrets)).digest()
    addUnits(whole, { record, revision: revision.readUIntBE(0, VERSION_BYTES) })
    for (const unit of whole.units.keys()) if (!before.has(unit)) labels.set(unit, label)
  }
  const units = new Map<string, Unit>()
  for (const { unit: listener } of listeners) {
    units.set(`listener:${listener.name}`, listener)
    labels.set(`listener:${listener.name}`, `listener ${listener.name}`)
  }
  for (const [name, unit] of whole.units) units.set(name, withSource(unit, declaration.policySources))
  for (const { edge, text } of policies) {
    const source = declaration.policySources.get(edge) ?? declaration.input.source
    units.set(policyKey(edge), { kind: 'policy', owner: edge, text, source })
    labels.set(policyKey(edge), labels.get(`edge:${edge}`) ?? '')
    for (const [name, unit] of units) {
      if (unit.kind === 'route' && unit.edge === edge) units.set(name, withSitePolicy(unit, edge))
    }
  }
  return {
    records: declaration.records,
    listeners,
    policies: [...declaration.policies.values()],
    certificates,
    policyOf: declaration.policyNames,
    digest,
    units,
    secrets: whole.secrets,
    contents: withCertificates(digests(units, labels), certificates),
    policed: declaration.policed
  }
}

/** Problems of a policy name the file that it came from. */
function withSource(unit: Unit, sources: ReadonlyMap<string, string>): Unit {
  if (unit.kind !== 'policy') return unit
  return { ...unit, source: sources.get(unit.owner) ?? unit.source }
}

/** The policy of the site comes before the route's own. */
function withSitePolicy(route: RouteUnit, edge: string): RouteUnit {
  const { traffic_policy: own, ...modules } = route.modules
  const all = [{ policy: policyKey(edge) }, ...(own === undefined ? [] : [own])]
  return { ...route, modules: { ...modules, traffic_policy: all } }
}

function digests(units: ReadonlyMap<string, Unit>, labels: ReadonlyMap<string, string>): Map<string, string> {
  const texts = new Map<string, string>()
  for (const [key, unit] of units) {
    const label = labels.get(key) ?? key
    texts.set(label, `${texts.get(label) ?? ''}${key} ${JSON.stringify(unit)}\n`)
  }
  return new Map([...texts].map(([label, text]) => [label, createHash('sha256').update(text).digest('hex')]))
}

/** Managed certificates have their line in what is added, changed and removed; a secret tells nothing there. */
function withCertificates(contents: Map<string, string>, certificates: DeclaredCertificates): Map<string, string> {
  const { authority, keyType, hosts } = certificates
  const digest = (value: unknown) => createHash('sha256').update(JSON.stringify(value)).digest('hex')
  if (authority !== undefined) contents.set('acme', digest([authority, keyType]))
  for (const { host } of hosts) contents.set(`managed certificate ${host}`, digest(keyType))
  return contents
}

/** What a site file adds, changes and removes, by label. */
export interface SiteChanges {
  readonly added: readonly string[]
  readonly changed: readonly string[]
  readonly removed: readonly string[]
}

/** The difference between what two site files say. */
export function siteChanges(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): SiteChanges {
  const labels = [...after.keys()]
  return {
    added: labels.filter((label) => !before.has(label)),
    changed: labels.filter((label) => before.has(label) && before.get(label) !== after.get(label)),
    removed: [...before.keys()].filter((label) => !after.has(label))
  }
}

/** A key for `SiteFileInput.versionKey`. */
export function newVersionKey(): Uint8Array {
  return randomBytes(VERSION_KEY_BYTES)
}
