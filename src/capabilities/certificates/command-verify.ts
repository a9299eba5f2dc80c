import { isIP } from 'node:net'
import { type AccessFlags, type ApiAccess, apiAccess, askApi, openAccess, unusable } from '../../cli/api-client.js'
import { ExitCode } from '../../cli/process.js'
import { CodedError, codeOf } from '../../lib/errors.js'
import { printable } from '../../lib/printable.js'
import { agentIngress, type ManagementStatus, reservedDomain } from '../../resources/domains.js'
import type { Resource } from '../../resources/resource.js'
import {
  type DomainFacts,
  type Finding,
  type IngressFacts,
  type Lookup,
  systemLookup,
  verifyDomain,
  verifyIngress
} from './dns/requirements.js'

/** Options of the command line; each may be missing. */
export interface VerifyFlags {
  readonly api: string
  readonly dns?: readonly string[]
  readonly json?: boolean
}

interface Output {
  out(line: string): void
  error(line: string): void
}

/** A domain with its DNS check. */
interface Subject {
  readonly domain: string
  verify(lookup: Lookup): Promise<Finding[]>
}

const MOST_PAGES = 10_000

/** Resolves with the exit code. */
export async function verifyDomains(
  wanted: readonly string[],
  flags: VerifyFlags,
  environment: NodeJS.ProcessEnv,
  print: Output
): Promise<number> {
  const access = apiAccess(flags.api, environment)
  const wrong = typeof access === 'string' ? access : usageProblem(flags)
  if (typeof access === 'string' || wrong !== undefined) {
    print.error(String(wrong))
    return ExitCode.usage
  }
  let subjects: Subject[]
  try {
    subjects = await subjectsOf(access)
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    print.error(error.message)
    return ExitCode.failure
  }
  const names = wanted.map((name) => name.toLowerCase().replace(/\.$/, ''))
  const missing = names.filter((name) => !subjects.some(({ domain }) => domain === name))
  for (const name of missing) print.error(`${name} is neither a reserved domain nor an agent ingress`)
  const chosen = names.length === 0 ? subjects : subjects.filter(({ domain }) => names.includes(domain))
  if (chosen.length === 0 && missing.length === 0) print.error('there are no domains')
  const lookup = systemLookup(flags.dns)
  let sound = missing.length === 0
  for (const subject of chosen) sound = (await verifyOne(subject, lookup, flags.json === true, print)) && sound
  return sound ? ExitCode.ok : ExitCode.failure
}

function usageProblem({ dns = [] }: VerifyFlags): string | undefined {
  const foreign = dns.find(
    (address) => isIP(address.replace(/^\[(.*)\](:\d+)?$/, '$1')) === 0 && !isAddressPort(address)
  )
  return foreign === undefined ? undefined : `--dns: ${foreign} is no IP address`
}

function isAddressPort(text: string): boolean {
  const [address = '', port = ''] = text.split(':')
  return isIP(address) === 4 && /^\d{1,5}$/.test(port)
}

async function verifyOne({ domain, verify }: Subject, lookup: Lookup, json: boolean, print: Output): Promise<boolean> {
  let findings: readonly Finding[]
  try {
    findings = await verify(lookup)
  } catch (error) {
    const code = codeOf(error)
    if (code === undefined) throw error
    print.error(`${domain}: DNS lookup failed (${code})`)
    return false
  }
  if (json) for (const finding of findings) print.out(JSON.stringify({ domain, ...finding }))
  else for (const line of explained(domain, findings)) print.out(line)
  return findings.every(({ ok }) => ok)
}

function explained(domain: string, findings: readonly Finding[]): string[] {
  if (findings.length === 0) return [`${domain}: belongs to this service, no DNS record needed`]
  const lines = [
    `${domain}: ${findings.every(({ ok }) => ok) ? 'DNS records are correct' : 'DNS records are not correct yet'}`
  ]
  for (const { name, type, must, says, ok, because } of findings) {
    lines.push(`  ${ok ? 'right' : 'WRONG'}  ${name} ${type}`)
    if (!ok) lines.push(`         must say  ${must}`, `         says now  ${says}`, `         because ${because}`)
  }
  return lines
}

async function subjectsOf(access: ApiAccess): Promise<Subject[]> {
  const [domains, ingresses] = await Promise.all([
    all<DomainFacts>(access, reservedDomain),
    all<IngressFacts>(access, agentIngress)
  ])
  return [
    ...domains.map((facts) => ({ domain: facts.domain, verify: (lookup: Lookup) => verifyDomain(facts, lookup) })),
    ...ingresses.map((facts) => ({ domain: facts.domain, verify: (lookup: Lookup) => verifyIngress(facts, lookup) }))
  ]
}

/** A record with a managed certificate, as the API shows it. */
interface CertifiedFacts {
  readonly domain: string
  readonly certificate_management_policy: object | null
  readonly certificate_management_status: ManagementStatus | null
}

/** Prints how far the managed certificates of the account are. Resolves with the exit code. */
export async function listCertificates(
  flags: AccessFlags & { readonly json?: boolean },
  environment: NodeJS.ProcessEnv,
  print: Output
): Promise<number> {
  const access = openAccess(flags, environment)
  if (typeof access === 'string') {
    print.error(access)
    return ExitCode.usage
  }
  let found: CertifiedFacts[]
  try {
    const lists = [reservedDomain, agentIngress].map((resource) => all<CertifiedFacts>(access, resource))
    found = (await Promise.all(lists)).flat()
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    print.error(error.message)
    return ExitCode.failure
  }
  const managed = found.filter((one) => one.certificate_management_policy !== null)
  const counts = { issued: 0, requested: 0, waiting: 0, failed: 0 }
  for (const facts of managed) {
    const { state, line } = progressOf(facts)
    counts[state]++
    const { domain, certificate_management_status: status } = facts
    print.out(flags.json === true ? JSON.stringify({ domain, state, ...status }) : `${domain}: ${line}`)
  }
  const { issued, ...others } = counts
  const open = Object.entries(others).filter(([, count]) => count > 0)
  if (flags.json !== true)
    print.out([`${issued} issued`, ...open.map(([state, count]) => `${count} ${state}`)].join(', '))
  return open.length === 0 ? ExitCode.ok : ExitCode.failure
}

function progressOf({ certificate_management_status: status }: CertifiedFacts) {
  const job = status?.provisioning_job ?? null
  if (job === null) {
    const renews = status?.renews_at ?? null
    if (renews === null) return { state: 'waiting' as const, line: 'waiting to be requested' }
    return { state: 'issued' as const, line: `issued, renewal at ${renews}` }
  }
  const msg = printable(job.msg)
  const next = job.retries_at === null ? '' : `, next attempt at ${job.retries_at}`
  if (job.error_code !== null) return { state: 'failed' as const, line: `${job.error_code}${next}: ${msg}` }
  if (job.retries_at !== null)
    return { state: 'waiting' as const, line: `waiting, to be requested at about ${job.retries_at}: ${msg}` }
  return { state: 'requested' as const, line: `requested since ${job.started_at}: ${msg}` }
}

/** Every record of a collection, page by page. Fails with a CodedError `API_UNUSABLE`. */
async function all<T>(access: ApiAccess, { path, listKey }: Resource): Promise<T[]> {
  const records: T[] = []
  let query = ''
  for (let page = 0; page < MOST_PAGES; page++) {
    const { status, body } = await askApi(access, `${path}?limit=100${query}`)
    if (status !== 200) throw unusable(access, `answered with status ${status}`)
    const found = body[listKey]
    if (!Array.isArray(found)) throw unusable(access, 'does not respond like a Sluice API')
    records.push(...(found as T[]))
    const last = (found.at(-1) as { id?: string } | undefined)?.id
    if (body.next_page_uri == null || last === undefined) break
    // Request the next page from the given address: the API may know itself by a different one.
    query = `&before_id=${encodeURIComponent(last)}`
  }
  return records
}
