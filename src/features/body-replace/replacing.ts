import { availableParallelism } from 'node:os'
import type { Flow } from '../../flow/flow.js'
import { threadBeside } from '../../lib/files.js'
import { type Regex, RegexTooSlow } from '../../lib/regex.js'
import { ThreadPool, TOO_SLOW } from '../../lib/thread-pool.js'
import { serviceKey } from '../../policy/services.js'
import { type Found, type Outcome, type Replacement, replaceInOrder, type Step } from './replacements.js'

/** What a thread is asked to do. */
export interface ReplaceJob {
  readonly text: string
  readonly steps: readonly Step[]
  readonly limit: number
}

/** Characters times replacements that are handled on the loop: some two milliseconds. */
const MAX_CHARACTERS = 16_384
/** The same in characters times instructions of the patterns. */
const MAX_WORK = 2_000_000
/** How long one replacement may take on the loop, where matches are many and each looks far. Milliseconds. */
const LONGEST_HERE = 5
/** How long the replacements of one text may take in a thread. Milliseconds. */
const LONGEST = 2_000
const MAX_THREADS = 4

/** Threads for replacements in long texts. Texts that wait for them are held within the budget of bodies. */
export const replaceThreads = serviceKey(
  'body-replace',
  () =>
    new ThreadPool<ReplaceJob, Outcome>({
      start: () => threadBeside(import.meta.url, 'replace-thread', undefined),
      size: Math.min(MAX_THREADS, availableParallelism()),
      longest: LONGEST
    })
)

/** What came of the replacements of one text. */
export type ReplacedText =
  | { readonly kind: 'replaced'; readonly text: string; readonly found: readonly Found[] }
  | { readonly kind: 'too-large' }
  | { readonly kind: 'too-slow' }

/**
 * Applies the replacements in order to `text`, in a thread where that would hold up other requests. `inserted`: a text as
 * it is put into this one. Throws, or rejects with, `EvaluationError` where a value of a replacement is missing that is needed.
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

/** Undefined when it would hold up other requests. */
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
