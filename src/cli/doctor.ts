import { statSync } from 'node:fs'
import { join } from 'node:path'
import { namesOptions } from '../app/server-services.js'
import { systemClock } from '../lib/clock.js'
import { packageRoot } from '../lib/files.js'
import { formatAuthority } from '../lib/host.js'
import { createNames } from '../lib/names/names.js'
import { printable } from '../lib/printable.js'
import { formatOptionProblem } from '../options/catalogue.js'
import { loadOptions, type OptionFlag } from '../options/load.js'
import type { Options } from '../options/options.js'
import type { Finding } from './doctor-finding.js'
import {
  checkClock,
  checkCounters,
  checkData,
  checkFirewall,
  checkLimits,
  checkMemory,
  checkNode,
  checkPorts,
  checkUpstream,
  memoryLimit,
  processLimits
} from './doctor-machine.js'
import { checkCertificates, checkCopy, checkFilesOf, checkKeys, checkStore } from './doctor-records.js'
import { ExitCode } from './process.js'
import { paint, styleFor } from './report.js'

const ANSWER_MILLISECONDS = 2_000

interface DoctorInput {
  readonly flags: readonly OptionFlag[]
  readonly config?: string
  readonly json: boolean
}

/**
 * Checks all requirements of a start, without changes. Prints each finding with advice; resolves with the exit code: 1 if
 * there is an error, 2 if the options cannot be read.
 */
export async function doctor({ json, ...input }: DoctorInput): Promise<number> {
  const loaded = await loadOptions({ ...input, environment: process.env, folder: process.cwd() })
  if (!loaded.ok) {
    for (const problem of loaded.problems) console.error(formatOptionProblem(problem))
    return ExitCode.usage
  }
  const options: Finding[] = loaded.warnings.map((warning) => {
    return { check: 'options', status: 'warning', message: formatOptionProblem(warning), help: 'correct or remove it' }
  })
  const findings = [...options, ...(await examine(loaded.options))]
  const bad = findings.some(({ status }) => status === 'error')
  if (json) console.log(JSON.stringify({ ok: !bad, findings }, undefined, 2))
  else show(findings)
  return bad ? ExitCode.failure : ExitCode.ok
}

async function examine(options: Options): Promise<Finding[]> {
  const now = systemClock.wall()
  const lookup = createNames(namesOptions(options), systemClock).forSockets
  const { findings: ofStore, facts } = await checkStore(options, lookup)
  const running = facts?.holder !== undefined || (await apiAnswers(options))
  const files = await checkFilesOf(options, process.env)
  const times = { now, built: builtAt(), committedAt: facts?.committedAt, serverTime: facts?.serverTime }
  return [
    checkNode(process.versions.node),
    ...(await checkData(options)),
    ...checkCounters(options),
    ...(await checkKeys(options, facts, process.env)),
    ...(await checkCopy(options, facts, process.env)),
    ...ofStore,
    ...(await checkPorts(options, running, files.listeners)),
    ...(await checkUpstream(options)),
    ...(await checkFirewall(options)),
    ...(await checkCertificates(options, facts, files.named, now)),
    ...checkClock(times),
    ...checkLimits(await processLimits(), options),
    ...checkMemory(await memoryLimit(), options),
    ...files.findings
  ]
}

/** Does a Sluice process respond at the API's address? */
async function apiAnswers({ api }: Options): Promise<boolean> {
  const { host, port } = api.listen
  if (port === 0) return false
  const here = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  try {
    const answer = await fetch(`http://${formatAuthority(here, port)}/healthz`, {
      signal: AbortSignal.timeout(ANSWER_MILLISECONDS)
    })
    const body = (await answer.json()) as { readonly status?: unknown }
    return typeof body.status === 'string'
  } catch {
    return false
  }
}

/** Returns the build time of the installed version (ms since the Unix epoch). */
function builtAt(): number {
  return statSync(join(packageRoot(), 'package.json')).mtimeMs
}

const SIGNS = { ok: 'ok     ', warning: 'warning', error: 'error  ' } as const
const COLORS = { ok: 'faint', warning: 'warning', error: 'error' } as const

function show(findings: readonly Finding[]): void {
  const style = styleFor(process.stdout, process.env)
  for (const { check, status, message, help } of findings) {
    console.log(`${paint(SIGNS[status], COLORS[status], style)}  ${check.padEnd(12)}  ${printable(message)}`)
    if (help !== undefined) console.log(`${' '.repeat(23)}> ${printable(help)}`)
  }
  const count = (wanted: Finding['status']) => findings.filter(({ status }) => status === wanted).length
  console.log(`${findings.length} checks: ${count('error')} failed, ${count('warning')} with warnings`)
}
