import { isIP } from 'node:net'
import { commandErrors } from '../app/errors.js'
import {
  type DomainFacts,
  type Finding,
  type IngressFacts,
  type Lookup,
  systemLookup,
  verifyDomain,
  verifyIngress
} from '../certificates/dns/requirements.js'
import { CodedError, codeOf } from '../lib/errors.js'
import { agentIngress, reservedDomain } from '../resources/domains.js'
import type { Resource } from '../resources/resource.js'
import { ExitCode } from './process.js'

/** What the command line says; each may be missing. */
export interface VerifyFlags {
  readonly api: string
  readonly dns?: readonly string[]
  readonly json?: boolean
}

interface Output {
  out(line: string): void
  error(line: string): void
}

/** A domain with what asks the DNS for it. */
interface Subject {
  readonly domain: string
  verify(lookup: Lookup): Promise<Finding[]>
}

const DEADLINE = 30_000
const MOST_PAGES = 10_000

/** Answers with the exit code. */
export async function verifyDomains(
  wanted: readonly string[],
  flags: VerifyFlags,
  environment: NodeJS.ProcessEnv,
  print: Output
): Promise<number> {
  const key = environment.SLUICE_API_KEY ?? ''
  const wrong = usageProblem(flags, key)
  if (wrong !== undefined) {
    print.error(wrong)
    return ExitCode.usage
  }
  let subjects: Subject[]
  try {
    subjects = await subjectsOf(flags.api.replace(/\/+$/, ''), key)
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    print.error(error.message)
    return ExitCode.failure
  }
  const names = wanted.map((name) => name.toLowerCase().replace(/\.$/, ''))
  const missing = names.filter((name) => !subjects.some(({ domain }) => domain === name))
  for (const name of missing) print.error(`${name} is no reserved domain and no agent ingress of the account`)
  const chosen = names.length === 0 ? subjects : subjects.filter(({ domain }) => names.includes(domain))
  if (chosen.length === 0 && missing.length === 0) print.error('the account has no domains')
  const lookup = systemLookup(flags.dns)
  let sound = missing.length === 0
  for (const subject of chosen) sound = (await verifyOne(subject, lookup, flags.json === true, print)) && sound
  return sound ? ExitCode.ok : ExitCode.failure
}

function usageProblem({ api, dns = [] }: VerifyFlags, key: string): string | undefined {
  if (key === '') return 'set SLUICE_API_KEY to a key of the management API'
  if (!URL.canParse(api) || !/^https?:$/.test(new URL(api).protocol)) return `--api: ${api} is no http(s) URL`
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
    print.error(`${domain}: the DNS cannot be asked (${code})`)
    return false
  }
  if (json) for (const finding of findings) print.out(JSON.stringify({ domain, ...finding }))
  else for (const line of explained(domain, findings)) print.out(line)
  return findings.every(({ ok }) => ok)
}

function explained(domain: string, findings: readonly Finding[]): string[] {
  if (findings.length === 0) return [`${domain}: belongs to the service, nothing to do`]
  const lines = [`${domain}: ${findings.every(({ ok }) => ok) ? 'the DNS is right' : 'the DNS is not right yet'}`]
  for (const { name, type, must, says, ok, because } of findings) {
    lines.push(`  ${ok ? 'right' : 'WRONG'}  ${name} ${type}`)
    if (!ok) lines.push(`         must say  ${must}`, `         says now  ${says}`, `         because ${because}`)
  }
  return lines
}

async function subjectsOf(api: string, key: string): Promise<Subject[]> {
  const [domains, ingresses] = await Promise.all([
    all<DomainFacts>(api, reservedDomain, key),
    all<IngressFacts>(api, agentIngress, key)
  ])
  return [
    ...domains.map((facts) => ({ domain: facts.domain, verify: (lookup: Lookup) => verifyDomain(facts, lookup) })),
    ...ingresses.map((facts) => ({ domain: facts.domain, verify: (lookup: Lookup) => verifyIngress(facts, lookup) }))
  ]
}

/** Every record of a collection, page by page. Fails with a CodedError `API_UNUSABLE`. */
async function all<T>(api: string, { path, listKey }: Resource, key: string): Promise<T[]> {
  const records: T[] = []
  let query = ''
  for (let page = 0; page < MOST_PAGES; page++) {
    const body = await get(`${api}${path}?limit=100${query}`, key)
    const found = (body as Record<string, unknown>)[listKey]
    if (!Array.isArray(found))
      throw new CodedError(commandErrors.API_UNUSABLE, `${api} does not answer as a Sluice does`)
    records.push(...(found as T[]))
    const last = (found.at(-1) as { id?: string } | undefined)?.id
    if ((body as { next_page_uri?: unknown }).next_page_uri == null || last === undefined) break
    // The next page is asked of the address that was given: the API may know itself by another.
    query = `&before_id=${encodeURIComponent(last)}`
  }
  return records
}

async function get(url: string, key: string): Promise<object> {
  const unusable = (why: string, cause?: unknown) =>
    new CodedError(commandErrors.API_UNUSABLE, `${new URL(url).origin} ${why}`, cause === undefined ? {} : { cause })
  const headers = { authorization: `Bearer ${key}`, 'service-version': '2' }
  let answer: Response
  try {
    answer = await fetch(url, { headers, redirect: 'error', signal: AbortSignal.timeout(DEADLINE) })
  } catch (error) {
    throw unusable(`cannot be reached (${codeOf((error as Error).cause) ?? (error as Error).name})`, error)
  }
  if (answer.status === 401) throw unusable('does not accept the key in SLUICE_API_KEY')
  if (answer.status !== 200) throw unusable(`answered with status ${answer.status}`)
  const body: unknown = await answer.json().catch(() => undefined)
  if (typeof body !== 'object' || body === null) throw unusable('does not answer as a Sluice does')
  return body
}
