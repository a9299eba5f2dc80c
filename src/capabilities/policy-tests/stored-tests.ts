import { createHash } from 'node:crypto'
import {
  type CaseOutcome,
  type PolicyTesting,
  type PolicyTestRun,
  TESTS_FAILED,
  type TestProblem
} from '../../control/policy-tests.js'
import type { DocumentLimits, TestLimits } from '../../lib/caller-limits.js'
import { type Geo, noGeo } from '../../lib/geo.js'
import { shorten } from '../../lib/printable.js'
import { Slices } from '../../lib/slices.js'
import { policyErrors } from '../../policy/problems.js'
import { type Firewall, PolicyBench } from '../explain/running-lab.js'
import { type CaseResult, expectsFirewall, type OpenCase, runCase } from './run-tests.js'
import { surroundings } from './surroundings.js'
import { type ReadCase, type ReadTests, readTests } from './test-file.js'

/** Bounds of tests that are run when their policy is written; `sluice test` has wider ones. */
export const STORED_TESTS = { cases: 1_000, requests: 20_000, milliseconds: 5_000 } as const

/** Tests that passed and are not run again: a dry run comes before its write, and a site file is read whole each time. */
const REMEMBERED = 1_000
/** Maximum number of failures in a message. */
const SHOWN_FAILURES = 10
/** Maximum length of a value in a message (characters). */
const LONGEST_VALUE = 200
/** Response of an upstream without a stub. */
const NO_STUB = { status: 200, headers: [], body: undefined }

/** Tests took longer than they may. */
class TooLong extends Error {}

/** Dependencies of test runs. */
interface TestingParts {
  readonly geo?: Geo
  /** Rules of the firewall. @default none are known: cases that expect its results are not run */
  readonly firewall?: Firewall
  /** Creates the time slices of one run, so that traffic is not blocked. */
  readonly slices?: () => Slices
  /** Monotonic clock (ms). */
  readonly now?: () => number
}

/**
 * Runs the tests of policies that are written. Each case has its own counters and clock, no request leaves the process, and
 * the run yields to the event loop between requests.
 */
export function policyTesting(parts: TestingParts = {}): PolicyTesting {
  const passed = new Set<string>()
  return async (stored) => {
    const digest = createHash('sha256')
      .update(JSON.stringify([stored.policy, stored.tests, rulesDigest(parts.firewall)]))
      .digest('base64')
    if (passed.has(digest)) return []
    const problems = await testPolicy(stored, parts)
    if (problems.length > 0) return problems
    const [oldest] = passed
    if (oldest !== undefined && passed.size >= REMEMBERED) passed.delete(oldest)
    passed.add(digest)
    return []
  }
}

/** The same bounds as for tests that are stored, all cases run. */
export function policyTestRuns(parts: TestingParts = {}): PolicyTestRun {
  return async (stored) => {
    const cases: CaseOutcome[] = []
    const problems = await testPolicy(stored, parts, (one) => cases.push(one))
    return { cases, problems: problems.filter((one) => !cases.some(({ failure }) => failure === one)) }
  }
}

async function testPolicy(
  {
    policy,
    tests: text,
    limits = STORED_TESTS
  }: {
    readonly policy: string | undefined
    readonly tests: string
    readonly limits?: (TestLimits & { readonly documents?: DocumentLimits }) | undefined
  },
  { geo = noGeo, firewall, slices = () => Slices.besideTraffic(), now = () => performance.now() }: TestingParts,
  ran?: (outcome: CaseOutcome) => void
): Promise<TestProblem[]> {
  const { documents } = limits
  if (
    documents !== undefined &&
    Math.max(...[policy ?? '', text].map((one) => Buffer.byteLength(one))) > documents.bytes
  )
    return [
      failureAt(undefined, `the policy and its tests are limited to ${documents.bytes} bytes each for this caller`)
    ]
  const { tests, problems } = readTests(text, limits.cases)
  if (tests === undefined)
    return problems.map(({ code, message, path, line, column }) => ({
      code: `POLICY_${code}`,
      message,
      path,
      line,
      column
    }))
  if (policy === undefined) return []
  const [archive] = tests.recorded
  if (archive !== undefined) {
    const message = 'recorded names a file, which is for "sluice test" alone: put cases in its place'
    return [
      { code: `POLICY_${policyErrors.CONFIG_INVALID.code}`, message, path: 'recorded', line: archive.line, column: 1 }
    ]
  }
  const tooMany = beyondRequests(tests.cases, limits.requests)
  if (tooMany !== undefined)
    return [failureAt(tooMany, `the tests make more than ${limits.requests} requests; "sluice test" runs more`)]
  const bench = new PolicyBench({
    ...surroundings(tests),
    geo,
    firewall,
    random: () => 0.5,
    reveal: true,
    policy: { source: 'traffic_policy', text: policy }
  })
  const slice = slices()
  const opened = await slice.run(bench.opening({ now: 0, stub: NO_STUB, outside: () => undefined }))
  if ('problems' in opened) {
    const [problem] = opened.problems.flatMap((one) => one.problems)
    return [failureAt(tests.cases[0], `the policy cannot be tested: ${problem?.message ?? 'it does not compile'}`)]
  }
  const cases = firewall === undefined ? tests.cases.filter((one) => !expectsFirewall(one)) : tests.cases
  return await runCases(cases, bench, { slices: slice, now, ran })
}

function rulesDigest(firewall: Firewall | undefined): string | undefined {
  return typeof firewall?.rules === 'object' ? firewall.rules.current.digest : undefined
}

interface RunParts {
  readonly slices: Slices
  readonly now: () => number
  /** Called after each case; then all of them run. */
  readonly ran: ((outcome: CaseOutcome) => void) | undefined
}

async function runCases(
  cases: ReadTests['cases'],
  bench: PolicyBench,
  { slices, now, ran }: RunParts
): Promise<TestProblem[]> {
  const failed: TestProblem[] = []
  const deadline = now() + STORED_TESTS.milliseconds
  const rest = () => {
    if (now() > deadline) throw new TooLong()
    return slices.due ? slices.rest() : undefined
  }
  for (const one of cases) {
    try {
      await rest()
      const result = await runCase(one, opening(bench, slices), rest)
      const failure = result.failures.length > 0 ? failureOf(one, result) : undefined
      if (failure !== undefined) failed.push(failure)
      ran?.({ name: one.name, line: one.line, failure })
    } catch (error) {
      if (!(error instanceof TooLong)) throw error
      const seconds = STORED_TESTS.milliseconds / 1_000
      return [failureAt(one, `the tests take longer than ${seconds} s; the case "${one.name}" was not finished`)]
    }
    if (ran === undefined && failed.length === SHOWN_FAILURES) break
  }
  return failed
}

/** Labs of a policy that is known to compile. */
function opening(bench: PolicyBench, slices: Slices): OpenCase {
  return async (now, outside) => {
    const made = await slices.run(bench.opening({ now, stub: NO_STUB, outside }))
    if ('problems' in made) throw new TypeError('a policy compiles once and not again')
    return made
  }
}

/** Returns the case that exceeds the maximum number of requests; undefined if there is none. */
function beyondRequests(cases: readonly ReadCase[], most: number): ReadCase | undefined {
  let requests = 0
  for (const one of cases) {
    for (const { repeat } of one.steps) requests += repeat
    if (requests > most) return one
  }
  return undefined
}

function failureAt(place: ReadCase | undefined, message: string): TestProblem {
  const { path = 'cases', line = 1, column = 1 } = place ?? {}
  return { code: TESTS_FAILED, message, path, line, column }
}

/** Returns the first failure of a case. */
function failureOf(place: ReadCase, { name, failures }: CaseResult): TestProblem {
  const [failure] = failures
  if (failure === undefined) throw new RangeError('a case failed without a failure')
  const { what, step, time } = failure
  const [expected, found] = [shown(failure.expected), shown(failure.found)]
  const times = time === 1 ? '' : `, time ${time}`
  const message = `the case "${name}" expected ${what} ${expected} and found ${found} in step ${step}${times}`
  return { ...failureAt(place, message), failed: { case: name, what, expected, found } }
}

function shown(value: unknown): string {
  return shorten(JSON.stringify(value) ?? 'nothing', LONGEST_VALUE)
}
