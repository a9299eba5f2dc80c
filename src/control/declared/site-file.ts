import { createHash, randomBytes } from 'node:crypto'
import { domainToUnicode } from 'node:url'
import { isInternal } from '../../flow/flow.js'
import { formatAuthority, takesIpv6 } from '../../lib/host.js'
import { Passes, type Steps } from '../../lib/slices.js'
import { readBlockYaml } from '../../policy/block-yaml.js'
import { findEmbeddedPolicies } from '../../policy/embedded-policies.js'
import type { UnitProblems } from '../../policy/problems.js'
import { policyErrors } from '../../policy/problems.js'
import { dataOf, type MapEntry, type TreeNode } from '../../policy/tree.js'
import { policyWarnings } from '../../policy/warnings/codes.js'
import { readingTree, readTree } from '../../policy/yaml-tree.js'
import { tcpEdge } from '../../resources/edges.js'
import { splitHostport } from '../../resources/units.js'
import type { HostPort, ListenerUnit, SecretValues, Unit } from '../../runtime/plan.js'
import { fieldErrors } from '../../schema/errors.js'
import { type FileListener, listenerUnit } from '../file-units.js'
import { readAuthorities, readCertificates, readIpPolicies, readIpRestrictions, readVaults } from './access.js'
import { type DeclaredCertificates, managedHosts, readAcme } from './acme.js'
import { readBackends } from './backends.js'
import { Declaration } from './declaration.js'
import type { CertificateHost, DeclaredRecord, NamedPolicy } from './declared-part.js'
import { createNames } from './names.js'
import { siteErrors } from './site-codes.js'
import { NOT_BY_SITE, readSiteEntries } from './site-entries.js'
import type { SiteFileInput } from './site-input.js'
import { findSiteLines, type SiteLines } from './site-lines.js'
import type { PartUnits } from './site-memory.js'
import { unitsOf } from './site-units.js'
import { readSites, readTcp, type SitePolicy } from './sites.js'
import { Values } from './values.js'
import { Variables } from './variables.js'

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

const HTTPS_PORT = 443
/** Keys that begin so say nothing: anchors of YAML are written there. */
const IGNORED = 'x-'
const LIMITS = { depth: 40, nodes: 200_000 }
const EMPTY =
  'the file says nothing; write "sites: {}" where there is to be none, so that an empty file takes nothing away by mistake'
const OPTIONS = ['listen', 'upstream', 'policy', 'api', 'data', 'store', 'limits', 'timeouts', 'log', 'agents']

/** A site file without errors: what it means for traffic. */
export interface SiteFile {
  readonly records: readonly DeclaredRecord[]
  /** The same by kind and id, and by what they claim. */
  readonly byId: ReadonlyMap<string, DeclaredRecord>
  readonly claims: ReadonlyMap<string, DeclaredRecord>
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

const isOwn = ({ key }: MapEntry) => (SITE_FILE_KEYS as readonly string[]).includes(key) || OPTIONS.includes(key)

/** Does this document say what a site file says? It tells one from a traffic policy. */
export function looksLikeSiteFile(text: string): boolean {
  const { root } = readTree(text, LIMITS)
  return root?.kind === 'map' && root.entries.some(({ key }) => (SITE_FILE_KEYS as readonly string[]).includes(key))
}

/**
 * Reads a site file with everything that it names, in slices. Finds every problem in one pass; rejects for a fault of the machine
 * alone. Sites are read one by one where the file is in block style, so that the memory of the input can have those that have not changed.
 */
export async function readSiteFile(input: SiteFileInput): Promise<SiteFileRead> {
  const declaration = new Declaration(input)
  const { slices } = declaration
  const lines = await slices.run(findSiteLines(input.text))
  const head = lines && (await slices.run(readBlockYaml(input.text, LIMITS, lines.all)))
  const bySite = lines && head && (await readRoot(declaration, head, { lines, head }))
  if (bySite !== undefined && bySite !== NOT_BY_SITE) return await whatWasRead(declaration, bySite)
  return await readWhole(bySite === NOT_BY_SITE ? new Declaration({ ...input, slices }) : declaration)
}

async function readWhole(declaration: Declaration): Promise<SiteFileRead> {
  const { root, problems } = await declaration.slices.run(readingTree(declaration.input.text, LIMITS))
  for (const { code, message, span } of problems) declaration.error({ path: [], span }, { code }, message)
  const read = root && (await readRoot(declaration, root))
  if (root === undefined && problems.length === 0) reportEmpty(declaration, root)
  return await whatWasRead(declaration, read === NOT_BY_SITE ? undefined : read)
}

async function whatWasRead(declaration: Declaration, read: RootRead | undefined): Promise<SiteFileRead> {
  const about = {
    problems: withoutNeedless(declaration.problems(), read?.listeners ?? []),
    files: [...declaration.files]
  }
  if (declaration.failed || read === undefined) return about
  return { ...about, file: await declaration.slices.run(deriving(declaration, read, await declaration.digest())) }
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
  /** Of sites that were not read one by one. */
  readonly policies: readonly SitePolicy[]
  /** Of those that were. */
  readonly parts: readonly PartUnits[]
  readonly certificates: DeclaredCertificates
}

/** A file whose sites are read one by one; in `head` they are null. */
interface BySite {
  readonly lines: SiteLines
  readonly head: TreeNode
}

function reportEmpty(declaration: Declaration, root: TreeNode | undefined): void {
  const at = { path: [], span: root?.span ?? { start: 0, end: 0 } }
  declaration.error(at, policyErrors.DOCUMENT_EMPTY, EMPTY)
}

async function readRoot(
  declaration: Declaration,
  written: TreeNode,
  bySite?: BySite
): Promise<RootRead | undefined | typeof NOT_BY_SITE> {
  const root = new Variables(declaration).root(written)
  if (root.kind === 'map' && root.entries.every(({ key }) => key.startsWith(IGNORED))) {
    reportEmpty(declaration, root)
    return undefined
  }
  const foreign = root.kind === 'map' && !root.entries.some(isOwn) ? findEmbeddedPolicies(root) : undefined
  if (foreign !== undefined) {
    const given = foreign.path.length === 0 ? 'name it' : `give ${foreign.parts}`
    const message = `this is ${foreign.what}, not a site file; ${given} as policy of a site`
    declaration.error(foreign, fieldErrors.FIELD_UNKNOWN, message)
    return undefined
  }
  const options = root.kind === 'map' ? root.entries.filter(({ key }) => OPTIONS.includes(key)) : []
  for (const { key, keySpan } of options) {
    const message = `"${key}" is an option of the process and stands in the options file (sluice start --config FILE)`
    declaration.error({ path: [key], span: keySpan }, fieldErrors.FIELD_UNKNOWN, message)
  }
  const isRead = (entry: MapEntry) => !options.includes(entry) && !entry.key.startsWith(IGNORED)
  const rest = root.kind === 'map' ? { ...root, entries: root.entries.filter(isRead) } : root
  const fields = declaration.fields(rest, [], 'a site file', SITE_FILE_KEYS)
  const names = createNames(declaration)
  declaration.lenientPaths = takesLenientPaths(declaration, fields.get('listeners'))
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
  const parts = bySite === undefined ? [] : await readSiteEntries({ ...reader, ...entriesOf(bySite, vaults), hosts })
  if (parts === NOT_BY_SITE) return NOT_BY_SITE
  const policies = bySite === undefined ? await given('sites', (entry) => readSites(reader, entry, hosts)) : undefined
  await given('tcp', (entry) => readTcp(reader, entry))
  const listeners = await given('listeners', async (entry) => readListeners(declaration, entry))
  warnOfLoops(declaration, listeners ?? [])
  if (lengthOf(fields.get('listeners')) === (listeners ?? []).length)
    reportUnserved(declaration, hosts, listeners ?? [])
  const acme = await given('acme', (entry) => readAcme(declaration, values, entry))
  const secure = (listeners ?? []).map(({ unit }) => unit)
  const managed = await managedHosts(declaration, acme, hosts, secure)
  const certificates = {
    ...(acme === undefined ? {} : { authority: acme.authority, line: acme.line }),
    keyType: acme?.keyType ?? 'ecdsa',
    hosts: managed
  }
  return { listeners: listeners ?? [], policies: policies ?? [], parts, certificates }
}

/** Does a listener of the process or of the file take the lenient form of paths? */
function takesLenientPaths({ input }: Declaration, listeners: MapEntry | undefined): boolean {
  if (input.process?.lenientPaths === true) return true
  const items = listeners?.value.kind === 'list' ? listeners.value.items : []
  return items.some((item) => {
    const read = input.readListener(dataOf(item))
    return read.ok && ((read.value as FileListener).path_form ?? 'strict') !== 'strict'
  })
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
    if (item.kind === 'broken') continue
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

const lengthOf = (entry: MapEntry | undefined) => (entry?.value.kind === 'list' ? entry.value.items.length : 0)

/**
 * Reports hosts whose port no listener has: no request would find them. Where the options are not known, the listeners of the file
 * alone are looked at, if it has any. Internal hosts are reached through policies, which name the port.
 */
function reportUnserved(
  declaration: Declaration,
  hosts: readonly CertificateHost[],
  listeners: readonly DeclaredListener[]
): void {
  const own = listeners.map(({ unit }) => unit.publicPort ?? unit.port)
  const { process, usual } = declaration.input
  const ports = new Set([...own, ...(process?.ports ?? [])])
  if (own.length === 0 && usual !== undefined) ports.add(usual.port)
  if (ports.size === 0) return
  for (const { host, port, at } of hosts) {
    if (port === HTTPS_PORT || ports.has(port) || isInternal(host)) continue
    const message = `no listener has port ${port}; open one, such as https://0.0.0.0:${port}, or write "${domainToUnicode(host)}" without a port, which each listener without public_port serves`
    declaration.error(at, siteErrors.PORT_UNSERVED, message)
  }
}

/** Warns of servers that are listeners of the file or of the options: what is sent there comes back. */
function warnOfLoops(declaration: Declaration, listeners: readonly DeclaredListener[]): void {
  const { usual } = declaration.input
  const own = [
    ...(listeners.length > 0 || usual === undefined ? [] : [{ at: usual, by: 'the option listen' }]),
    ...listeners.map(({ unit: { host, port }, line }) => ({ at: { host, port }, by: `the listener in line ${line}` })),
    ...[...declaration.input.opened].map(([address, by]) => ({ at: splitHostport(address), by }))
  ]
  for (const { address, loop } of declaration.servers) {
    const server = splitHostport(address)
    const one = own.find((listener) => leadsTo(server, listener.at))
    if (one !== undefined) declaration.report({ ...loop, message: `${address} is ${one.by}: requests come back` })
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

function entriesOf({ lines, head }: BySite, vaults: ReadonlyMap<string, string> | undefined) {
  return { lines, vaults: vaults ?? new Map(), limits: LIMITS, nodes: countNodes(head) }
}

function countNodes(node: TreeNode): number {
  if (node.kind === 'map') return node.entries.reduce((count, { value }) => count + countNodes(value), 1)
  return node.kind === 'list' ? node.items.reduce((count, item) => count + countNodes(item), 1) : 1
}

const VERSION_KEY_BYTES = 32

function* deriving(
  declaration: Declaration,
  { listeners, policies, parts, certificates }: RootRead,
  digest: () => string
): Steps<SiteFile> {
  const { source, versionKey } = declaration.input
  const sourceOf = (owner: string) => declaration.sourceOf(owner)
  const own = unitsOf({ records: declaration.own, policies, sourceOf, source, versionKey })
  const units = new Map<string, Unit>()
  const secrets = new Map<string, string>()
  const contents = new Map<string, string>()
  for (const { unit } of listeners) {
    const key = `listener:${unit.name}`
    units.set(key, unit)
    contents.set(`listener ${unit.name}`, JSON.stringify(unit))
  }
  const passes = new Passes()
  for (const part of [...parts, own]) {
    for (const [key, unit] of part.units) units.set(key, unit)
    if (part.secrets.size > 0) for (const [name, value] of part.secrets) secrets.set(name, value)
    for (const [label, digest] of part.contents) {
      const before = contents.get(label)
      contents.set(label, before === undefined ? digest : `${before}${digest}`)
    }
    if (passes.due()) yield
  }
  return {
    records: declaration.records,
    byId: declaration.byId,
    claims: declaration.claims,
    listeners,
    get policies() {
      return declaration.allPolicies()
    },
    certificates,
    get policyOf() {
      return declaration.allPolicyNames()
    },
    get digest() {
      return digest()
    },
    units,
    secrets,
    contents: withCertificates(contents, certificates),
    policed: declaration.policed
  }
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
