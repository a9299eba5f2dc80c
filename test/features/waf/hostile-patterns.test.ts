import t from 'tap'
import { RuleTables } from '../../../src/features/waf/engine/tables.js'
import { HOSTILE_TEXTS, MAX_STEPS, measurePattern } from './hostile-patterns.js'

/** Patterns for which a search that goes back takes more than linear time, of the forms that rules of firewalls have. */
const PATTERNS = [
  '(?:a+)+b',
  '(a|aa)+$',
  '(?:\\s*\\S+\\s*)+;',
  '(?i)<[^>]*?\\bon\\w+\\s*=[^>]*?>',
  '(?i)(?:select|union).*?from.*?where.*?;',
  '(?:\'[^\']*\'|"[^"]*"|[^\'"])*--$',
  '\\s+$',
  '(?:\\.\\.?[/\\\\]){2,}etc',
  '(?:[^a-z]*[a-z]){12}[^a-z]*\\d',
  '((?:[~!@#$%^&*()\\-+={}\\[\\]|:;"\'<>\\\\/][^~!@#$%^&*()\\-+={}\\[\\]|:;"\'<>\\\\/]*?){12})',
  '(?i)\\b(?:or|and)\\b\\s*[\'"(]*\\s*[0-9]{1,10}\\s*[=<>]',
  '\\$\\((?:\\(.*\\)|.*)\\)',
  '(?i)&#x?0*(?:[0-9a-f]{2,6});?.*?&#',
  '.*a.{0,15}x'
]

t.test('a hostile text of 4 KB takes a bounded number of steps of a pattern', async (t) => {
  const over: string[] = []
  for (const written of PATTERNS) {
    const pattern = new RuleTables().pattern(written)
    if (typeof pattern === 'string') throw new Error(`${written}: ${pattern}`)
    for (const text of HOSTILE_TEXTS) {
      const { steps } = measurePattern(pattern, text)
      if (steps > MAX_STEPS) over.push(`${written} on ${JSON.stringify(text.slice(0, 20))}: ${steps} steps`)
    }
  }
  t.same(over, [])
  t.ok(HOSTILE_TEXTS.length >= 26, `${HOSTILE_TEXTS.length} texts`)
})
