import { RE2JS } from 're2js'
import t from 'tap'
import { findGroups } from '../../src/lib/regex-groups.js'
import { toProgram } from '../../src/lib/regex-program.js'
import { randomNumbers } from '../expression/functions/call.js'

const ATOMS = [
  'a',
  'b',
  '.',
  '\\n',
  '\\w',
  '[ab]',
  '[^a]',
  '^',
  '$',
  '\\b',
  '\\B',
  '(?i:a)',
  '(?m:^)',
  '(?m:$)',
  '(a|ab)',
  ''
]
const REPEATS = ['', '', '*', '+', '?', '{2}', '{1,3}', '*?', '+?', '??']
const CHARACTERS = ['a', 'b', 'A', 'é', '\n', ' ', '1']

function randomPattern(random: (below: number) => number, depth: number): string {
  const parts = Array.from({ length: 1 + random(3) }, () => {
    const inner = depth > 0 && random(2) === 0 ? `(${randomPattern(random, depth - 1)})` : ATOMS[random(ATOMS.length)]
    return `${inner}${inner === '' ? '' : REPEATS[random(REPEATS.length)]}`
  })
  return random(3) === 0 ? `${parts.join('')}|${randomPattern(random, 0)}` : parts.join('')
}

const groups = (pattern: string, text: string, range = { from: 0, to: text.length }) => {
  const found = findGroups(toProgram(RE2JS.compile(pattern).re2Input), text, range, {
    slots: 40,
    meter: { budget: 1e9 }
  })
  return found?.flatMap((start, i) => (i % 2 === 0 ? [text.slice(start, found[i + 1])] : []))
}

t.test('groups of the first match are those that the package finds', async (t) => {
  const random = randomNumbers(5)
  const wrong: string[] = []
  let compared = 0
  for (let i = 0; i < 2_000; i++) {
    const pattern = randomPattern(random, 2)
    let program: RE2JS
    try {
      program = RE2JS.compile(pattern)
    } catch {
      continue
    }
    const tables = toProgram(program.re2Input)
    for (let j = 0; j < 8; j++) {
      const text = Array.from({ length: random(9) }, () => CHARACTERS[random(CHARACTERS.length)]).join('')
      const found = findGroups(tables, text, { from: 0, to: text.length }, { slots: 40, meter: { budget: 1e9 } })
      const matcher = program.matcher(text)
      const expected = matcher.find()
        ? Array.from({ length: matcher.groupCount() + 1 }, (_, group) => [matcher.start(group), matcher.end(group)])
        : []
      compared++
      if (JSON.stringify(found) !== JSON.stringify(expected.flat()))
        wrong.push(`${JSON.stringify(pattern)} in ${JSON.stringify(text)}: ${found} and not ${expected}`)
    }
  }
  t.ok(compared > 10_000, `${compared} pairs were compared`)
  t.same(wrong.slice(0, 5), [])
})

t.test('only a match in the range is found, with the characters around it as context', async (t) => {
  const text = 'ab ab'
  t.same(groups('a(b)', text, { from: 1, to: 5 }), ['ab', 'b'])
  t.same(groups('\\bb', text, { from: 1, to: 2 }), [])
  t.same(groups('^b', text, { from: 1, to: 2 }), [])
  t.same(groups('b$', text, { from: 0, to: 2 }), [])
  t.same(groups('ab', text, { from: 0, to: 1 }), [])
})

t.test('only so many offsets are kept, and the work stops when the meter is used up', async (t) => {
  const program = toProgram(RE2JS.compile('(a)(b)(c)').re2Input)
  const range = { from: 0, to: 3 }
  t.same(findGroups(program, 'abc', range, { slots: 4, meter: { budget: 1e6 } }), [0, 3, 0, 1])
  t.equal(findGroups(program, 'abc', range, { slots: 4, meter: { budget: 10 } }), undefined)
})
