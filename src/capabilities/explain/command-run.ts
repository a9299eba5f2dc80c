import { readFile } from 'node:fs/promises'
import { ExitCode } from '../../cli/process.js'
import { printProblems, styleFor } from '../../cli/report.js'
import { openGeo } from '../../lib/geo.js'
import { parseAddress } from '../../lib/ip.js'
import { fileReason } from '../../lib/system-errors.js'
import { parseDuration } from '../../lib/units.js'
import type { Explanation } from './answers.js'
import { explanationText } from './explanation-text.js'
import type { ImaginedRequest } from './imagined-exchange.js'
import { PolicyBench, readFirewall } from './running-lab.js'

export interface TryFlags {
  readonly request: string
  readonly header: readonly string[]
  readonly data?: string
  readonly clientIp: string
  readonly at?: string
  readonly repeat: string
  readonly every: string
  readonly status: string
  readonly httpVersion: string
  readonly wafRules?: string
  readonly json?: boolean
}

/** Runs requests through a policy and says how each is decided. Resolves with the exit code. */
export async function tryPolicy(file: string, url: string, flags: TryFlags): Promise<number> {
  const read = readFlags(url, flags)
  if (typeof read === 'string') return refuse(read)
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    process.stderr.write(`error: ${file} cannot be read: ${fileReason(error)}\n`)
    return ExitCode.failure
  }
  const { now, request, repeat, every, stub } = read
  const { wafRules } = flags
  const bench = new PolicyBench({
    firewall: wafRules === undefined ? undefined : await readFirewall(wafRules),
    geo: await openGeo(),
    policy: { source: file, text },
    random: Math.random,
    reveal: true
  })
  const asked: string[] = []
  const made = bench.open({ now, stub, outside: ({ url: outside }) => void asked.push(outside) })
  if ('problems' in made) {
    printProblems(made.problems, process.stderr)
    return ExitCode.failure
  }
  printProblems(made.warnings, process.stderr)
  for (let n = 0; n < repeat; n++) {
    if (n > 0) made.clock.advance(every)
    const explanation = await made.lab.ask(request)
    show(explanation, asked.splice(0), { file, json: flags.json === true, first: n === 0 })
  }
  return ExitCode.ok
}

function show(
  explanation: Explanation,
  notAsked: readonly string[],
  { file, json, first }: { readonly file: string; readonly json: boolean; readonly first: boolean }
): void {
  const { out, style } = { out: process.stdout, style: styleFor(process.stdout, process.env) }
  if (json) {
    out.write(`${JSON.stringify({ ...explanation, not_asked: notAsked })}\n`)
    return
  }
  if (!first) out.write('\n')
  for (const line of explanationText(explanation, file, style)) out.write(`${line}\n`)
  for (const url of notAsked) out.write(`not requested: ${url}; the policy saw it as unreachable\n`)
}

interface Read {
  /** Wall time, milliseconds. */
  readonly now: number
  readonly request: ImaginedRequest
  readonly repeat: number
  /** Milliseconds. */
  readonly every: number
  readonly stub: { readonly status: number; readonly headers: readonly string[]; readonly body: Uint8Array }
}

const MOST_REPEATS = 1_000_000

/** Returns the parsed options, or an error message. */
function readFlags(url: string, flags: TryFlags): Read | string {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) return `${url} is no http(s) URL`
  const headers: string[] = []
  for (const line of flags.header) {
    const colon = line.indexOf(':')
    if (colon < 1) return `--header: "${line}" is no "name: value"`
    headers.push(line.slice(0, colon).trim(), line.slice(colon + 1).trim())
  }
  if (parseAddress(flags.clientIp) === undefined) return `--client-ip: ${flags.clientIp} is no IP address`
  const wall = flags.at === undefined ? Date.now() : Date.parse(flags.at)
  if (Number.isNaN(wall)) return `--at: ${flags.at} is no time such as 2026-01-31T12:00:00Z`
  const repeat = Number(flags.repeat)
  if (!Number.isInteger(repeat) || repeat < 1 || repeat > MOST_REPEATS) return '--repeat: a number from 1 to 1000000'
  const every = parseDuration(flags.every)
  if (every === undefined) return `--every: ${flags.every} is no duration such as 500ms, 10s or 5m`
  const status = Number(flags.status)
  if (!Number.isInteger(status) || status < 200 || status > 599) return '--status: a number from 200 to 599'
  const version = VERSIONS[flags.httpVersion]
  if (version === undefined) return '--http-version: 1.0, 1.1 or 2'
  return {
    now: wall,
    repeat,
    every,
    stub: { status, headers: ['content-type', 'text/plain'], body: Buffer.from('') },
    request: {
      method: flags.request,
      url: new URL(url),
      headers,
      version,
      clientAddress: flags.clientIp,
      clientPort: 50_000,
      ...(flags.data === undefined ? {} : { body: Buffer.from(flags.data) })
    }
  }
}

const VERSIONS: Readonly<Record<string, ImaginedRequest['version']>> = { '1.0': '1.0', '1.1': '1.1', '2': '2' }

function refuse(message: string): number {
  process.stderr.write(`error: ${message}\n(sluice try --help lists the flags)\n`)
  return ExitCode.usage
}
