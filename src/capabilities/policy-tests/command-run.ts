import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { ExitCode } from '../../cli/process.js'
import { formatFinding, formatProblems, type ReportStyle, styleFor } from '../../cli/report.js'
import { type Geo, openGeo } from '../../lib/geo.js'
import { SourceText } from '../../lib/positions.js'
import { fileReason } from '../../lib/system-errors.js'
import type { UnitProblems } from '../../policy/problems.js'
import { type Firewall, PolicyBench, readFirewall } from '../explain/running-lab.js'
import { readHar } from '../recorder/har.js'
import { type Coverage, CoverageRecorder } from './coverage.js'
import { type Mutant, mutantsOf, partsOf } from './mutants.js'
import { recordedCase } from './recorded-case.js'
import { junitReport, type SuiteReport, suiteText, summaryText, TapWriter } from './report.js'
import { type CaseResult, expectsFirewall, type OpenCase, runCase } from './run-tests.js'
import { surroundings } from './surroundings.js'
import { type ReadCase, type ReadTests, readTests } from './test-file.js'

export interface TestFlags {
  readonly coverage?: boolean
  readonly mutate?: boolean
  readonly tap?: boolean
  readonly junit?: string
  readonly only?: string
  readonly wafRules?: string
}

const SUFFIX = '.test.yaml'
const NO_STUB = { status: 200, headers: [], body: undefined }

/** Runs the tests of policies. Resolves with the exit code. */
export async function testPolicies(places: readonly string[], flags: TestFlags): Promise<number> {
  const out = process.stdout
  const style = styleFor(out, process.env)
  const files = await testFiles(places)
  if (typeof files === 'string') return refuse(files, ExitCode.usage)
  if (files.length === 0) return refuse(`there is no file *${SUFFIX} in ${places.join(', ')}`, ExitCode.failure)
  const geo = await openGeo()
  const { wafRules } = flags
  const firewall = wafRules === undefined ? undefined : await readFirewall(wafRules)
  const tap = flags.tap === true ? new TapWriter((text) => out.write(text)) : undefined
  const reports: SuiteReport[] = []
  for (const file of files) {
    const report = await testFile(file, { geo, firewall }, flags, style)
    reports.push(report)
    if (tap !== undefined) tap.suite(report)
    else for (const line of suiteText(report, style)) out.write(`${line}\n`)
  }
  if (tap !== undefined) tap.end()
  else out.write(`${summaryText(reports, style)}\n`)
  if (flags.junit !== undefined) await writeFile(flags.junit, junitReport(reports))
  return reports.every(passed) ? ExitCode.ok : ExitCode.failure
}

function passed({ problems, results, mutation }: SuiteReport): boolean {
  return (
    problems.length === 0 &&
    results.every(({ failures }) => failures.length === 0) &&
    (mutation?.survived.length ?? 0) === 0
  )
}

/** Returns the named files, and those in named folders; or an error message. */
async function testFiles(places: readonly string[]): Promise<string[] | string> {
  const files: string[] = []
  for (const place of places) {
    let folder: boolean
    try {
      folder = (await stat(place)).isDirectory()
    } catch (error) {
      return `${place} cannot be read: ${fileReason(error)}`
    }
    if (!folder) {
      files.push(place)
      continue
    }
    const names = await readdir(place, { recursive: true })
    const found = names.filter((name) => name.endsWith(SUFFIX) && !/(^|\/)(node_modules|\.[^/]+)\//.test(name))
    files.push(...found.sort().map((name) => join(place, name)))
  }
  return files
}

/** Parts that all test files share. */
interface Shared {
  readonly geo: Geo
  /** @default no rules are known: the actions find nothing */
  readonly firewall: Firewall | undefined
}

async function testFile(
  file: string,
  { geo, firewall }: Shared,
  flags: TestFlags,
  style: ReportStyle
): Promise<SuiteReport> {
  const begun = performance.now()
  const failed = (problems: readonly string[]): SuiteReport => ({
    file,
    policy: '',
    problems,
    results: [],
    milliseconds: performance.now() - begun
  })
  const text = await readFile(file, 'utf8')
  const { tests, problems } = readTests(text)
  const source = new SourceText(text)
  if (tests === undefined)
    return failed(formatFinding({ file, problems, line: (number) => source.line(number) }, style))
  const path = policyPath(file, tests.policy)
  let policy: string
  try {
    policy = await readFile(path, 'utf8')
  } catch (error) {
    return failed([`${file}: the policy ${path} cannot be read: ${fileReason(error)}`])
  }
  const about = { ...surroundings(tests), geo, firewall, random: () => 0.5, reveal: true }
  const bench = new PolicyBench({ ...about, policy: { source: path, text: policy } })
  const wrong = problemsOf(bench)
  if (wrong.length > 0) return failed(formatProblems(wrong, style))
  const recorded = await recordedCases(file, tests)
  if (typeof recorded === 'string') return failed([recorded])
  const blind = firewall === undefined ? tests.cases.find(expectsFirewall) : undefined
  if (blind !== undefined) {
    const { line, column, name } = blind
    return failed([
      `${file}:${line}:${column}: the case "${name}" expects results of the firewall; name its rules with --waf-rules <folder>`
    ])
  }
  const { only } = flags
  const all = [...tests.cases, ...recorded]
  const cases = only === undefined ? all : all.filter(({ name }) => name.includes(only))
  const coverage = flags.coverage === true ? new CoverageRecorder() : undefined
  const results: CaseResult[] = []
  for (const one of cases) results.push(await runCase(one, opening(bench), coverage && ((seen) => coverage.add(seen))))
  const mutation =
    flags.mutate === true && results.every(({ failures }) => failures.length === 0)
      ? await mutate(
          policy,
          (mutant) => new PolicyBench({ ...about, policy: { source: path, text: mutant.text } }),
          cases
        )
      : undefined
  return {
    file,
    policy: path,
    problems: [],
    results,
    milliseconds: performance.now() - begun,
    ...(coverage === undefined ? {} : { coverage: coverage.result(partsOf(policy)) satisfies Coverage }),
    ...(mutation === undefined ? {} : { mutation })
  }
}

/** Returns the archives of a test file, each as a case; or an error message. */
async function recordedCases(file: string, { recorded }: ReadTests): Promise<ReadCase[] | string> {
  const cases: ReadCase[] = []
  for (const { file: name, line } of recorded) {
    let read: ReturnType<typeof readHar>
    try {
      read = readHar(JSON.parse(await readFile(resolve(dirname(file), name), 'utf8')))
    } catch (error) {
      const why = error instanceof SyntaxError ? 'it is no JSON' : (error as NodeJS.ErrnoException).code
      return `${file}:${line}: ${name} cannot be read (${why})`
    }
    if (!read.ok) return `${file}:${line}: ${name} ${read.message}`
    const [first, ...rest] = read.exchanges
    if (first === undefined) return `${file}:${line}: ${name} has no exchange`
    cases.push(recordedCase(name, line, [first, ...rest]))
  }
  return cases
}

function policyPath(file: string, named: string | undefined): string {
  if (named !== undefined) return resolve(dirname(file), named)
  return file.endsWith(SUFFIX) ? `${file.slice(0, -SUFFIX.length)}.yaml` : file
}

function problemsOf(bench: PolicyBench): readonly UnitProblems[] {
  const made = bench.open({ now: 0, stub: NO_STUB, outside: () => undefined })
  return 'problems' in made ? made.problems : []
}

/** Labs of a policy that is known to compile. */
function opening(bench: PolicyBench): OpenCase {
  return (now, outside) => {
    const made = bench.open({ now, stub: NO_STUB, outside })
    if ('problems' in made) throw new TypeError('a policy compiles once and not again')
    return made
  }
}

/** Runs the cases against each mutant until one of them fails. */
async function mutate(
  policy: string,
  benchOf: (mutant: Mutant) => PolicyBench,
  cases: readonly ReadCase[]
): Promise<NonNullable<SuiteReport['mutation']>> {
  const survived: Mutant[] = []
  let killed = 0
  for (const mutant of mutantsOf(policy)) {
    const bench = benchOf(mutant)
    // Mutants that do not compile need no test.
    if (problemsOf(bench).length > 0) continue
    if (await isKilled(bench, cases)) killed++
    else survived.push(mutant)
  }
  return { killed, survived }
}

async function isKilled(bench: PolicyBench, cases: readonly ReadCase[]): Promise<boolean> {
  for (const one of cases) {
    const { failures } = await runCase(one, opening(bench))
    if (failures.length > 0) return true
  }
  return false
}

function refuse(message: string, code: number): number {
  process.stderr.write(`error: ${message}\n(sluice test --help lists the flags)\n`)
  return code
}
