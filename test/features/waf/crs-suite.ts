import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parse } from 'yaml'
import { setRequestBody, setResponseBody, setResponseHead } from '../../../src/features/waf/engine/body-values.js'
import { setRequestHead } from '../../../src/features/waf/engine/request-values.js'
import { type RulePhase, RuleSet } from '../../../src/features/waf/engine/rule-set.js'
import { Transaction } from '../../../src/features/waf/engine/transaction.js'
import { readRuleFolder } from '../../../src/features/waf/folder.js'
import { readRuleSet } from '../../../src/features/waf/seclang/reader.js'
import { atOnce } from '../../../src/lib/slices.js'

/** Folder with the rules and regression tests of CRS; undefined where there is none. */
export const crsFolder: string | undefined = [process.env.SLUICE_CRS ?? '', resolve('../shared/crs')]
  .filter((folder) => folder !== '')
  .find((folder) => existsSync(join(folder, 'rules')) && existsSync(join(folder, 'tests')))

/** One stage of a test case, as go-ftw reads it. */
interface Stage {
  readonly input: {
    readonly method?: string
    readonly uri?: string
    readonly version?: string
    readonly headers?: Readonly<Record<string, string>>
    readonly data?: string
    readonly encoded_request?: string
    readonly autocomplete_headers?: boolean
  }
  readonly output: {
    readonly status?: number
    readonly log?: {
      readonly expect_ids?: readonly number[]
      readonly no_expect_ids?: readonly number[]
      readonly match_regex?: string
      readonly no_match_regex?: string
    }
  }
}

export interface SuiteCase {
  /** Rule and number: `942100-3`. */
  readonly name: string
  readonly stages: readonly Stage[]
}

/** Reads the cases of all files. */
export function readCases(folder: string): SuiteCase[] {
  const tests = join(folder, 'tests')
  return readdirSync(tests)
    .sort()
    .flatMap((group) =>
      readdirSync(join(tests, group))
        .sort()
        .map((file) => join(tests, group, file))
    )
    .flatMap((file) => {
      const document = parse(readFileSync(file, 'utf8')) as {
        readonly rule_id: number
        readonly tests: readonly { readonly test_id: number; readonly stages: readonly Stage[] }[]
      } | null
      if (document === null) return []
      return document.tests.map(({ test_id, stages }) => ({ name: `${document.rule_id}-${test_id}`, stages }))
    })
}

/** Settings with which the tests are run: all paranoia levels, and limits that some tests exceed. */
const SETTINGS = `
SecAction "id:900999,phase:1,pass,nolog,\\
  setvar:tx.blocking_paranoia_level=4,setvar:tx.reporting_level=4,setvar:tx.crs_validate_utf8_encoding=1,\\
  setvar:tx.arg_name_length=100,setvar:tx.arg_length=400,setvar:tx.total_arg_length=64000,setvar:tx.max_num_args=255,\\
  setvar:tx.max_file_size=64100,setvar:tx.combined_file_sizes=65535"
`

/** Reads and compiles the rules of the folder with the settings of the tests. */
export function compileSuiteRules(folder: string): Promise<RuleSet> {
  return compileCrs(folder, SETTINGS)
}

/** Reads and compiles the rules of the folder. `settings`: directives after those of the set-up file. */
export async function compileCrs(folder: string, settings: string, skipUnknown = false): Promise<RuleSet> {
  const { files, data, digest } = await readRuleFolder(folder)
  const [setup, ...rules] = files
  if (setup === undefined) throw new Error('the folder has no rules')
  const source = readRuleSet([setup, { name: 'settings', text: settings }, ...rules], skipUnknown)
  return atOnce(RuleSet.compile(source, { digest, data: (name) => data.get(name), skipUnknown }))
}

/** Request of a stage as bytes of Latin-1. */
interface Message {
  readonly method: string
  readonly target: string
  readonly protocol: string
  readonly headers: readonly string[]
  readonly body: Buffer
}

/** Returns why a stage does not have the expected outcome; undefined if it has. */
export function runStage(rules: RuleSet, { input, output }: Stage): string | undefined {
  const message = messageOf(input)
  const refused = statusWithoutRules(message)
  const log = output.log ?? {}
  const outcome = refused === undefined ? evaluate(rules, message) : { ids: [], lines: [] }
  const ids = new Set(outcome.ids)
  if (output.status !== undefined && output.status !== (refused ?? 200))
    return `status ${refused ?? 200}, not ${output.status}`
  if (refused !== undefined && output.status === undefined && (log.expect_ids ?? []).length > 0)
    return `refused with ${refused}`
  const missing = (log.expect_ids ?? []).filter((id) => !ids.has(id))
  if (missing.length > 0 && refused === undefined) return `${missing.join(', ')} did not match`
  const unexpected = (log.no_expect_ids ?? []).filter((id) => ids.has(id))
  if (unexpected.length > 0) return `${unexpected.join(', ')} matched`
  const { match_regex: wanted, no_match_regex: unwanted } = log
  if (wanted !== undefined && !outcome.lines.some((line) => new RegExp(wanted).test(line)))
    return `no line matches ${wanted}`
  if (unwanted !== undefined && outcome.lines.some((line) => new RegExp(unwanted).test(line)))
    return `a line matches ${unwanted}`
  return undefined
}

function evaluate(
  rules: RuleSet,
  message: Message
): { readonly ids: readonly number[]; readonly lines: readonly string[] } {
  const plan = rules.plan(undefined)
  const transaction = new Transaction({ budget: 2_000_000_000, fixed: plan.fixed, detectionOnly: true })
  const run = (phase: RulePhase) => atOnce(plan.run(phase, transaction))
  setRequestHead(transaction, {
    id: '018f-1',
    method: message.method,
    target: message.target,
    protocol: message.protocol,
    headers: message.headers,
    clientAddress: '192.0.2.7',
    clientPort: 40_000,
    serverName: 'localhost',
    serverPort: 80
  })
  run(1)
  setRequestBody(transaction, { bytes: message.body, truncated: false }, message.headers)
  run(2)
  const response = responseOf(message)
  setResponseHead(transaction, { ...response, protocol: message.protocol })
  run(3)
  setResponseBody(transaction, { bytes: response.body, truncated: false })
  run(4)
  run(5)
  return {
    ids: transaction.reported.map(({ id }) => id),
    lines: transaction.reported.map(({ id, message: text, data }) => `[id "${id}"] [msg "${text}"] [data "${data}"]`)
  }
}

/** Response that a request to `/reflect` asks for. */
interface Reflected {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly encodedBody?: string
}

/** Response of the backend of the tests: `/reflect` answers what the JSON of the request says. */
function responseOf({ target, body }: Message): { status: number; headers: string[]; body: Buffer } {
  if (!target.startsWith('/reflect')) return { status: 200, headers: [], body: Buffer.alloc(0) }
  let wanted: Reflected
  try {
    wanted = JSON.parse(body.toString('utf8')) as Reflected
  } catch {
    return { status: 400, headers: [], body: Buffer.alloc(0) }
  }
  const { encodedBody, body: text = '' } = wanted
  return {
    status: wanted.status ?? 200,
    headers: Object.entries(wanted.headers ?? {}).flat(),
    body: encodedBody === undefined ? Buffer.from(text, 'utf8') : Buffer.from(encodedBody, 'base64')
  }
}

function messageOf(input: Stage['input']): Message {
  if (input.encoded_request !== undefined) return parseMessage(Buffer.from(input.encoded_request, 'base64'))
  const body = Buffer.from(expandTemplates(input.data ?? ''), 'utf8')
  const headers = Object.entries(input.headers ?? {}).flatMap(([name, value]) => [name, latin1(String(value))])
  const has = (name: string) => headers.some((one, i) => i % 2 === 0 && one.toLowerCase() === name)
  const method = input.method ?? 'GET'
  if (input.autocomplete_headers !== false) {
    if (!has('connection')) headers.push('Connection', 'close')
    if (body.length > 0 && !has('content-type')) headers.push('Content-Type', 'application/x-www-form-urlencoded')
    if ((body.length > 0 || method === 'POST') && !has('content-length') && !has('transfer-encoding'))
      headers.push('Content-Length', String(body.length))
  }
  return { method, target: latin1(input.uri ?? '/'), protocol: input.version ?? 'HTTP/1.1', headers, body }
}

/** Data may hold `{{ "1" | repeat 64200 }}`. */
function expandTemplates(data: string): string {
  return data.replace(/\{\{\s*"([^"]*)"\s*\|\s*repeat\s+(\d+)\s*\}\}/g, (_, text: string, times: string) =>
    text.repeat(Number(times))
  )
}

function latin1(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

function parseMessage(bytes: Buffer): Message {
  const text = bytes.toString('latin1')
  const end = text.indexOf('\r\n\r\n')
  const [first = '', ...lines] = text.slice(0, end < 0 ? text.length : end).split('\r\n')
  const [method = '', target = '', protocol = ''] = first.split(' ')
  const headers = lines.flatMap((line) => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon), line.slice(colon + 1).trim()]
  })
  return { method, target, protocol, headers, body: bytes.subarray(end < 0 ? bytes.length : end + 4) }
}

/** Returns the status with which a server refuses a message that is not valid HTTP, before any rule is evaluated. */
function statusWithoutRules({ method, target, protocol, headers }: Message): number | undefined {
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(method)) return 400
  if (!/^(?:\/|\*$|\w+:|[^/]+$)/.test(target) || /[^!-~\x80-\xff]|#/.test(target) || target === '\\') return 400
  if (method === 'CONNECT' && !/:\d+$/.test(target)) return 400
  if (!/^HTTP\/\d\.\d$/.test(protocol)) return 400
  if (!['HTTP/1.0', 'HTTP/1.1'].includes(protocol)) return 505
  const values = (name: string) => headers.filter((_, i) => i % 2 === 1 && headers[i - 1]?.toLowerCase() === name)
  if (headers.some((value, i) => i % 2 === 1 && /[\r\n]/.test(value))) return 400
  if (values('content-length').some((value) => !/^\d+$/.test(value))) return 400
  const hosts = values('host')
  return protocol === 'HTTP/1.1' && (hosts.length !== 1 || !/^[\w.:[\]-]+$/.test(hosts[0] as string)) ? 400 : undefined
}
