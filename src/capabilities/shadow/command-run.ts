import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ApiAccess, type ApiAnswer, askApi, openAccess, sendTo } from '../../cli/api-client.js'
import { failureText } from '../../cli/failure.js'
import { ExitCode } from '../../cli/process.js'
import { isObject } from '../../lib/json.js'
import { printable } from '../../lib/printable.js'
import type { ShadowView, ShownDecision } from './answers.js'

export interface ShadowFlags {
  readonly route: string
  readonly share: string
  readonly for: string
  readonly budget: string
  readonly counters: string
  readonly api: string
  readonly insecureHttp?: boolean
  readonly json?: boolean
}

/** Interval between checks of the counts (ms). */
const LOOK_EVERY = 500
/** Interval between lines of counts without a terminal (ms). */
const LINE_EVERY = 10_000
/** Exit code for different decisions, as for diff. */
const DIFFERS = ExitCode.failure
/** Exit code for an unknown result. */
const TROUBLE = ExitCode.usage

/** Runs a policy beside the one that a process serves and follows its counts to the end. Resolves with the exit code. */
export async function shadowPolicy(file: string, flags: ShadowFlags): Promise<number> {
  const access = openAccess(flags, process.env)
  if (typeof access === 'string') return refuse(access)
  const share = shareOf(flags.share)
  if (share === undefined) return refuse(`--share: ${flags.share} is no share such as 10% or 0.1`)
  const interrupted = new AbortController()
  const interrupt = () => interrupted.abort()
  try {
    const text = await readFile(file, 'utf8')
    const { route, budget, counters } = flags
    const body = { policies: [{ route, text }], share, budget, counters, duration: flags.for, name: file.slice(-1_024) }
    // Before the process runs it: an interruption that comes meanwhile must end it.
    process.once('SIGINT', interrupt).once('SIGTERM', interrupt)
    const { status, body: shadow } = await askApi(access, '/shadows', { method: 'POST', body })
    if (status !== 201) return fail(refusalText(file, shadow))
    return await follow(access, shadow as unknown as ShadowView, flags, interrupted.signal)
  } catch (error) {
    return fail(failureText(error))
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt)
  }
}

/** Follows a shadow until it ends, or a signal stops it. */
async function follow(
  access: ApiAccess,
  begun: ShadowView,
  flags: ShadowFlags,
  interrupted: AbortSignal
): Promise<number> {
  const path = `/shadows/${begun.id}`
  const progress = new Progress()
  try {
    let shadow = begun
    while (shadow.state === 'running' && !interrupted.aborted) {
      progress.show(countsOf(shadow))
      await sleep(LOOK_EVERY, undefined, { signal: interrupted }).catch(() => undefined)
      const { status, body } = await askApi(access, path)
      if (status !== 200) return fail('the shadow no longer exists: it was deleted, or the process was restarted')
      shadow = body as unknown as ShadowView
    }
    progress.end()
    return report(shadow, flags)
  } finally {
    await sendTo(access, path, { method: 'DELETE' }).catch(() => undefined)
  }
}

/** Counts while they change: one line on a terminal, else a line now and then. */
class Progress {
  #shownAt = Number.NEGATIVE_INFINITY
  #text = ''

  show(text: string): void {
    if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`)
    else if (text !== this.#text && performance.now() - this.#shownAt >= LINE_EVERY) {
      this.#shownAt = performance.now()
      process.stderr.write(`${text}\n`)
    }
    this.#text = text
  }

  end(): void {
    if (process.stderr.isTTY) process.stderr.write('\r\u001b[K')
  }
}

function report(shadow: ShadowView, { json }: ShadowFlags): number {
  if (json === true) process.stdout.write(`${JSON.stringify(shadow)}\n`)
  else for (const line of summary(shadow)) process.stdout.write(`${line}\n`)
  if (shadow.counts.changed > 0) return DIFFERS
  return shadow.counts.judged > 0 ? ExitCode.ok : TROUBLE
}

function summary(shadow: ShadowView): string[] {
  const lines = [countsOf(shadow)]
  const { ended_reason: ended, matrix = [] } = shadow
  if (ended !== null) lines.push(`ended: ${printable(ended)}`)
  const reasons = Object.entries(shadow.not_judged)
  if (reasons.length > 0)
    lines.push(printable(`not judged: ${reasons.map(([reason, count]) => `${reason} ${count}`).join(', ')}`))
  for (const { differs, count, old, new: now, examples } of matrix) {
    if (differs.length === 0) continue
    const what = differs.includes('decision') ? '' : ` (${differs.join(' and ')})`
    lines.push(`${count}: ${decisionText(old)} → ${decisionText(now)}${what}`)
    for (const { request } of examples)
      lines.push(printable(`    ${request.method} ${request.host}${request.path} from ${request.client_ip}`))
  }
  return lines
}

function countsOf({ counts }: ShadowView): string {
  const { seen, judged, changed, not_judged, over_budget, dropped } = counts
  const text = `${seen} seen, ${judged} judged, ${changed} changed, ${not_judged} not judged`
  return `${text}${over_budget > 0 ? `, ${over_budget} over budget` : ''}${dropped > 0 ? `, ${dropped} dropped` : ''}`
}

function decisionText({ decision, status, code, by }: ShownDecision): string {
  const rule = by === null ? '' : ` by ${by.rule}`
  const answer = [status, code].filter((part) => part !== null).join(' ')
  return printable(`${decision}${answer === '' ? '' : ` ${answer}`}${rule}`)
}

/** `10%` or `0.1`. */
function shareOf(text: string): number | undefined {
  const [, digits, percent] = /^(\d{1,3}(?:\.\d{1,6})?)(%?)$/.exec(text) ?? []
  const share = digits === undefined ? Number.NaN : Number(digits) / (percent === '%' ? 100 : 1)
  return share > 0 && share <= 1 ? share : undefined
}

/** Formats the errors of a policy with their positions. */
function refusalText(file: string, { msg, details }: ApiAnswer['body']): string {
  const { line, column } = isObject(details) ? details : {}
  const place = line === undefined ? '' : `${file}:${line}:${column}: `
  return printable(`${place}${String(msg)}`)
}

function fail(message: string): number {
  process.stderr.write(`error: ${message}\n`)
  return TROUBLE
}

function refuse(message: string): number {
  process.stderr.write(`error: ${message}\n(sluice shadow --help lists the flags)\n`)
  return ExitCode.usage
}
