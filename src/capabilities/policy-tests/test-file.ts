import { parseAddress } from '../../lib/ip.js'
import { SourceText } from '../../lib/positions.js'
import { compileRegex } from '../../lib/regex.js'
import { parseDuration } from '../../lib/units.js'
import { readConfig } from '../../policy/config-reader.js'
import { formatPath, type NodePath, type Problem, policyErrors, Reporter } from '../../policy/problems.js'
import { nodeAt, type TreeNode } from '../../policy/tree.js'
import { readTree } from '../../policy/yaml-tree.js'
import type { ImaginedRequest } from '../explain/imagined-exchange.js'
import type { UpstreamStub } from '../explain/lab.js'
import { type Expectation, type TestFile, testFileSchema, type WrittenStep, type WrittenStub } from './test-schema.js'

/** A step that can run. */
export interface TestStep {
  /** Milliseconds that pass first. */
  readonly wait: number
  /** Sent request; undefined if the step only advances the clock. */
  readonly request: ImaginedRequest | undefined
  readonly upstream: UpstreamStub
  readonly repeat: number
  /** Milliseconds. */
  readonly every: number
  readonly expect: Expectation
  /** Set for a recorded request: results that depend on redacted values are not judged. */
  readonly isRecorded?: boolean
}

/** A server that policies ask. */
export interface OutsideStub {
  readonly url: string
  readonly method: string | undefined
  /** Response of the stub; undefined if it is unreachable. */
  readonly answer: UpstreamStub | undefined
}

/** A case with values of its matrix in their places. */
export interface ReadCase {
  readonly name: string
  /** In the file, from 1. */
  readonly line: number
  readonly column: number
  /** Path in the file, such as `cases[0]`. */
  readonly path: string
  /** Wall time, milliseconds. */
  readonly now: number
  readonly stubs: readonly OutsideStub[]
  readonly steps: readonly TestStep[]
}

/** Contents of a test file. */
export interface ReadTests {
  /** Path as written, relative to the file. */
  readonly policy: string | undefined
  readonly secrets: ReadonlyMap<string, ReadonlyMap<string, string>>
  readonly ipPolicies: ReadonlyMap<string, { readonly allow: readonly string[]; readonly deny: readonly string[] }>
  readonly cases: readonly ReadCase[]
  /** Archives whose requests must be decided as before; as written, relative to the file. */
  readonly recorded: readonly { readonly file: string; readonly line: number }[]
}

const LIMITS = { depth: 32, nodes: 1_000_000 }
const BEGINNING = Date.UTC(2026, 0, 1)
/** Cases that the matrices of one file may make. */
const MOST_CASES = 100_000
/** Default values of a request. */
const DEFAULTS = { host: 'example.com', path: '/', method: 'GET', client_ip: '192.0.2.1', http_version: '1.1' } as const

/** Reads a file of tests: its cases, or everything that is wrong with it. `most`: cases that it may make. */
export function readTests(
  text: string,
  most = MOST_CASES
): { readonly tests?: ReadTests; readonly problems: readonly Problem[] } {
  const source = new SourceText(text)
  const report = new Reporter(source)
  const { root, problems } = readTree(text, LIMITS)
  for (const { message, span } of problems) report.error([], policyErrors.DOCUMENT_SYNTAX, message, span)
  if (root === undefined || root.kind !== 'map') {
    if (problems.length === 0)
      report.error([], policyErrors.DOCUMENT_INVALID, 'a file of tests is a map with `cases`', { start: 0, end: 1 })
    return { problems: report.sorted() }
  }
  const file = readConfig(testFileSchema, root, (path, message) =>
    report.error(path, policyErrors.CONFIG_INVALID, message, nodeAt(root, path).span)
  ) as TestFile
  if (report.failed) return { problems: report.sorted() }
  const reader = new TestReader(file, root, source, { report, most })
  const cases = reader.cases()
  if (file.cases === undefined && file.recorded === undefined)
    report.error([], policyErrors.CONFIG_INVALID, 'a file of tests has `cases` or `recorded`', root.span)
  if (report.failed) return { problems: report.sorted() }
  const recorded = (file.recorded ?? []).map((name, i) => {
    const { line } = source.place(nodeAt(root, ['recorded', i]).span.start)
    return { file: name, line }
  })
  const secrets = new Map(
    Object.entries(file.secrets ?? {}).map(([vault, all]) => [vault, new Map(Object.entries(all))])
  )
  const ipPolicies = new Map(
    Object.entries(file.ip_policies ?? {}).map(([id, { allow = [], deny = [] }]) => [id, { allow, deny }])
  )
  return { tests: { policy: file.policy, secrets, ipPolicies, cases, recorded }, problems: [] }
}

type Values = Readonly<Record<string, unknown>>

class TestReader {
  readonly #file: TestFile
  readonly #root: TreeNode
  readonly #source: SourceText
  readonly #report: Reporter

  readonly #most: number

  constructor(
    file: TestFile,
    root: TreeNode,
    source: SourceText,
    { report, most }: { readonly report: Reporter; readonly most: number }
  ) {
    this.#file = file
    this.#root = root
    this.#source = source
    this.#report = report
    this.#most = most
  }

  cases(): ReadCase[] {
    const read: ReadCase[] = []
    for (const [index, one] of (this.#file.cases ?? []).entries()) {
      const path = ['cases', index]
      const { line, column } = this.#source.place(nodeAt(this.#root, path).span.start)
      for (const values of combinations(one.matrix ?? {}, this.#most)) {
        if (read.length === this.#most) {
          this.#wrong(path, `tests make at most ${this.#most} cases`)
          return read
        }
        const { name, now, stubs, steps, ...alone } = filled(one, values) as typeof one
        if (steps !== undefined && (alone.request ?? alone.expect ?? alone.wait) !== undefined)
          this.#wrong(path, 'a case has either `steps` or a `request` of its own')
        const shown = Object.keys(values).length === 0 || name !== one.name ? name : `${name} (${shownValues(values)})`
        read.push({
          name: shown,
          line,
          column,
          path: formatPath(path),
          now: this.#time(now ?? this.#file.now, path),
          stubs: [...(stubs ?? []), ...(this.#file.stubs ?? [])].map(outsideOf),
          steps: (steps ?? [alone]).map((step, i) =>
            this.#step(step, steps === undefined ? path : [...path, 'steps', i])
          )
        })
      }
    }
    return read
  }

  #step(step: WrittenStep, path: NodePath): TestStep {
    const { wait = '0s', repeat = 1, every = '0s', expect = {}, upstream } = step
    const waits = step.wait !== undefined && step.request === undefined && step.expect === undefined
    this.#patterns(expect, path)
    return {
      wait: parseDuration(wait) ?? 0,
      request: waits ? undefined : this.#request(step.request ?? {}, path),
      upstream: stubOf({ ...this.#file.upstream, ...upstream }),
      repeat,
      every: parseDuration(every) ?? 0,
      expect
    }
  }

  #request(request: NonNullable<WrittenStep['request']>, path: NodePath): ImaginedRequest | undefined {
    const defaults = this.#file.defaults ?? {}
    const { host, path: target, method, client_ip, http_version } = { ...DEFAULTS, ...defaults, ...request }
    const whole = request.url ?? (request.path === undefined && request.host === undefined ? defaults.url : undefined)
    const url = whole ?? `http://${host}${target}`
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      this.#wrong([...path, 'request'], `"${url}" is no http or https URL`)
      return undefined
    }
    if (parseAddress(client_ip) === undefined)
      this.#wrong([...path, 'request', 'client_ip'], `"${client_ip}" is no IP address`)
    const { body = defaults.body } = request
    return {
      method,
      url: new URL(url),
      headers: fieldsOf({ ...defaults.headers, ...request.headers }),
      version: http_version,
      clientAddress: client_ip,
      clientPort: 50_000,
      ...(body === undefined ? {} : { body: Buffer.from(body) })
    }
  }

  #patterns(expect: Expectation, path: NodePath): void {
    const all = [expect.body, ...Object.values(expect.headers ?? {}), ...Object.values(expect.upstream?.headers ?? {})]
    for (const one of all) {
      const pattern = (one as { matches?: unknown } | null | undefined)?.matches
      if (pattern === undefined) continue
      const compiled = compileRegex(String(pattern))
      if (!compiled.ok) this.#wrong([...path, 'expect'], `"${pattern}" is no regular expression: ${compiled.message}`)
    }
  }

  #time(text: string | undefined, path: NodePath): number {
    const wall = text === undefined ? BEGINNING : Date.parse(text)
    if (Number.isNaN(wall)) this.#wrong([...path, 'now'], `"${text}" is no time such as 2026-01-31T12:00:00Z`)
    return wall
  }

  #wrong(path: NodePath, message: string): void {
    this.#report.error(path, policyErrors.CONFIG_INVALID, message, nodeAt(this.#root, path).span)
  }
}

/** Returns the combinations of the values of a matrix, cut off above `most`; one empty combination for an empty matrix. */
function combinations(matrix: Readonly<Record<string, readonly unknown[]>>, most: number): Values[] {
  let all: Values[] = [{}]
  for (const [name, values] of Object.entries(matrix)) {
    all = all.flatMap((before) => values.map((value) => ({ ...before, [name]: value })))
    if (all.length > most) return all
  }
  return all
}

const WHOLE = /^\$\{(\w+)\}$/
const PART = /\$\{(\w+)\}/g

/** A copy of data with values in the places of their names. A text that is a name alone becomes the value itself. */
function filled(data: unknown, values: Values): unknown {
  if (typeof data === 'string') {
    const whole = WHOLE.exec(data)?.[1]
    if (whole !== undefined && Object.hasOwn(values, whole)) return values[whole]
    return data.replace(PART, (text, name: string) => (Object.hasOwn(values, name) ? String(values[name]) : text))
  }
  if (Array.isArray(data)) return data.map((item) => filled(item, values))
  if (typeof data !== 'object' || data === null) return data
  return Object.fromEntries(Object.entries(data).map(([key, item]) => [key, filled(item, values)]))
}

function shownValues(values: Values): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ')
}

function fieldsOf(headers: Readonly<Record<string, string | readonly string[]>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) => [value].flat().flatMap((one) => [name, String(one)]))
}

function stubOf({ status = 200, headers = {}, body }: NonNullable<WrittenStep['upstream']>): UpstreamStub {
  return { status, headers: fieldsOf(headers), body: body === undefined ? undefined : Buffer.from(body) }
}

function outsideOf({ url, method, unreachable, ...answer }: WrittenStub): OutsideStub {
  return { url, method, answer: unreachable === true ? undefined : stubOf(answer) }
}
