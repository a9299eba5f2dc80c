import { readdir, readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { policyProblems } from '../app/policy-check.js'
import { offline, policyServices } from '../app/services.js'
import { policyTesting } from '../capabilities/policy-tests/stored-tests.js'
import { looksLikeSiteFile, newVersionKey, readSiteFile } from '../capabilities/site-file/declared/site-file.js'
import { SITE_FILE } from '../control/declared-records.js'
import { actions } from '../features/registry.js'
import { systemClock } from '../lib/clock.js'
import { SourceText } from '../lib/positions.js'
import { Slices } from '../lib/slices.js'
import { fileReason } from '../lib/system-errors.js'
import { readListener } from '../options/values.js'
import { compilePolicy } from '../policy/compile.js'
import { judgePaths, type Problem } from '../policy/problems.js'
import type { PolicyServices } from '../policy/services.js'
import type { HostPort } from '../runtime/plan.js'
import { type Finding, formatFinding, jsonFinding, styleFor, summary } from './report.js'

export interface CheckOptions {
  readonly json: boolean
  /** What the file "-" stands for. */
  readonly input: Readable
  readonly out: { write(text: string): unknown; readonly isTTY?: boolean; readonly columns?: number }
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Checks the files in order and writes what it finds as it goes. True when every document is valid. */
export async function checkFiles(
  files: readonly string[],
  { json, input, out, environment }: CheckOptions
): Promise<boolean> {
  const services = policyServices(offline(actions))
  const style = styleFor(out, environment)
  const findings: Finding[] = []
  for (const file of files) {
    for (const finding of (await checkDocument(file, { input, services, environment })).findings) {
      findings.push(finding)
      const lines = json ? [jsonFinding(finding)] : formatFinding(finding, style)
      for (const line of lines) out.write(`${line}\n`)
    }
  }
  if (!json) out.write(`${summary(findings)}\n`)
  return findings.every(({ problems }) => problems.every(({ severity }) => severity !== 'error'))
}

interface Checking extends Pick<CheckOptions, 'input' | 'environment'> {
  readonly services: PolicyServices
}

/** One file that is named, as `checkFiles` checks it. */
export async function checkFile(file: string, environment: CheckOptions['environment']): Promise<Checked> {
  return await checkDocument(file, { input: process.stdin, services: policyServices(offline(actions)), environment })
}

interface Checked {
  readonly findings: readonly Finding[]
  /** Absolute paths of the files that a site file names. */
  readonly named: readonly string[]
  /** Where a site file without errors listens. */
  readonly listeners?: readonly HostPort[]
}

/** The findings of one document; of a site file those of the policies that it names stand behind its own. */
async function checkDocument(file: string, { input, services, environment }: Checking): Promise<Checked> {
  let bytes: Uint8Array
  try {
    bytes = file === '-' ? await buffer(input) : await readFile(file)
  } catch (error) {
    return { findings: [unreadable(file, fileReason(error))], named: [] }
  }
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    return { findings: [unreadable(file, 'it is no UTF-8 text')], named: [] }
  }
  if (looksLikeSiteFile(text)) return await checkSite(file, text, { services, environment })
  const source = new SourceText(text)
  const { problems } = compilePolicy(text, {
    owner: file,
    services,
    keep: { keep: (key, make) => make(JSON.stringify(key)) },
    actions,
    unavailable: 'warn'
  })
  // The strict form is the default.
  const judged = judgePaths(problems, true)
  return { findings: [{ file, problems: judged, line: (number) => source.line(number) }], named: [] }
}

async function checkSite(file: string, text: string, parts: Omit<Checking, 'input'>): Promise<Checked> {
  const {
    problems,
    files,
    file: site
  } = await readSiteFile({
    source: file,
    folder: file === '-' ? process.cwd() : dirname(resolve(file)),
    text,
    environment: parts.environment,
    readFile: (path) => readFile(path, 'utf8'),
    listFolder: (path) => readdir(path),
    policyProblems: policyProblems(parts.services, actions, () => true),
    testPolicy: policyTesting({ slices: () => new Slices() }),
    readListener,
    opened: new Map(),
    clock: systemClock,
    versionKey: newVersionKey(),
    zone: 'localhost',
    refuseExpired: true,
    policed: new Set()
  })
  const own = problems.some(({ key }) => key === SITE_FILE) ? [] : [{ source: file, text, problems: [] }]
  const findings = [...own, ...problems].map((one) => {
    const source = new SourceText(one.text)
    return { file: one.source, problems: one.problems, line: (number: number) => source.line(number) }
  })
  const listeners = site?.listeners.map(({ unit: { host, port } }) => ({ host, port })) ?? []
  return { findings, named: files, listeners }
}

function unreadable(file: string, reason: string): Finding {
  const place = { path: '', line: 1, column: 1, length: 1 }
  const message = `${file}: ${reason}`
  const problem: Problem = { severity: 'error', code: 'FILE_UNREADABLE', message, ...place }
  return { file, problems: [problem], line: () => '' }
}
