import { readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { offline, policyServices } from '../app/services.js'
import { documentKinds } from '../capabilities/registry.js'
import { actions } from '../features/registry.js'
import { SourceText } from '../lib/positions.js'
import { fileReason } from '../lib/system-errors.js'
import { compilePolicy } from '../policy/compile.js'
import { judgePaths, type Problem } from '../policy/problems.js'
import type { PolicyServices } from '../policy/services.js'
import type { Checked } from './documents.js'
import { type Finding, formatFinding, jsonFinding, styleFor, summary } from './report.js'

export interface CheckOptions {
  readonly json: boolean
  /** Input for the file "-". */
  readonly input: Readable
  readonly out: { write(text: string): unknown; readonly isTTY?: boolean; readonly columns?: number }
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Checks the files in order, and writes each result immediately. Resolves with true if every document is valid. */
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

/** Checks one document: a kind of a capability, or a policy. */
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
  for (const load of documentKinds().values()) {
    const kind = await load()
    if (kind.matches(text)) return await kind.check({ file, text, services, environment })
  }
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

function unreadable(file: string, reason: string): Finding {
  const place = { path: '', line: 1, column: 1, length: 1 }
  const message = `${file}: ${reason}`
  const problem: Problem = { severity: 'error', code: 'FILE_UNREADABLE', message, ...place }
  return { file, problems: [problem], line: () => '' }
}
