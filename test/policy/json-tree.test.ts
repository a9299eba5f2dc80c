import t from 'tap'
import { atOnce } from '../../src/lib/slices.js'
import { readingJson } from '../../src/policy/json-tree.js'
import { readTree } from '../../src/policy/yaml-tree.js'

const LIMITS = { depth: 8, nodes: 100 }

const readJson = (text: string, limits: typeof LIMITS) => atOnce(readingJson(text, limits))

/** A comment at the end is no JSON, so that YAML reads the same characters. */
const asYaml = (text: string) => readTree(`${text}\n#`, LIMITS)

/** Numbers below `below`, the same ones for each seed. */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return (state >>> 8) % below
  }
}

const SCALARS = [0, -0.5, 1e21, -7, 2 ** 70, true, false, null, '', ' a ', 'it\'s "so"', 'é😀', '# no']
const KEYS = ['a', 'b c', '<<', '__proto__', '', '"', 'é']

function sample(next: (below: number) => number, depth = 0): unknown {
  const kind = next(depth > 4 ? 1 : 3)
  if (kind === 0 && depth > 0) return SCALARS[next(SCALARS.length)]
  const count = next(4)
  if (kind === 1) return Array.from({ length: count }, () => sample(next, depth + 1))
  return Object.fromEntries(Array.from({ length: count }, () => [KEYS[next(KEYS.length)], sample(next, depth + 1)]))
}

t.test('JSON gives the tree that YAML gives, with the same places', async (t) => {
  let read = 0
  for (let seed = 1; seed <= 300; seed++) {
    const value = sample(numbers(seed))
    for (const text of [
      JSON.stringify(value),
      JSON.stringify(value, null, 2),
      `${JSON.stringify(value, null, 1)}\n\n`
    ]) {
      const tree = readJson(text, LIMITS)
      if (tree === undefined) continue
      read++
      const yaml = asYaml(text)
      t.same(yaml.problems, [], text)
      if (!t.strictSame(tree, yaml.root, text)) return
    }
  }
  t.ok(read > 600, `${read} texts`)
})

t.test('escapes that both languages have', async (t) => {
  const text = String.raw`{"a":"\"\\\/\b\f\n\r\t","k\n":[1.50,-0,1E+2]}`
  t.strictSame(readJson(text, LIMITS), asYaml(text).root)
  t.ok(readJson(text, LIMITS))
})

t.test('what is no JSON, or is refused, is left to YAML', async (t) => {
  const texts = [
    '',
    'a: b',
    '"text"',
    '{"a":1,"a":2}',
    '{"a":1}}',
    '{"a":1,}',
    '[1,,2]',
    '[01]',
    '[1 2]',
    '[truely]',
    '{"a" :1}',
    '{"a"\n:1}',
    '{\t"a":1}',
    '{"a":1\r\n}',
    '["a\nb"]',
    String.raw`["\u0041"]`,
    String.raw`["\x41"]`,
    '["a',
    '[',
    '{a: 1}',
    "['a']",
    `{"${'k'.repeat(1100)}":1}`,
    '[[[[[[[[[]]]]]]]]]',
    `[${'1,'.repeat(100)}1]`
  ]
  for (const text of texts) t.equal(readJson(text, LIMITS), undefined, text)
  t.equal(readTree('{"a":1,"a":2}', LIMITS).problems[0]?.code, 'DUPLICATE_KEY')
  t.equal(readTree('[[[[[[[[[]]]]]]]]]', LIMITS).problems[0]?.code, 'LIMIT')
})
