import type { DocumentLimits, TestLimits } from '../lib/caller-limits.js'
import type { Problem as DocumentProblem } from '../policy/problems.js'
import { policyTextOf } from '../policy/record-policy.js'
import type { Problem, ResourceRecord } from '../schema/field.js'
import { ControlError, controlErrors } from './errors.js'

/** Name of the field with the tests, wherever a resource has a policy. */
export const TESTS_FIELD = 'policy_tests'

/** One thing that is wrong: with the form of the tests, or a case that does not come out as expected. */
export interface TestProblem extends Pick<Problem, 'code' | 'message'> {
  /** Path in the document; '' for all of it. */
  readonly path: string
  /** Place in the document, from 1. */
  readonly line: number
  readonly column: number
  /** A failed case: its name, the compared property, the expected and actual values. Contains no stored secret: the tests have their own. */
  readonly failed?: { readonly case: string; readonly what: string; readonly expected: string; readonly found: string }
}

/**
 * Runs tests against the policy that they are stored with. Resolves with the problems; empty if all pass. Without a policy
 * only their form is validated.
 */
export type PolicyTesting = (stored: {
  readonly policy: string | undefined
  readonly tests: string
  /** Bounds of the caller; default: the bounds of every run. */
  readonly limits?: TestLimits | undefined
}) => Promise<readonly TestProblem[]>

/** Result of one case; `failure` is undefined if it has passed. */
export interface CaseOutcome {
  readonly name: string
  readonly line: number
  readonly failure: TestProblem | undefined
}

/** Runs tests on a policy and returns the result of each case. `problems`: why the run did not start or finish. */
export type PolicyTestRun = (stored: {
  readonly policy: string
  readonly tests: string
  /** Bounds of the caller; default: the bounds of every run. */
  readonly limits?: (TestLimits & { readonly documents: DocumentLimits }) | undefined
}) => Promise<{ readonly problems: readonly TestProblem[]; readonly cases: readonly CaseOutcome[] }>

/**
 * Runs the tests that `after` has for its policy, when either is another than in `before`. Fails with `POLICY_TESTS_FAILED`, and
 * with `POLICY_…` for tests that cannot be read.
 */
export async function mustPassTests(
  before: ResourceRecord | undefined,
  after: ResourceRecord,
  run: PolicyTesting | undefined
): Promise<void> {
  const tests = testsOf(after)
  if (tests === '') return
  const policy = policyTextOf(after)
  if (before !== undefined && testsOf(before) === tests && policyTextOf(before) === policy) return
  if (run === undefined) throw new RangeError('no tests of policies are run here')
  const problems = await run({ policy, tests })
  if (problems.length > 0) throw refusedTests(problems)
}

/** The same as problems of a document, by the codes that those of policies have. */
export function testProblems(found: readonly TestProblem[]): DocumentProblem[] {
  return found.map(({ code, message, path, line, column }) => {
    const own = code === TESTS_FAILED ? code : code.replace(/^POLICY_/, '')
    return { severity: 'error', code: own, message, path, line, column, length: 1 }
  })
}

function testsOf({ body }: ResourceRecord): string {
  return String(body[TESTS_FIELD] ?? '')
}

function refusedTests(found: readonly TestProblem[]): ControlError {
  const problems = found.map(({ code, message, path, line, column, failed }) => {
    const details = { path, line: String(line), column: String(column), ...failed }
    return { field: TESTS_FIELD, code, message, details }
  })
  const [first] = problems
  if (first === undefined) throw new RangeError('a refusal without a problem')
  const { code, message, details, field } = first
  return new ControlError({ code }, `${field}, line ${details.line}: ${message}`, { field, details, problems })
}

/** The code of a case that failed. */
export const TESTS_FAILED = controlErrors.POLICY_TESTS_FAILED.code
