import { createHash, randomBytes } from 'node:crypto'
import type { DeclaredRecord, DeclaredRecords } from '../../../control/declared-records.js'
import { takesIpv6 } from '../../../lib/host.js'
import { Passes, type Steps } from '../../../lib/slices.js'
import { readBlockYaml } from '../../../policy/block-yaml.js'
import { findEmbeddedPolicies } from '../../../policy/embedded-policies.js'
import { policyErrors, type UnitProblems } from '../../../policy/problems.js'
import type { MapEntry, TreeNode } from '../../../policy/tree.js'
import { policyWarnings } from '../../../policy/warnings/codes.js'
import { readingTree, readTree } from '../../../policy/yaml-tree.js'
import type { SecretValues, Unit } from '../../../runtime/plan.js'
import { fieldErrors } from '../../../schema/errors.js'
import { readAuthorities, readCertificates, readIpPolicies, readIpRestrictions, readVaults } from './access.js'
import { type DeclaredCertificates, managedHosts, readAcme } from './acme.js'
import { readBackends } from './backends.js'
import { Declaration } from './declaration.js'
import type { CertificateHost, NamedPolicy } from './declared-part.js'
import { SITE_FILE } from './fields.js'
import { hasImports, readImports } from './imports.js'
import { createNames } from './names.js'
import { NOT_BY_SITE, readSiteEntries } from './site-entries.js'
import type { SiteFileInput } from './site-input.js'
import { findSiteLines, type SiteLines } from './site-lines.js'
import {
  type DeclaredListener,
  lengthOf,
  readListeners,
  reportUnserved,
  takesLenientPaths,
  warnOfLoops
} from './site-listeners.js'
import type { PartUnits } from './site-memory.js'
import type { ImportedText } from './site-text.js'
import { unitsOf } from './site-units.js'
import { readSites, type SitePolicy } from './sites.js'
import { readTcp } from './tcp-edges.js'
import { type Reader, Values } from './values.js'
import { Variables } from './variables.js'

/** Readers of what sites refer to, in their order. */
const SECTIONS: readonly (readonly [key: string, read: (reader: Reader, entry: MapEntry) => Promise<void>])[] = [
  ['ip_policies', readIpPolicies],
  ['ip_restrictions', readIpRestrictions],
  ['certificate_authorities', readAuthorities],
  ['certificates', readCertificates],
  ['backends', readBackends]
]

/** Prefix of ignored keys, for YAML anchors. */
const IGNORED = 'x-'
/** Limits of the parsed tree. */
const LIMITS = { depth: 40, nodes: 200_000 }
const EMPTY =
  'the file says nothing; write "sites: {}" where there is to be none, so that an empty file takes nothing away by mistake'
const OPTIONS = ['listen', 'upstream', 'policy', 'api', 'data', 'store', 'limits', 'timeouts', 'log', 'agents']

/** A site file without errors, with its units. */
export interface SiteFile {
  readonly records: readonly DeclaredRecord[]
  /** Records by kind and id, and by claim. */
  readonly byId: ReadonlyMap<string, DeclaredRecord>
  readonly claims: ReadonlyMap<string, DeclaredRecord>
  readonly listeners: readonly DeclaredListener[]
  /** Files that it imports. */
  readonly imports: readonly ImportedText[]
  readonly policies: readonly NamedPolicy[]
  readonly certificates: DeclaredCertificates
  /** Names of policies by the ids of the sites, routes and TCP edges that they run for. */
  readonly policyOf: ReadonlyMap<string, string>
  /** SHA-256 of the file with everything that it names. */
  readonly digest: string
  readonly units: ReadonlyMap<string, Unit>
  readonly secrets: SecretValues
  /** Digests of the declared things by label (`site shop.example.com`). */
  readonly contents: ReadonlyMap<string, string>
  /** Places that have a policy. */
  readonly policed: ReadonlySet<string>
}

/** Result of reading a site file. */
export interface SiteFileRead {
  /** The site file that was read; undefined if it has an error. */
  readonly file?: SiteFile
  readonly problems: readonly UnitProblems[]
  /** Absolute paths of the files that it names. */
  readonly files: readonly string[]
}

const isOwn = ({ key }: MapEntry) => Object.hasOwn(SITE_FILE.fields, key) || OPTIONS.includes(key)

/** Is this document a site file, rather than a traffic policy? */
export function looksLikeSiteFile(text: string): boolean {
  const { root } = readTree(text, LIMITS)
  return root?.kind === 'map' && root.entries.some(({ key }) => Object.hasOwn(SITE_FILE.fields, key))
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
  const isAlone = head !== undefined && !hasImports(head)
  const bySite = lines && isAlone ? await readRoot(declaration, head, { lines, head }) : undefined
  if (bySite !== undefined && bySite !== NOT_BY_SITE) return await whatWasRead(declaration, bySite)
  return await readWhole(bySite === NOT_BY_SITE ? new Declaration({ ...input, slices }) : declaration)
}

async function readWhole(declaration: Declaration): Promise<SiteFileRead> {
  const { root, problems } = await declaration.slices.run(readingTree(declaration.input.text, LIMITS))
  for (const { code, message, span } of problems) declaration.error({ path: [], span }, { code }, message)
  if (root !== undefined && hasImports(root)) return await readJoined(declaration, root)
  const read = root && (await readRoot(declaration, root))
  if (root === undefined && problems.length === 0) reportEmpty(declaration, root)
  return await whatWasRead(declaration, read === NOT_BY_SITE ? undefined : read)
}

/** Reads a file and its imports as one. */
async function readJoined(
  { input, slices }: Declaration,
  root: Parameters<typeof readImports>[0]
): Promise<SiteFileRead> {
  const joined = await readImports(root, { input, limits: LIMITS, keys: Object.keys(SITE_FILE.fields), slices })
  const { text, imports } = joined
  const declaration = new Declaration({ ...input, text, slices }, undefined, 1, imports)
  for (const { error, message, ...at } of joined.problems) declaration.error(at, error, message)
  for (const path of joined.files) declaration.files.add(path)
  const read = await readRoot(declaration, joined.root)
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
  /** Policies of sites that were not read one by one. */
  readonly policies: readonly SitePolicy[]
  /** Units of sites that were read one by one. */
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
    if (!declaration.failed) reportEmpty(declaration, root)
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
  const fields = declaration.fields(rest, [], SITE_FILE)
  const names = createNames(declaration)
  declaration.lenientPaths = takesLenientPaths(declaration, fields.get('listeners'))
  const given = async <T>(key: string, read: (entry: MapEntry) => Promise<T>): Promise<T | undefined> => {
    const entry = fields.get(key)
    return entry === undefined ? undefined : await read(entry)
  }
  const vaults = await given('vaults', (entry) => readVaults(declaration, names, entry))
  const values = new Values(declaration, names, vaults ?? new Map())
  const reader = { declaration, names, values }
  for (const [key, read] of SECTIONS) await given(key, (entry) => read(reader, entry))
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

function entriesOf({ lines, head }: BySite, vaults: ReadonlyMap<string, string> | undefined) {
  return { lines, vaults: vaults ?? new Map(), limits: LIMITS, head }
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
    imports: declaration.source.imports,
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

/** Adds managed certificates to the digests; a changed secret is no difference there. */
function withCertificates(contents: Map<string, string>, certificates: DeclaredCertificates): Map<string, string> {
  const { authority, keyType, hosts } = certificates
  const digest = (value: unknown) => createHash('sha256').update(JSON.stringify(value)).digest('hex')
  if (authority !== undefined) contents.set('acme', digest([authority, keyType]))
  for (const { host } of hosts) contents.set(`managed certificate ${host}`, digest(keyType))
  return contents
}

/** Labels that a site file adds, changes and removes. */
export interface SiteChanges {
  readonly added: readonly string[]
  readonly changed: readonly string[]
  readonly removed: readonly string[]
}

/** Returns the changes between two site files. */
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

/** Returns the site file of the declared records. */
export function currentSite(declared: Pick<DeclaredRecords, 'current'> | undefined): SiteFile | undefined {
  return siteOf(declared?.current)
}

/** The site file that the records of a set are made of. */
export function siteOf(set: DeclaredRecords['current']): SiteFile | undefined {
  return set?.site as SiteFile | undefined
}
