import { accessFor, askApi, printApiError } from '../../cli/api-client.js'
import { ExitCode } from '../../cli/process.js'
import { styleFor } from '../../cli/report.js'
import type { RevisionDiff } from '../../control/revision-answers.js'
import { type DiffLineKind, diffLines } from '../../control/revision-text.js'

export interface DiffFlags {
  readonly api: string
  readonly from?: string
  readonly insecureHttp?: boolean
  readonly json?: boolean
}

const NUMBER = /^[1-9]\d{0,14}$/

/** Asks a running process what a revision changed, or how two differ. Resolves with the exit code. */
export async function diff(revision: string, flags: DiffFlags): Promise<number> {
  const access = accessFor('diff', flags)
  if (typeof access === 'number') return access
  if (!NUMBER.test(revision)) return refuse(`${revision} is no revision`)
  if (flags.from !== undefined && flags.from !== '0' && !NUMBER.test(flags.from))
    return refuse(`--from: ${flags.from} is no revision`)
  const query = flags.from === undefined ? '' : `?from=${flags.from}`
  const { status, body } = await askApi(access, `/revisions/${revision}/diff${query}`)
  if (flags.json === true) process.stdout.write(`${JSON.stringify(body)}\n`)
  if (status !== 200) return flags.json === true ? ExitCode.failure : printApiError(body)
  if (flags.json === true) return ExitCode.ok
  const { colors } = styleFor(process.stdout, process.env)
  const painted = (kind: DiffLineKind, text: string) =>
    colors && kind !== 'plain' ? `${COLORS[kind]}${text}${RESET}` : text
  const lines = diffLines(body as unknown as RevisionDiff).map(({ kind, text }) => painted(kind, text))
  process.stdout.write(`${lines.join('\n')}\n`)
  return ExitCode.ok
}

const RESET = '\u001b[0m'
const COLORS: Readonly<Record<Exclude<DiffLineKind, 'plain'>, string>> = {
  heading: '\u001b[1m',
  created: '\u001b[32m',
  updated: '\u001b[33m',
  deleted: '\u001b[31m',
  hunk: '\u001b[36m'
}

function refuse(message: string): number {
  process.stderr.write(`error: ${message}\n(sluice diff --help lists the flags)\n`)
  return ExitCode.usage
}
