import { availableParallelism } from 'node:os'
import type { Flow } from '../../flow/flow.js'
import { threadBeside } from '../../lib/files.js'
import { type Regex, RegexTooSlow } from '../../lib/regex.js'
import { ThreadPool, TOO_SLOW } from '../../lib/thread-pool.js'
import { serviceKey } from '../../policy/services.js'
import { type Found, type Outcome, type Replacement, replaceInOrder, type Step } from './replacements.js'

/** Job of a replacement thread. */
export interface ReplaceJob {
  readonly text: string
  readonly steps: readonly Step[]
  readonly limit: number
}

/** Maximum characters times replacements handled on the event loop: about two milliseconds. */
const MAX_CHARACTERS = 16_384
/** Maximum characters times pattern instructions handled on the event loop. */
const MAX_WORK = 2_000_000
/** Timeout of one replacement on the event loop (ms). */
const LONGEST_HERE = 5
/** Timeout of all replacements of one text in a thread (ms). */
const LONGEST = 2_000
/** Maximum number of threads. */
const MAX_THREADS = 4

/** Threads for replacements in long texts. Waiting texts count in the budget of bodies. */
export const replaceThreads = serviceKey(
  'body-replace',
  () =>
    new ThreadPool<ReplaceJob, Outcome>({
      start: () => threadBeside(import.meta.url, 'replace-thread', undefined),
      size: Math.min(MAX_THREADS, availableParallelism()),
      longest: LONGEST
    })
)

/** Result of the replacements of one text. */
export type ReplacedText =
  | { readonly kind: 'replaced'; readonly text: string; readonly found: readonly Found[] }
  | { readonly kind: 'too-large' }
  | { readonly kind: 'too-slow' }

/**
 * Applies the replacements in order to `text`, in a thread if it would block the event loop. `inserted`: returns a value in the form to
 * insert. Throws, or rejects with, `EvaluationError` if a needed value is missing.
 */
export function replaceText(
  text: string,
  replacements: readonly Replacement[],
  flow: Flow,
  parts: {
    readonly limit: number
    readonly threads: ThreadPool<ReplaceJob, Outcome>
    readonly inserted?: (text: string) => string
  }
): ReplacedText | Promise<ReplacedText> {
  const { limit, threads, inserted = (same) => same } = parts
  const regexes = replacements.map(({ from }) => from(flow))
  const missing: unknown[] = []
  const steps = replacements.map(({ to }, index): Step => {
    const from = (regexes[index] as Regex).pattern
    try {
      return { from, to: inserted(to(flow)) }
    } catch (error) {
      missing[index] = error
      return { from, to: undefined }
    }
  })
  const settled = (outcome: Outcome | typeof TOO_SLOW): ReplacedText => {
    if (outcome === TOO_SLOW) return { kind: 'too-slow' }
    if (outcome.kind === 'no-value') throw missing[outcome.index]
    return outcome
  }
  const here = replacedHere(text, steps, regexes, limit)
  return here === undefined ? threads.run({ text, steps, limit }).then(settled) : settled(here)
}

/** Replaces on the event loop; returns undefined if that takes too long. */
function replacedHere(
  text: string,
  steps: readonly Step[],
  regexes: readonly Regex[],
  limit: number
): Outcome | undefined {
  if (!isShort(text, regexes)) return undefined
  try {
    return replaceInOrder(text, steps, regexes, { limit, longest: LONGEST_HERE })
  } catch (error) {
    if (error instanceof RegexTooSlow) return undefined
    throw error
  }
}

function isShort(text: string, regexes: readonly Regex[]): boolean {
  const instructions = regexes.reduce((sum, { size }) => sum + size, 0)
  return text.length * regexes.length <= MAX_CHARACTERS && text.length * instructions <= MAX_WORK
}
