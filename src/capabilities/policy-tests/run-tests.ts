import { isDeepStrictEqual } from 'node:util'
import { compileRegex } from '../../lib/regex.js'
import { REDACTED } from '../../telemetry/redaction.js'
import type { ExplainedAction, Explanation } from '../explain/answers.js'
import { decisionText } from '../explain/explanation-text.js'
import type { Lab, UpstreamStub } from '../explain/lab.js'
import type { VirtualClock } from '../explain/virtual-clock.js'
import type { OutsideStub, ReadCase, TestStep } from './test-file.js'
import type { Expectation } from './test-schema.js'

/** Something that was expected and did not come about. */
export interface Failure {
  /** Number of the step, from 1. */
  readonly step: number
  /** Number of the repetition, from 1. */
  readonly time: number
  /** The compared property: `status`, `headers.x-user`, … */
  readonly what: string
  readonly expected: unknown
  readonly found: unknown
  readonly explanation: Explanation
}

/** Result of a case. */
export interface CaseResult {
  readonly name: string
  readonly line: number
  /** Failures of the first failing request; empty if the case has passed. */
  readonly failures: readonly Failure[]
  /** URLs that the policy called without a stub. */
  readonly unanswered: readonly string[]
}

/** A lab with empty counters. */
interface FreshLab {
  readonly lab: Pick<Lab, 'ask'>
  readonly clock: VirtualClock
}

type Seen = (explanation: Explanation) => void | Promise<void>

/** Creates the lab of a case. `outside` responds instead of external servers. */
export type OpenCase = (
  now: number,
  outside: (request: { readonly method: string; readonly url: string }) => UpstreamStub | undefined
) => FreshLab | Promise<FreshLab>

/**
 * Runs a case in its own lab until the first failure. `seen` receives each explanation; the next request waits for the
 * promise that it returns.
 */
export async function runCase(
  { name, line, now, stubs, steps }: ReadCase,
  open: OpenCase,
  seen?: Seen
): Promise<CaseResult> {
  const unanswered = new Set<string>()
  const { lab, clock } = await open(now, (request) => {
    const stub = stubs.find((one) => answers(one, request))
    if (stub === undefined) unanswered.add(request.url)
    return stub?.answer
  })
  let failures: Failure[] = []
  for (const [index, step] of steps.entries()) {
    clock.advance(step.wait)
    if (step.request !== undefined)
      failures = await runStep(lab, clock, { ...step, request: step.request }, index, seen)
    if (failures.length > 0) break
  }
  return { name, line, failures, unanswered: [...unanswered] }
}

async function runStep(
  lab: Pick<Lab, 'ask'>,
  clock: VirtualClock,
  {
    request,
    upstream,
    repeat,
    every,
    expect,
    isRecorded
  }: TestStep & { readonly request: NonNullable<TestStep['request']> },
  index: number,
  seen: Seen | undefined
): Promise<Failure[]> {
  for (let time = 1; time <= repeat; time++) {
    if (time > 1) clock.advance(every)
    const explanation = await lab.ask(request, upstream)
    const wait = seen?.(explanation)
    if (wait instanceof Promise) await wait
    if (isRecorded === true && readsRedacted(explanation)) continue
    const failures = differences(expect, explanation).map((one) => ({ step: index + 1, time, ...one, explanation }))
    if (failures.length > 0) return failures
  }
  return []
}

/** Does the decision depend on redacted data? */
function readsRedacted({ steps }: Explanation): boolean {
  return JSON.stringify(steps).includes(REDACTED)
}

function answers({ url, method }: OutsideStub, request: { readonly method: string; readonly url: string }): boolean {
  if (method !== undefined && method !== request.method) return false
  return url.endsWith('*') ? request.url.startsWith(url.slice(0, -1)) : request.url === url
}

type Difference = Pick<Failure, 'what' | 'expected' | 'found'>

/** Returns whether a case expects results of the web application firewall. */
export function expectsFirewall({ steps }: Pick<ReadCase, 'steps'>): boolean {
  return steps.some(({ expect }) => expect.waf !== undefined)
}

function differences(expect: Expectation, { decision, response, upstream, steps, waf }: Explanation): Difference[] {
  const found: Difference[] = []
  const same = (what: string, expected: unknown, value: unknown) => {
    if (expected !== undefined && !isDeepStrictEqual(expected, value)) found.push({ what, expected, found: value })
  }
  same('status', expect.status, decision.status)
  same('outcome', expect.outcome, decision.outcome)
  same('decided', expect.decided, decisionText(decision))
  same('code', expect.code, decision.code)
  same('rule', expect.rule, decision.by?.rule ?? null)
  same('action', expect.action, decision.by?.action ?? null)
  const matches = waf.flatMap(({ rules }) => rules)
  same(
    'waf.score',
    expect.waf?.score,
    waf.reduce((sum, { score }) => sum + score, 0)
  )
  same('waf.rules', sortIds(expect.waf?.rules), sortIds(matches.map(({ id }) => id)))
  fieldDifferences('headers', expect.headers, response?.headers ?? [], found)
  if (expect.body !== undefined) textDifference('body', expect.body, response?.body ?? '', found)
  if (expect.upstream !== undefined) {
    same('upstream.method', expect.upstream.method, upstream?.method ?? null)
    same('upstream.uri', expect.upstream.uri, upstream?.uri ?? null)
    fieldDifferences('upstream.headers', expect.upstream.headers, upstream?.headers ?? [], found)
  }
  if (expect.published !== undefined) {
    const published = publishedIn(steps)
    for (const [name, expected] of Object.entries(expect.published)) {
      const value = published.get(name) ?? null
      if (!includes(value, expected)) found.push({ what: `published.${name}`, expected, found: value })
    }
  }
  return found
}

/** Returns each id once, in ascending order. */
function sortIds(ids: readonly number[] | undefined): readonly number[] | undefined {
  return ids && [...new Set(ids)].sort((a, b) => a - b)
}

function fieldDifferences(
  what: string,
  expected: Readonly<Record<string, unknown>> | undefined,
  fields: readonly string[],
  found: Difference[]
): void {
  for (const [name, wanted] of Object.entries(expected ?? {})) {
    const values: string[] = []
    for (let i = 0; i < fields.length; i += 2) {
      if (fields[i]?.toLowerCase() === name.toLowerCase()) values.push(fields[i + 1] as string)
    }
    const place = `${what}.${name}`
    if (wanted === null) {
      if (values.length > 0) found.push({ what: place, expected: null, found: values })
    } else if (Array.isArray(wanted)) {
      if (!isDeepStrictEqual(wanted.map(String), values)) found.push({ what: place, expected: wanted, found: values })
    } else textDifference(place, wanted, values.length === 0 ? null : values.join(', '), found)
  }
}

function textDifference(what: string, expected: unknown, value: string | null, found: Difference[]): void {
  if (value === null || !fits(expected, value)) found.push({ what, expected, found: value })
}

/** Compares a text with an expected text, `{ contains }`, or `{ matches }` with a valid pattern. */
function fits(expected: unknown, value: string): boolean {
  if (typeof expected !== 'object' || expected === null) return String(expected) === value
  const { contains, matches } = expected as { readonly contains?: string; readonly matches?: string }
  if (contains !== undefined && !value.includes(String(contains))) return false
  if (matches === undefined) return true
  const compiled = compileRegex(String(matches))
  return compiled.ok && compiled.regex.test(value)
}

/** The last results of each action, by their name. */
function publishedIn(steps: Explanation['steps']): ReadonlyMap<string, unknown> {
  const all = new Map<string, unknown>()
  const actions: readonly ExplainedAction[] = steps.flatMap(({ phases }) =>
    phases.flatMap(({ rules }) => rules.flatMap((rule) => rule.actions))
  )
  for (const { published } of actions) for (const [name, value] of Object.entries(published)) all.set(name, value)
  return all
}

/** Compares the expected members of an object, at any depth; other values must be equal. */
function includes(value: unknown, expected: unknown): boolean {
  if (typeof expected !== 'object' || expected === null || Array.isArray(expected))
    return isDeepStrictEqual(value, expected)
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(expected).every(([key, item]) => includes((value as Record<string, unknown>)[key], item))
}
