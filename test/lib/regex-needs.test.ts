import t from 'tap'
import { compileProgram, compileRegex } from '../../src/lib/regex.js'
import { addCharacters, BIT_WORDS, meetsNeeds } from '../../src/lib/regex-needs.js'
import { randomNumbers } from '../expression/functions/call.js'

function mayMatch(pattern: string, text: string): boolean {
  const program = compileProgram(pattern)
  if (typeof program === 'string') throw new Error(program)
  const bits = new Int32Array(BIT_WORDS)
  addCharacters(bits, text)
  return meetsNeeds(bits, program.needs)
}

t.test('a text without the characters that every match has needs no search', async (t) => {
  t.equal(mayMatch('<script', 'a script'), false)
  t.equal(mayMatch('<script', 'a < script'), true)
  t.equal(mayMatch('a+[\'"]|b+;', 'ab'), false)
  t.equal(mayMatch('a+[\'"]|b+;', 'a;'), true)
  t.equal(mayMatch('\\(.*\\)', '(a'), false, 'the end is needed too')
  t.equal(mayMatch('a-?b', 'xy'), true, 'what may be left out is not needed')
  t.equal(mayMatch('', ''), true)
  t.equal(mayMatch('(?i)sleep\\(', 'SLEEP'), false)
  t.equal(mayMatch('[^a-z]', 'abc'), true, 'digits and capital letters would match')
})

t.test('no match is missed', async (t) => {
  const random = randomNumbers(3)
  const atoms = ['a', '<', '[<;]', '[^<]', '\\W', '\\s', '.', '(;|a)', '(<|\\()', '\\b', '^', '$', '[a;]']
  const repeats = ['', '', '*', '+', '?', '{2}']
  const characters = ['a', '<', ';', '(', ' ', '\n', '1']
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
