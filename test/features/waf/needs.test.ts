import t from 'tap'
import { transformation } from '../../../src/features/waf/transformations.js'
import { compileRegex } from '../../../src/lib/regex.js'
import { randomNumbers } from '../../expression/functions/call.js'
import { compileRules, evaluate, matchedIds } from './rules.js'

const PATTERNS = [
  '(?i)<script[^>]*>',
  '(?i)\\bunion\\b.{0,9}\\bselect\\b',
  '(?:^|[/;])\\.\\.+(?:/|$)',
  '[\\n\\r;`|&]\\s*(?:ls|cat|id)\\b',
  '^(?:ls|cat)$',
  '^[^;]+;$',
  "(?i)'\\s*or\\s*'?\\d",
  '(?:a|b)?x{2,3}$',
  '\\W{3}',
  '(?i:sleep|wait)\\s*\\(.*\\)',
  '\\xe9[<]',
  'LS',
  '^$',
  '(?i)on[a-z]{2,5}\\s*=',
  '#|--|/\\*'
]
const CHAINS = ['none', 'lowercase', 'urlDecodeUni', 'urlDecodeUni,htmlEntityDecode', 'cmdLine', 'removeWhitespace']
const PARTS = [
  '<script',
  '>',
  'union',
  ' SELECT',
  '../',
  '..',
  ';',
  'ls',
  'CAT',
  "'",
  ' or ',
  '1',
  'xx',
  'sleep',
  '(',
  ')'
]
const MORE = ['%3Cscript', '&lt;', 'onload', '=', '--', '/*', '#', 'e', '+', '%27', '\t', '^', 'a', '']

/** Rules of all patterns and chains, with and without `multiMatch`. */
const cases = PATTERNS.flatMap((pattern) =>
  CHAINS.flatMap((chain) => [
    { pattern, chain, each: false },
    { pattern, chain, each: true }
  ])
)

/** Returns the forms of a value that a rule examines. */
function formsOf(value: string, chain: string, each: boolean): string[] {
  const forms = [value]
  for (const name of chain === 'none' ? [] : chain.split(','))
    forms.push((transformation(name) as (text: string) => string)(forms.at(-1) as string))
  return each ? forms : forms.slice(-1)
}

t.test('a rule matches exactly if its pattern matches a value after the transformations', async (t) => {
  const written = cases.map(({ pattern, chain, each }, i) => {
    const [none, ...names] = `none,${chain === 'none' ? '' : chain}`.split(',').filter((name) => name !== '')
    const actions = [none, ...names].map((name) => `t:${name}`).join(',')
    return `SecRule ARGS|!ARGS:left "@rx ${pattern.replaceAll('"', '\\"')}" "id:${i + 1},phase:2,${actions}${each ? ',multiMatch' : ''}"`
  })
  const rules = compileRules(written.join('\n'))
  const expressions = new Map(
    PATTERNS.map((pattern) => {
      const compiled = compileRegex(pattern, { dotAll: true })
      if (!compiled.ok) throw new Error(compiled.message)
      return [pattern, compiled.regex]
    })
  )
  const random = randomNumbers(7)
  const all = [...PARTS, ...MORE]
  let found = 0
  for (let i = 0; i < 150; i++) {
    const values = Array.from({ length: 1 + random(i % 3 === 0 ? 12 : 3) }, () =>
      Array.from({ length: random(4) }, () => all[random(all.length)]).join('')
    )
    const pairs = values.map((value, at) => `a${at}=${encodeURIComponent(value)}`)
    const target = `/?${pairs.join('&')}&left=${encodeURIComponent(all[random(all.length)] as string)}`
    const matched = matchedIds(evaluate(rules, { target, budget: 1e9 }))
    const expected = cases.flatMap(({ pattern, chain, each }, at) => {
      const matches = values.some((value) =>
        formsOf(value, chain, each).some((form) => expressions.get(pattern)?.test(form))
      )
      return matches ? [at + 1] : []
    })
    found += expected.length
    t.same([...new Set(matched)], expected, JSON.stringify(values))
  }
  t.ok(found > 1_000, `${found} matches`)
})

t.test('variables that set-up rules set are the same for each message, unless they depend on it', async (t) => {
  const rules = compileRules(`
SecAction "id:1,phase:1,nolog,pass,setvar:tx.level=2"
SecRule &TX:level "@eq 0" "id:2,phase:1,nolog,pass,setvar:tx.level=1"
SecRule TX:level "@ge 2" "id:3,phase:1,nolog,pass,setvar:'tx.copy=%{tx.level}',skipAfter:END"
SecAction "id:4,phase:1,nolog,pass,setvar:tx.skipped=1"
SecMarker END
SecRule ARGS:level "@rx (.)" "id:5,phase:1,nolog,pass,capture,setvar:tx.level=%{TX.1}"
SecRule TX:level "@ge 5" "id:6,phase:1"`)
  for (const [target, level, ids] of [
    ['/?level=7', '7', [6]],
    ['/', '2', []],
    ['/?level=3', '3', []]
  ] as const) {
    const transaction = evaluate(rules, { target })
    t.equal(transaction.getTx('copy'), '2')
    t.equal(transaction.getTx('skipped'), undefined)
    t.equal(transaction.getTx('level'), level)
    t.same(matchedIds(transaction), ids)
  }
  const removed = evaluate(rules, { before: (transaction) => transaction.removeRules([2], rules.size) })
  t.equal(removed.getTx('copy'), undefined, 'a removed rule is not evaluated')
  const set = evaluate(rules, { before: (transaction) => transaction.setTx('other', 'x') })
  t.equal(set.getTx('other'), 'x')
})
