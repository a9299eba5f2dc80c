import t from 'tap'
import { buildNeedTable, markNeeds, type NeedMarks, placeOf } from '../../src/lib/need-table.js'
import { compileProgram, compileRegex } from '../../src/lib/regex.js'
import { findNeeds, rarestPart } from '../../src/lib/regex-needs.js'
import { randomNumbers } from '../expression/functions/call.js'

function mayMatch(pattern: string, text: string): boolean {
  const program = compileProgram(pattern)
  if (typeof program === 'string') throw new Error(program)
  return meets(findNeeds(program), text).every((met) => met)
}

/** Returns whether a text meets each need. */
function meets(needs: readonly (readonly string[])[], text: string): boolean[] {
  const table = buildNeedTable(needs)
  const marks: NeedMarks = [...table.blank]
  markNeeds(table, text, marks)
  return needs.map((_, number) => {
    const { word, bit } = placeOf(number)
    return ((marks[word] as number) & bit) !== 0
  })
}

t.test('a text without a part that every match has needs no search', async (t) => {
  t.equal(mayMatch('<script', 'a script'), false)
  t.equal(mayMatch('<script', 'a <script'), true)
  t.equal(mayMatch('a+[\'"]|b+;', 'ab'), false)
  t.equal(mayMatch('a+[\'"]|b+;', 'a;'), false)
  t.equal(mayMatch('a+[\'"]|b+;', 'b;'), true)
  t.equal(mayMatch('\\(.*\\)', '(a'), false, 'the end is needed too')
  t.equal(mayMatch('xa-?b', 'xab'), true, 'what may be left out is not needed')
  t.equal(mayMatch('', ''), true)
  t.equal(mayMatch('(?i)sleep\\(', 'SLE'), false)
  t.equal(mayMatch('(?i)sleep\\(', 'SLEEP('), true, 'the case does not count')
  t.equal(mayMatch('.*(?:union|select|outfile)', 'a selection'), true)
  t.equal(mayMatch('.*(?:union|select|outfile)', 'a sel'), false)
  t.equal(mayMatch('[^a-z]', 'abc'), true, 'too many characters would match')
})

t.test('a table finds texts that overlap and that end each other', async (t) => {
  const needs = [['abcd'], ['bc'], ['c', 'xyz'], ['bcx'], []]
  t.same(meets(needs, 'ABC'), [false, true, true, false, false])
  t.same(meets(needs, 'aabcdbcx'), [true, true, true, true, false])
  t.same(meets(needs, 'xxyz'), [false, false, true, false, false])
  t.same(meets(needs, ''), [false, false, false, false, false])
  const many = Array.from({ length: 100 }, (_, i) => [`<${i}>`])
  t.same(
    meets(many, '<7><33><99>').flatMap((met, i) => (met ? [i] : [])),
    [7, 33, 99]
  )
})

t.test('needs beyond the size of a table count as met', async (t) => {
  const large = Array.from({ length: 20_000 }, (_, i) => `text ${i.toString(36).padStart(4, '0')}`)
  t.same(meets([['abc'], large, ['xyz']], 'abc'), [true, true, false])
})

t.test('the rarest part of a phrase has signs', async (t) => {
  t.equal(rarestPart('ab<>cd', 2), '<>')
  t.equal(rarestPart('ab', 4), 'ab')
})

t.test('no match is missed', async (t) => {
  const random = randomNumbers(3)
  const atoms = [
    'a',
    '<',
    '[<;]',
    '[^<]',
    '\\W',
    '\\s',
    '.',
    '(;|a)',
    '(<|\\()',
    '(?i:A)',
    '(?:a<|;;|1a)',
    '[\\xe9<]',
    '\\b',
    '^',
    '$',
    '[a;]'
  ]
  const repeats = ['', '', '*', '+', '?', '{2}']
  const characters = ['a', 'A', '<', ';', '(', ' ', '\n', '1', '\xe9']
  let found = 0
  for (let i = 0; i < 1_500; i++) {
    const part = () => `${atoms[random(atoms.length)]}`
    const pattern = Array.from(
      { length: 1 + random(4) },
      () => part() + (random(2) === 0 ? '' : repeats[random(6)])
    ).join(random(3) === 0 ? '|' : '')
    const compiled = compileRegex(pattern)
    if (!compiled.ok) continue
    for (let j = 0; j < 6; j++) {
      const text = Array.from({ length: random(6) }, () => characters[random(characters.length)]).join('')
      if (!compiled.regex.test(text)) continue
      found++
      if (!mayMatch(pattern, text)) t.fail(`${pattern} in ${JSON.stringify(text)}`)
    }
  }
  t.ok(found > 1_000, `${found} matches`)
})
