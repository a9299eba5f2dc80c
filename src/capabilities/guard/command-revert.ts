import { askApi, openAccess } from '../../cli/api-client.js'
import { ExitCode } from '../../cli/process.js'
import type { RevisionReverted } from '../../control/revision-answers.js'
import { changedRecord } from '../../control/revision-text.js'
import { isObject } from '../../lib/json.js'
import { printable } from '../../lib/printable.js'
import { guardEnd, guardHeader, revisionOf, wrongGuard } from './command-guard.js'

export interface RevertFlags {
  readonly api: string
  readonly dryRun?: boolean
  readonly force?: boolean
  /** Conditions under which it stays. */
  readonly guard?: string
  readonly wait?: boolean
  readonly insecureHttp?: boolean
  readonly json?: boolean
}

/** Asks a running process to undo a revision. Resolves with the exit code. */
export async function revert(revision: string, flags: RevertFlags): Promise<number> {
  const access = openAccess(flags, process.env)
  if (typeof access === 'string') return refuse(access)
  if (!/^[1-9]\d{0,14}$/.test(revision)) return refuse(`${revision} is no revision`)
  const wrong = wrongGuard(flags)
  if (wrong !== undefined) return refuse(wrong)
  const query = [flags.dryRun === true ? 'dry_run=true' : '', flags.force === true ? 'force=true' : '']
  const path = `/revisions/${revision}/revert?${query.filter(Boolean).join('&')}`
  const headers = guardHeader(flags)
  const answer = await askApi(access, path.replace(/\?$/, ''), { method: 'POST', headers })
  const { status, body } = answer
  if (flags.json === true) process.stdout.write(`${JSON.stringify(body)}\n`)
  if (status !== 200) {
    if (flags.json !== true) process.stderr.write(`error: ${printable(String(body.msg))}\n`)
    return ExitCode.failure
  }
  const dryRun = flags.dryRun === true
  const reverted = (dryRun ? body.body : body) as RevisionReverted
  if (flags.json !== true) for (const line of shownLines(reverted, dryRun)) process.stdout.write(`${line}\n`)
  const waits = flags.wait === true && flags.dryRun !== true && isObject(body.revision)
  return waits ? await guardEnd(access, revisionOf(answer)) : ExitCode.ok
}

function shownLines({ revision, changes }: RevisionReverted, dryRun: boolean): string[] {
  if (changes.length === 0) return ['nothing to change']
  const end = dryRun || revision === null ? 'nothing was changed: --dry-run' : `reverted by revision ${revision.id}`
  return [...changes.map((change) => printable(changedRecord(change))), end]
}

function refuse(message: string): number {
  process.stderr.write(`error: ${message}\n(sluice revert --help lists the flags)\n`)
  return ExitCode.usage
}
