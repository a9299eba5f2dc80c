import type { CaaRecord } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import { codeOf } from '../../../lib/errors.js'

/** A domain as the API shows it, as far as DNS is concerned. */
export interface DomainFacts {
  readonly domain: string
  readonly cname_target: string | null
  readonly acme_challenge_cname_target: string | null
  readonly certificate_management_policy: object | null
}

/** Facts about an ingress for the DNS check. */
export interface IngressFacts {
  readonly domain: string
  readonly ns_targets: readonly string[]
}

/** DNS client. Methods return an empty list if there are no records, and reject if no server responds. Names have no trailing dot. */
export interface Lookup {
  cname(name: string): Promise<readonly string[]>
  addresses(name: string): Promise<readonly string[]>
  ns(name: string): Promise<readonly string[]>
  /** Returns the domains that may issue for this name (`issue` or `issuewild`, RFC 8659); undefined without such a record. */
  caa(name: string, tag: 'issue' | 'issuewild'): Promise<readonly string[] | undefined>
}

/** Required and actual records of one name. */
export interface Finding {
  readonly name: string
  readonly type: 'CNAME' | 'NS' | 'CAA'
  readonly must: string
  /** The current records, for display. */
  readonly says: string
  readonly ok: boolean
  /** Reason for the requirement. */
  readonly because: string
}

/** A label without records; a query below it finds the wildcard record. */
const PROBE = 'sluice-dns-check'
/** Domain of the authority in CAA records. */
const AUTHORITY = 'letsencrypt.org'

/** Checks all records that a reserved domain needs. Rejects if no DNS server responds. */
export async function verifyDomain(facts: DomainFacts, lookup: Lookup): Promise<Finding[]> {
  const { domain, cname_target: target, acme_challenge_cname_target: challenge } = facts
  // Names below a zone of the service need no records.
  if (target === null) return []
  const wildcard = domain.startsWith('*.')
  const base = wildcard ? domain.slice(2) : domain
  const managed = facts.certificate_management_policy !== null
  const findings = [await leadsTo(domain, wildcard ? `${PROBE}.${base}` : domain, target, lookup)]
  if (challenge !== null && managed) findings.push(await isAliasOf(`_acme-challenge.${base}`, challenge, lookup))
  if (managed) findings.push(await mayIssue(base, wildcard, lookup))
  return findings
}

/** Checks the delegation that an agent ingress needs. Rejects if no DNS server responds. */
export async function verifyIngress({ domain, ns_targets }: IngressFacts, lookup: Lookup): Promise<Finding[]> {
  const wanted = ns_targets.map(bare)
  const found = (await lookup.ns(domain)).map(bare)
  const ok = found.length > 0 && found.every((one) => wanted.includes(one))
  const because = 'the addresses for agents below it are told by this service'
  return [{ name: domain, type: 'NS', must: wanted.join(', '), says: said(found), ok, because }]
}

/** Checks for a CNAME record or, where none is allowed, the same addresses. */
async function leadsTo(name: string, asked: string, target: string, lookup: Lookup): Promise<Finding> {
  const because = 'visitors of the domain come to this service'
  const aliases = (await lookup.cname(asked)).map(bare)
  if (aliases.includes(target)) return { name, type: 'CNAME', must: target, says: target, ok: true, because }
  const addresses = await lookup.addresses(asked)
  const ours = new Set(await lookup.addresses(target))
  const ok = addresses.length > 0 && addresses.every((address) => ours.has(address))
  return { name, type: 'CNAME', must: target, says: said([...aliases, ...addresses]), ok, because }
}

async function isAliasOf(name: string, target: string, lookup: Lookup): Promise<Finding> {
  const aliases = (await lookup.cname(name)).map(bare)
  const because = 'a certificate for a wildcard is proved by DNS'
  return { name, type: 'CNAME', must: target, says: said(aliases), ok: aliases.includes(target), because }
}

/** The CAA records of the closest name that has any decide (RFC 8659 3); none at all: every authority may issue. */
async function mayIssue(base: string, wildcard: boolean, lookup: Lookup): Promise<Finding> {
  const because = 'CAA records say who may issue certificates'
  const must = `nothing, or "issue ${AUTHORITY}"`
  for (let name = base; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    const wild = wildcard ? await lookup.caa(name, 'issuewild') : undefined
    const issuers = wild ?? (await lookup.caa(name, 'issue'))
    if (issuers === undefined) continue
    return { name, type: 'CAA', must, says: said(issuers), ok: issuers.includes(AUTHORITY), because }
  }
  return { name: base, type: 'CAA', must, says: said([]), ok: true, because }
}

function said(values: readonly string[]): string {
  return values.length === 0 ? 'nothing' : values.join(', ')
}

function bare(name: string): string {
  return name.toLowerCase().replace(/\.$/, '')
}

/** Resolver errors for a missing record. */
const NOTHING = new Set(['ENODATA', 'ENOTFOUND'])
/** Time limit of one query (ms). */
const TIMEOUT = 3_000
/** Maximum number of tries per query. */
const TRIES = 2

/** Creates a client for the system's resolvers, or `servers` (addresses, with a port other than 53). */
export function systemLookup(servers?: readonly string[]): Lookup {
  const resolver = new Resolver({ timeout: TIMEOUT, tries: TRIES })
  if (servers !== undefined) resolver.setServers(servers)
  return {
    cname: (name) => orNothing(resolver.resolveCname(name)),
    ns: (name) => orNothing(resolver.resolveNs(name)),
    addresses: async (name) => {
      const both = [orNothing(resolver.resolve4(name)), orNothing(resolver.resolve6(name))]
      return (await Promise.all(both)).flat()
    },
    async caa(name, tag) {
      const records = await orNothing(resolver.resolveCaa(name))
      const values = records.flatMap((record) => issuerOf(record, tag))
      // CAA records of other kinds alone do not restrict this authority.
      return values.length === 0 ? undefined : values
    }
  }
}

/** The domain before the parameters; ";" alone allows no authority. */
function issuerOf(record: CaaRecord, tag: 'issue' | 'issuewild'): string[] {
  const value = record[tag]
  return value === undefined ? [] : [(value.split(';')[0] ?? '').trim().toLowerCase()]
}

async function orNothing<T>(asked: Promise<T[]>): Promise<T[]> {
  try {
    return await asked
  } catch (error) {
    if (NOTHING.has(codeOf(error) ?? '')) return []
    throw error
  }
}
