import { parentPort } from 'node:worker_threads'
import { LRUCache } from 'lru-cache'
import { compileRegex, type Regex } from '../../lib/regex.js'
import { type Outcome, replaceInOrder } from './replacements.js'
import type { ReplaceJob } from './replacing.js'

/** Patterns that this thread keeps compiled. */
const KEPT_PATTERNS = 256
const compiled = new LRUCache<string, Regex>({ max: KEPT_PATTERNS })

/** A thread that replaces in one text after the other. */
parentPort?.on('message', ({ text, steps, limit }: ReplaceJob) => {
  const regexes = steps.map(({ from }) => regexOf(from))
  parentPort?.postMessage(replaceInOrder(text, steps, regexes, { limit }) satisfies Outcome)
})

function regexOf(pattern: string): Regex {
  const known = compiled.get(pattern)
  if (known !== undefined) return known
  const result = compileRegex(pattern)
  // It was compiled before, in the thread that sent it.
  if (!result.ok) throw new Error(result.message)
  compiled.set(pattern, result.regex)
  return result.regex
}
