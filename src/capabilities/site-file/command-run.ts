import { readdir, readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { commandErrors } from '../../app/errors.js'
import { type ApiAccess, type ApiAnswer, apiAccess, askApi, isExposed, unusable } from '../../cli/api-client.js'
import { confirmed } from '../../cli/confirm.js'
import { ExitCode } from '../../cli/process.js'
import { printProblems } from '../../cli/report.js'
import { explained } from '../../cli/store-place.js'
import { readTextFile } from '../../cli/text-file.js'
import { systemClock } from '../../lib/clock.js'
import { CodedError, codeOf } from '../../lib/errors.js'
import { fileErrors, shownPath } from '../../lib/files.js'
import { isObject } from '../../lib/json.js'
import { printable, shorten } from '../../lib/printable.js'
import { readListener } from '../../options/values.js'
import type { Problem, UnitProblems } from '../../policy/problems.js'
import { guardEnd, guardHeader, revisionOf, wrongGuard } from '../guard/command-guard.js'
import type { SiteDifference } from './declared/differences.js'
import { newVersionKey, readSiteFile } from './declared/site-file.js'
import { uncheckedPolicies } from './declared/site-input.js'
import type { BundledFile, RemovedRecord, SiteBundle } from './declared/site-request.js'

/** Common options of the commands on the site file of a running process. */
interface SiteFlags {
  readonly api: string
  readonly insecureHttp?: boolean
  readonly json?: boolean
}

export interface ApplyFlags extends SiteFlags {
  readonly yes?: boolean
  /** Conditions under which it stays. */
  readonly guard?: string
  readonly wait?: boolean
  /** File of `sluice adopt` with the records that the site file replaces. */
  readonly adopt?: string
}

/** Exit codes of `sluice plan`: those of `diff`, except that no difference is 0 and an error 1. */
const PlanCode = { same: 0, failure: 1, different: 2 } as const

/** Result of applying a file. */
interface Plan {
  readonly changes: readonly SiteDifference[]
  readonly removed: readonly { readonly resource: string; readonly id: string }[]
  readonly warnings: readonly Omit<Problem & { readonly file: string }, 'severity'>[]
  /** Revision of the applied file being served; 0 if there is none. */
  readonly revision: number
  /** The process was started with a site file, and refuses another one. */
  readonly fixed: boolean
}

/** Prints the changes that the file would make in the running process; resolves with the exit code. */
export async function planSite(path: string, flags: ApplyFlags): Promise<number> {
  try {
    const { access, bundle, remove } = await prepared(path, flags)
    const plan = await planned(access, bundle, remove)
    if (plan === undefined) return PlanCode.failure
    show(bundle, plan, flags)
    return plan.changes.length + plan.removed.length === 0 ? PlanCode.same : PlanCode.different
  } catch (error) {
    return explained(error, 'nothing was compared')
  }
}

/** Makes the running process serve the file; resolves with the exit code. */
export async function applySite(path: string, flags: ApplyFlags): Promise<number> {
  try {
    const wrong = wrongGuard(flags)
    if (wrong !== undefined) {
      console.error(`error: ${wrong}`)
      return ExitCode.usage
    }
    const { access, bundle, remove } = await prepared(path, flags)
    const guard = guardHeader(flags)
    const plan = await planned(access, bundle, remove, guard)
    if (plan === undefined) return ExitCode.failure
    show(bundle, plan, flags)
    const differs = plan.changes.length + plan.removed.length > 0
    if (differs && !plan.fixed && flags.yes !== true) {
      const agreed = await confirmed('Apply this?')
      if (agreed === undefined) {
        console.error('no terminal to ask for confirmation: use --yes, or run "sluice plan"')
        return ExitCode.usage
      }
      if (!agreed) {
        console.error('nothing was applied')
        return ExitCode.failure
      }
    }
    // Apply exactly the displayed plan: if the file was applied meanwhile, the request is rejected.
    const headers = { 'if-match': `"${plan.revision}"`, ...guard }
    const answer = await askApi(access, '/site', { method: 'PUT', body: { ...bundle, remove }, headers })
    if (answer.status !== 200) return refused(bundle, answer)
    if (flags.json !== true) console.log('applied')
    return differs && flags.wait === true ? await guardEnd(access, revisionOf(answer)) : ExitCode.ok
  } catch (error) {
    return explained(error, 'nothing was applied')
  }
}

/** Fails with a CodedError `API_UNUSABLE`, `API_EXPOSED` or `FILE_UNREADABLE`. */
async function prepared(path: string, flags: ApplyFlags) {
  const access = apiAccess(flags.api, process.env)
  if (typeof access === 'string') throw new CodedError(commandErrors.API_UNUSABLE, access)
  if (flags.insecureHttp !== true && isExposed(access)) {
    const message = `keys and secrets would cross the network in clear text to ${access.url}; use https, or --insecure-http`
    throw new CodedError(commandErrors.API_EXPOSED, message)
  }
  const remove = flags.adopt === undefined ? [] : await adopted(flags.adopt)
  return { access, bundle: await bundleOf(path), remove }
}

/** The records of a file that `sluice adopt` has written. */
async function adopted(path: string): Promise<RemovedRecord[]> {
  const text = await readTextFile(path)
  let data: unknown
  try {
    data = JSON.parse(text)
  } catch {
    data = undefined
  }
  const records = isObject(data) ? data.records : undefined
  if (Array.isArray(records)) return records as RemovedRecord[]
  throw new CodedError(fileErrors.FILE_UNREADABLE, `${path} is not a records.json of "sluice adopt"`)
}

/**
 * The file with everything that it names. References to the environment are the server's: here every variable has a value,
 * and the server alone judges the file.
 */
async function bundleOf(path: string): Promise<SiteBundle> {
  const text = await readTextFile(path)
  const files = new Map<string, BundledFile>()
  await readSiteFile({
    source: path,
    folder: dirname(resolve(path)),
    text,
    environment: new Proxy({}, { get: () => 'x' }),
    readFile: async (place, name) => {
      try {
        const content = await readFile(place, 'utf8')
        files.set(name, { name, text: content })
        return content
      } catch (error) {
        const code = codeOf(error)
        if (code !== undefined) files.set(name, { name, error: code })
        throw error
      }
    },
    listFolder: (path) => readdir(path),
    policyProblems: uncheckedPolicies,
    readListener,
    opened: new Map(),
    clock: systemClock,
    versionKey: newVersionKey(),
    zone: 'localhost',
    refuseExpired: false,
    policed: new Set()
  })
  return { file: shownPath(resolve(path)), text, files: [...files.values()] }
}

/** Runs a dry run; returns undefined after printing its errors. */
async function planned(
  access: ApiAccess,
  bundle: SiteBundle,
  remove: readonly RemovedRecord[],
  headers: Readonly<Record<string, string>> = {}
): Promise<Plan | undefined> {
  const answer = await askApi(access, '/site?dry_run=true', { method: 'PUT', body: { ...bundle, remove }, headers })
  if (answer.status !== 200) {
    refused(bundle, answer)
    return undefined
  }
  const { body } = answer.body
  if (!isObject(body) || !Array.isArray(body.changes)) throw unusable(access, 'does not respond like a Sluice API')
  const { changes, removed = [], warnings = [] } = body as unknown as Plan
  return { changes, removed, warnings, revision: Number(body.revision ?? 0), fixed: body.origin === 'start' }
}

/** Prints the API's errors, in the form of `sluice check` if they have positions. */
function refused(bundle: SiteBundle, { status, body }: ApiAnswer): number {
  const {
    details,
    msg,
    error_code: code,
    problems
  } = body as {
    readonly details?: Readonly<Record<string, string>>
    readonly msg?: string
    readonly error_code?: string
    readonly problems?: readonly Readonly<Record<string, string>>[]
  }
  const found =
    problems ?? (details?.code === undefined ? [] : [{ ...details, error_code: details.code, msg: messageOf(msg) }])
  if (found.length === 0 || found.some((one) => one.line === undefined)) {
    console.error(printable(`${String(code)}: ${String(msg)} (status ${status})`))
    return ExitCode.failure
  }
  const texts = textsOf(bundle)
  printProblems(
    found.map((one) => asUnit(one, texts)),
    process.stderr
  )
  return ExitCode.failure
}

/** The texts of a site file and of the files that it names. */
function textsOf({ file, text, files }: SiteBundle): ReadonlyMap<string, string> {
  return new Map([[file, text], ...files.flatMap((one) => ('text' in one ? [[one.name, one.text] as const] : []))])
}

/** The message of a single problem begins with its place, which the report shows anyway. */
function messageOf(msg = ''): string {
  return msg.replace(/^[^\s]+:\d+:\d+: /, '')
}

function asUnit(one: Readonly<Record<string, string>>, texts: ReadonlyMap<string, string>): UnitProblems {
  const { file = '', path = '', line, column, length, msg = '' } = one
  const code = String(one.error_code).replace(/^ERR_SLUICE_/, '')
  const place = { path, line: Number(line), column: Number(column), length: Number(length ?? 1) }
  const problem: Problem = { severity: 'error', code, message: msg, ...place }
  return { key: file, source: file, text: texts.get(file) ?? '', problems: [problem] }
}

const SIGNS = { added: '+', changed: '~', removed: '-' } as const

function show(bundle: SiteBundle, plan: Plan, { json }: SiteFlags): void {
  const { changes, removed, warnings } = plan
  const { file } = bundle
  if (json === true) {
    console.log(JSON.stringify({ file, different: changes.length + removed.length > 0, changes, removed, warnings }))
    return
  }
  const texts = textsOf(bundle)
  printProblems(
    warnings.map((one) => {
      const problem: Problem = { ...one, severity: 'warning' }
      return { key: one.file, source: one.file, text: texts.get(one.file) ?? '', problems: [problem] }
    }),
    process.stderr
  )
  for (const line of formatPlan(file, plan)) console.log(line)
}

/** One line for each thing that changes, with its fields below it, and the numbers at the end. */
function formatPlan(file: string, { changes, removed }: Plan): string[] {
  const lines = changes.flatMap(({ change, kind, name, line, file: own, fields, secrets }) => [
    `${SIGNS[change]} ${kind} ${printable(name)}${change === 'removed' ? '' : ` (${printable(own ?? file)}:${line})`}`,
    ...fields.map(({ field, before, after }) => `    ${printable(field)}: ${short(before)} -> ${short(after)}`),
    ...secrets.map((field) => `    ${printable(field)}: changed (a secret)`)
  ])
  for (const { resource, id } of removed) lines.push(`- ${resource} ${id}, which the API has made`)
  const count = (change: SiteDifference['change']) => changes.filter((one) => one.change === change).length
  const gone = count('removed') + removed.length
  const total = `${count('added')} added, ${count('changed')} changed, ${gone} removed`
  return [...lines, changes.length + removed.length === 0 ? 'nothing changes' : total]
}

const LONGEST = 80

function short(value: unknown): string {
  return shorten(printable(JSON.stringify(value)), LONGEST)
}
