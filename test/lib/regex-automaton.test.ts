import { RE2JS } from 're2js'
import t from 'tap'
import { compileRegex, type Regex } from '../../src/lib/regex.js'
import { Automaton } from '../../src/lib/regex-automaton.js'
import { toProgram } from '../../src/lib/regex-program.js'
import { randomNumbers } from '../expression/functions/call.js'

const ATOMS = [
  ...['a', 'b', 'k', 'é', '😀', '.', '\\n', '\\w', '\\W', '\\d', '\\s', '[ab]', '[^a]', '[a-k]', '\\pL', '(?s:.)'],
  ...['^', '$', '\\b', '\\B', '\\A', '\\z', '(?m:^)', '(?m:$)', '(?i:k)', '(?i:[j-l])', '']
]
const REPEATS = ['', '', '', '*', '+', '?', '{2}', '{1,3}', '{2,}', '*?']
const CHARACTERS = ['a', 'b', 'k', 'K', '\u212a', 'é', '😀', '\ud83d', '\n', ' ', '_', '1', '']

function randomPattern(random: (below: number) => number, depth: number): string {
  const parts = Array.from({ length: 1 + random(3) }, () => {
    const inner = depth > 0 && random(3) === 0 ? `(${randomPattern(random, depth - 1)})` : ATOMS[random(ATOMS.length)]
    const repeat = inner === '' ? '' : REPEATS[random(REPEATS.length)]
    return `${inner}${repeat}`
  })
  return random(4) === 0 ? `${parts.join('')}|${randomPattern(random, 0)}` : parts.join('')
}

function regex(pattern: string): Regex {
  const compiled = compileRegex(pattern)
  if (!compiled.ok) throw new Error(compiled.message)
  return compiled.regex
}

t.test('the automaton finds what the package finds', async (t) => {
  const random = randomNumbers(7)
  const wrong: string[] = []
  let compared = 0
  for (let i = 0; i < 3_000; i++) {
    const pattern = randomPattern(random, 2)
    let program: RE2JS
    try {
      program = RE2JS.compile(pattern)
    } catch {
      continue
    }
    const automaton = new Automaton(toProgram(program.re2Input))
    for (let j = 0; j < 8; j++) {
      const text = Array.from({ length: random(9) }, () => CHARACTERS[random(CHARACTERS.length)]).join('')
      compared++
      const found = automaton.test(text, { budget: 1e9 })
      if (found !== program.matcher(text).find()) wrong.push(`${JSON.stringify(pattern)} in ${JSON.stringify(text)}`)
    }
  }
  t.ok(compared > 15_000, `${compared} pairs were compared`)
  t.same(wrong.slice(0, 5), [])
})

t.test('an automaton that begins anew finds the same', async (t) => {
  const program = RE2JS.compile('(a|b)*a(a|b){11}c')
  const automaton = new Automaton(toProgram(program.re2Input))
  const random = randomNumbers(11)
  const text = Array.from({ length: 20_000 }, () => 'ab'[random(2)]).join('')
  t.equal(automaton.test(text, { budget: 1e9 }), false)
  t.equal(automaton.test(`${text}a${'b'.repeat(11)}c`, { budget: 1e9 }), true)
  t.equal(automaton.test('b'.repeat(13), { budget: 1e9 }), false)
})

t.test('the work that a large program makes is counted, and stops when the meter is used up', async (t) => {
  const pattern = regex('^(a?){900}a{900}$')
  const meter = { budget: 100_000 }
  t.equal(pattern.testWithin('a'.repeat(16_384), meter), undefined)
  t.ok(meter.budget < 0 && meter.budget > -20_000, `${meter.budget} steps are left`)
})

t.test('what was thought through once costs nothing again', async (t) => {
  const pattern = regex('^/api/v[0-9]+/(users|items)')
  const first = { budget: 100_000 }
  t.equal(pattern.testWithin('/api/v12/items', first), true)
  t.ok(first.budget < 100_000)
  const second = { budget: 100_000 }
  t.equal(pattern.testWithin('/api/v12/items', second), true)
  t.equal(second.budget, 100_000)
})

t.test('a search for what begins a text ends where it cannot begin any more', async (t) => {
  const pattern = regex('^/api/')
  const meter = { budget: 50 }
  // Every character is another class or place at the first look; a walk to the end would need more steps.
  t.equal(pattern.testWithin(`/x${'/ap'.repeat(10_000)}`, meter), false)
})
