import { readFile } from 'node:fs/promises'
import { type AccessFlags, type ApiAccess, accessFor, askApi, printApiError } from '../../cli/api-client.js'
import { ExitCode } from '../../cli/process.js'
import { styleFor } from '../../cli/report.js'
import type { Json } from '../../lib/json.js'
import { printable } from '../../lib/printable.js'
import type { Comparison, ExchangeView } from './answers.js'
import { type CriteriaFlags, criteriaOf, printExchange } from './command-log.js'

export interface ReplayFlags extends AccessFlags, CriteriaFlags {
  readonly request?: string
  readonly url?: string
  readonly header: readonly string[]
  readonly data?: string
  readonly policy: readonly string[]
  readonly capacity?: string
  readonly capacityOf?: string
  readonly counters?: string
  readonly limit: string
  readonly archive?: string
  readonly json?: boolean
}

/** Sends a recorded request again, or decides recorded ones by other policies. Resolves with the exit code. */
export async function replay(id: string | undefined, flags: ReplayFlags): Promise<number> {
  const access = accessFor('replay', flags)
  if (typeof access === 'number') return access
  return id === undefined ? await compare(access, flags) : await again(access, id, flags)
}

async function again(access: ApiAccess, id: string, flags: ReplayFlags): Promise<number> {
  const headers: Record<string, Json> = {}
  for (const line of flags.header) {
    const colon = line.indexOf(':')
    if (colon < 1) return refuse(`--header: "${line}" is no "name: value"; "name:" removes the header`)
    const value = line.slice(colon + 1).trim()
    headers[line.slice(0, colon).trim()] = value === '' ? null : value
  }
  const { request: method, url, data } = flags
  const body = {
    ...(method === undefined ? {} : { method }),
    ...(url === undefined ? {} : { url }),
    ...(data === undefined ? {} : { body: data }),
    headers
  }
  const answer = await askApi(access, `/exchanges/${encodeURIComponent(id)}/replay`, { method: 'POST', body })
  if (answer.status !== 200) return printApiError(answer.body)
  if (flags.json === true) process.stdout.write(`${JSON.stringify(answer.body)}\n`)
  else printExchange(answer.body as unknown as ExchangeView, styleFor(process.stdout, process.env))
  return ExitCode.ok
}

/** Exit code of a comparison that found differences. */
const DIFFERENT = 1

async function compare(access: ApiAccess, flags: ReplayFlags): Promise<number> {
  const policies: { route: string; text: string }[] = []
  for (const one of flags.policy) {
    const equals = one.indexOf('=')
    const [route, file] = equals === -1 ? ['default', one] : [one.slice(0, equals), one.slice(equals + 1)]
    const text = await readText(file)
    if (text === undefined) return ExitCode.failure
    policies.push({ route, text })
  }
  const values = flags.capacity?.split(',').map(Number)
  if (values?.some((value) => !Number.isInteger(value) || value < 1) === true)
    return refuse('--capacity: numbers from 1, such as 60,80,100')
  const limit = Number(flags.limit)
  if (!Number.isInteger(limit) || limit < 1) return refuse('--limit: a number from 1 to 100000')
  const archive = flags.archive === undefined ? undefined : await readArchive(flags.archive)
  if (flags.archive !== undefined && archive === undefined) return ExitCode.failure
  const { capacityOf: rule, counters } = flags
  const body = {
    policies,
    exchanges: criteriaOf(flags),
    limit,
    ...(counters === undefined ? {} : { counters }),
    ...(archive === undefined ? {} : { archive }),
    ...(values === undefined ? {} : { capacities: { values, ...(rule === undefined ? {} : { rule }) } })
  }
  const answer = await askApi(access, '/replay', { method: 'POST', body, deadline: COMPARED_WITHIN })
  if (answer.status !== 200) return printApiError(answer.body)
  const compared = answer.body as unknown as Comparison
  if (flags.json === true) process.stdout.write(`${JSON.stringify(compared)}\n`)
  else for (const line of comparedLines(compared)) process.stdout.write(`${printable(line)}\n`)
  return compared.changed > 0 ? DIFFERENT : ExitCode.ok
}

/** A hundred thousand exchanges beside traffic take their time. Milliseconds. */
const COMPARED_WITHIN = 600_000

function comparedLines(compared: Comparison): string[] {
  const { exchanges, clients, from, to, same, changed, not_judged, matrix, refused, recorded, capacities } = compared
  if (exchanges === 0) return ['no recorded request matches; see sluice log']
  const lines = [
    `${exchanges} exchanges of ${clients} clients, ${from} to ${to}`,
    `same ${same}, changed ${changed}, not judged ${not_judged}`
  ]
  if (recorded.other > 0)
    lines.push(`the running configuration decides ${recorded.other} of them differently than recorded`)
  for (const { old, new: now, count, clients: of, examples } of matrix) {
    if (old === now) continue
    lines.push(`${old} → ${now}: ${count} of ${of} clients`)
    for (const { method, url, client_ip, old_rule, new_rule, reason, id } of examples) {
      const rule = new_rule ?? old_rule
      const why = reason ?? (rule === null ? '' : `rule "${rule}"`)
      lines.push(`  ${client_ip} ${method} ${url}${why === '' ? '' : `: ${why}`}${id === null ? '' : ` (${id})`}`)
    }
  }
  lines.push(`refused: ${refusedText(refused.old)} before, ${refusedText(refused.new)} after`)
  for (const { capacity, refused: by } of capacities ?? [])
    lines.push(
      `capacity ${capacity} would have refused ${by.exchanges} of ${exchanges} requests, ${by.clients} clients`
    )
  return lines
}

function refusedText({ exchanges, clients }: Comparison['refused']['old']): string {
  return `${exchanges} of ${clients} clients`
}

async function readText(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    process.stderr.write(`error: ${file} cannot be read (${(error as NodeJS.ErrnoException).code})\n`)
    return undefined
  }
}

/** The entries of an archive, one in each line. */
async function readArchive(file: string): Promise<string | undefined> {
  const text = await readText(file)
  if (text === undefined) return undefined
  try {
    const { log } = JSON.parse(text) as { readonly log?: { readonly entries?: unknown } }
    if (Array.isArray(log?.entries)) return log.entries.map((entry) => JSON.stringify(entry)).join('\n')
    process.stderr.write(`error: ${file} is no HTTP Archive: log.entries is missing\n`)
  } catch {
    process.stderr.write(`error: ${file} is no JSON\n`)
  }
  return undefined
}

function refuse(message: string): number {
  process.stderr.write(`error: ${message}\n(sluice replay --help lists the flags)\n`)
  return ExitCode.usage
}
