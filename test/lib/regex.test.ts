import t from 'tap'
import { compileRegex, MAX_PATTERN, type Regex, RegexCache } from '../../src/lib/regex.js'

function regex(pattern: string): Regex {
  const compiled = compileRegex(pattern)
  if (!compiled.ok) throw new Error(compiled.message)
  return compiled.regex
}

t.test('RE2 syntax: its flags and classes work, other dialects are refused by reason', async (t) => {
  t.ok(regex('(?i)^ABC$').test('abc'))
  t.ok(regex('^[[:alpha:]]+\\pL$').test('abé'))
  t.ok(regex('^.$').test('\u{1F600}'), 'a character outside the basic plane is one')
  const refused: Record<string, RegExp> = {
    '(?=a)': /look-ahead/,
    '(?<!a)b': /look-behind/,
    '(a)\\1': /back-references/,
    '(?>a)': /atomic/,
    '[': /not valid RE2/,
    'a{1001}': /not valid RE2/
  }
  for (const [pattern, message] of Object.entries(refused))
    t.match(compileRegex(pattern), { ok: false, message }, pattern)
  t.match(compileRegex('a'.repeat(MAX_PATTERN + 1)), { ok: false, message: /longer/ })
})

t.test('a match has offsets and groups', async (t) => {
  t.same(regex('b(c)?(d)').exec('abd'), { start: 1, end: 3, groups: ['bd', '', 'd'] })
  t.equal(regex('x').exec('abc'), undefined)
})

t.test('replacements take groups by number and name', async (t) => {
  t.equal(regex('(\\w+)=(\\w+)').replaceAll('a=1, b=2', '$2:$1'), '1:a, 2:b')
  t.equal(regex('(?P<key>\\w+)=').replaceAll('a=1', `<$\{key}>$$`), '<a>$1')
  t.equal(regex('a').replaceAll('banana', '[$0]'), 'b[a]n[a]n[a]')
  t.equal(regex('a').replaceFirst('banana', 'o'), 'bonana')
  t.equal(regex('a').replaceAll('banana', '$1'), 'bnn', 'an unknown group is empty')
  t.equal(regex('').replaceAll('ab', '-'), '-a-b-')
  t.equal(regex('x').replaceAll('abc', 'y'), 'abc')
  t.equal(regex('a').replaceAll('a', '$&'), '$&', 'no other form has a meaning')
})

t.test('a cache compiles once, keeps few, and refuses what would be large', async (t) => {
  const cache = new RegexCache(2)
  const first = cache.get('a+')
  t.equal(cache.get('a+'), first)
  t.ok(cache.knows('a+'))
  cache.get('b')
  cache.get('c')
  t.notOk(cache.knows('a+'), 'the oldest made room')
  t.match(cache.get('['), { ok: false })
  for (const pattern of ['a{999}b{999}', '(a{40}){40}', 'x'.repeat(3000)]) {
    t.match(cache.get(pattern), { ok: false, message: /too large/ }, pattern.slice(0, 20))
    t.notOk(cache.knows(pattern))
  }
})
