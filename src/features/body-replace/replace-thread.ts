import { parentPort } from 'node:worker_threads'
import { LRUCache } from 'lru-cache'
import { compileRegex, type Regex } from '../../lib/regex.js'
import { type Outcome, replaceInOrder } from './replacements.js'
import type { ReplaceJob } from './replacing.js'

/** Maximum number of cached compiled patterns. */
const KEPT_PATTERNS = 256
/** Cache of compiled patterns by source. */
const compiled = new LRUCache<string, Regex>({ max: KEPT_PATTERNS })

/** Thread that replaces text, one job after another. */
parentPort?.on('message', ({ text, steps, limit }: ReplaceJob) => {
  const regexes = steps.map(({ from }) => regexOf(from))
  parentPort?.postMessage(replaceInOrder(text, steps, regexes, { limit }) satisfies Outcome)
})

function regexOf(pattern: string): Regex {
  const known = compiled.get(pattern)
  if (known !== undefined) return known
  const result = compileRegex(pattern)
  // The sending thread has compiled it before.
  if (!result.ok) throw new Error(result.message)
  compiled.set(pattern, result.regex)
  return result.regex
}
