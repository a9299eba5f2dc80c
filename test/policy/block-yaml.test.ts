import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { atOnce } from '../../src/lib/slices.js'
import { readBlockEntry, readBlockYaml } from '../../src/policy/block-yaml.js'
import { dataOf } from '../../src/policy/tree.js'
import { readAnyYaml, readTree } from '../../src/policy/yaml-tree.js'

const LIMITS = { depth: 12, nodes: 400 }

const readHere = (text: string) => atOnce(readBlockYaml(text, LIMITS))

/** Numbers below `below`, the same ones for each seed. */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return (state >>> 8) % below
  }
}

const next = numbers(39)
const pick = <T>(from: readonly T[]): T => from[next(from.length)] as T

/** Values as people write them, and what looks like them and is something else. */
const VALUES = [
  ...['1', '-1', '1.5', '.5', '1e3', '0x1f', '0o7', '+5', '01', '1.', '.', '..', '.inf', '+.inf', '.nan', '1_000'],
  ...['true', 'True', 'no', 'null', '~', 'Null', 'a', 'a b', 'a#b', 'a #b', 'a:b', 'a: b', 'a :', 'é', '-', '--', '-a'],
  ...['"x"', "'x'", "'it''s'", '"a\\n"', '"a\\u0041"', '"a" # c', '"a"#c', "'a' b", '"a:b"', '"":', '\tb', 'b\t', ''],
  ...['[]', '{}', '[a, b]', '[1,2]', '{a: 1, b: [x]}', '{a:1}', '{"a":1}', '{"a": 1}', '[a,]', '[ a ]', '{a}', '[,]'],
  ...['[a: b]', "[it's, a]", '[a#b, c]', '[-1, -a]', '[http://x:1/]', '{a: [b, {c: d}]}', '{a: 1, a: 2}', '{a: 1} b'],
  ...['&a b', '*a', '!t x', '|', '|-', '>', '|+', '|2', '? a', '<<', '%a', '@a', '`a`', '/a/', '$x', '(a)', 'a[0]'],
  ...['req.url == "x"', '# c', '- a', 'x: y: z', 'a:', 'a: #c', '...', '---', '2020-01-01', '0', '-0', '12e', 'a  # x']
]
const USUAL = ['a', 'a b', '1', 'true', '"x"', '[a, b]', '{ a: 1 }', "it's", 'http://a.test:1/', 'a # c', '/a/']
const someValue = () => pick(next(4) === 0 ? VALUES : USUAL)
const KEYS = [
  'a',
  'b',
  'c',
  'd',
  'f g',
  '"q"',
  "'r'",
  'x.y:1',
  '1.0',
  'null',
  '<<',
  '__proto__',
  '/p',
  '*',
  'k#',
  'a,b'
]

function line(): string {
  const indent = ' '.repeat(pick([0, 0, 2, 2, 4, 1, 6]))
  const kind = next(8)
  if (kind < 4) return `${indent}${pick(KEYS)}:${pick([' ', '', '  '])}${someValue()}`
  if (kind < 5) return `${indent}-${pick([' ', '  ', ''])}${someValue()}`
  if (kind < 6) return `${indent}- ${pick(KEYS)}: ${someValue()}`
  return kind < 7 ? `${indent}${pick(KEYS)}:` : pick(['', '  ', '# c', `${indent}# c`, `${indent}${someValue()}`])
}

function block(depth: number, indent: number): string[] {
  const lines: string[] = []
  const spaces = ' '.repeat(indent)
  const isList = next(3) === 0
  for (let left = 1 + next(3); left > 0; left--) {
    if (next(8) === 0) lines.push(pick(['', `${spaces}# c`, '# c', `${spaces}  # d`, '   ']))
    const kind = next(6)
    if (isList) {
      const inner = block(depth - 1, indent + 2)
      if (kind < 2 || depth <= 0) lines.push(`${spaces}- ${someValue()}`)
      else lines.push(`${spaces}- ${inner[0]?.trimStart()}`, ...inner.slice(1))
    } else if (kind < 3 || depth <= 0) lines.push(`${spaces}${pick(KEYS)}: ${someValue()}`)
    else if (kind === 3) {
      const deeper = ' '.repeat(pick([indent + 2, indent + 2, indent + 1, indent + 4]))
      lines.push(`${spaces}${pick(KEYS)}: ${pick(['|', '|-', '>', '|+'])}`)
      for (let n = next(4); n >= 0; n--)
        lines.push(`${pick([deeper, deeper, `${deeper} `, ''])}${pick(['x', '# t', '', 'a: b'])}`)
    } else lines.push(`${spaces}${pick(KEYS)}:`, ...block(depth - 1, pick([indent + 2, indent + 4, indent])))
  }
  return lines
}

const SAMPLE = `# A site.
sites:
  shop.test: # the shop
    hosts: [www.shop.test, 'a b']
    # With a policy.
    policy:
      on_http_request:
        - expressions:
            - "req.method == 'POST'"
            - conn.client_ip != '10.0.0.1'
          actions:
            - type: custom-response
              config: { status_code: 200, body: "x" }

        - actions:
            - type: deny
              # last
    backend: [http://127.0.0.1:1]
backends:
  web:
    response:
      body: |
        Line 1
          Line 2

  none:
`

function mutated(): string {
  let text = SAMPLE
  for (let left = 1 + next(3); left > 0; left--) {
    const at = next(text.length)
    text =
      text.slice(0, at) +
      pick(['', ' ', '\n', '#', '"', "'", ': ', '- ', '\t', '|', '{', ']', '&a ', '\r\n']) +
      text.slice(at + next(3))
  }
  return text
}

t.test('what is read here is what the library reads, with the same places', async (t) => {
  let read = 0
  for (let n = 0; n < 9_000; n++) {
    const text =
      n % 3 === 0
        ? mutated()
        : n % 3 === 1
          ? block(3, 0).join('\n')
          : Array.from({ length: 1 + next(6) }, line).join('\n')
    const whole = text + pick(['', '\n', '\n\n'])
    const tree = readHere(whole)
    if (tree === undefined) continue
    read++
    const library = readAnyYaml(whole, LIMITS)
    if (library.problems.length > 0 || !isDeepStrictEqual(tree, library.root)) {
      t.strictSame({ tree, problems: [] }, { tree: library.root, problems: library.problems }, JSON.stringify(whole))
      return
    }
  }
  t.ok(read > 700, `${read} texts`)
})

t.test('what is not in this style is left to the library, with the same outcome', async (t) => {
  for (const text of [
    'a: &x 1\nb: *x',
    'a: >\n  folded\n',
    'a: 1\na: 2',
    'a: b\n  c',
    'a:\tb',
    '--- {}',
    '? a\n: b',
    'a: !t b'
  ]) {
    t.equal(readHere(text), undefined, text)
    t.strictSame(readTree(text, LIMITS), readAnyYaml(text, LIMITS), text)
  }
})

t.test('limits hold as for the library', async (t) => {
  for (const text of [
    `- ${'x\n- '.repeat(500)}x`,
    Array.from({ length: 14 }, (_, n) => `${' '.repeat(n)}a:`).join('\n')
  ]) {
    t.equal(readHere(text), undefined)
    t.equal(readTree(text, LIMITS).problems[0]?.code, 'LIMIT')
  }
})

t.test('an entry is read alone as within its text', async (t) => {
  const entries = ['  a.test:\n    backend: web # 1\n  # about b\n', '  b.test: { backend: [x] }\n\n', '  c.test:\n']
  const text = `sites:\n  # all of them\n${entries.join('')}backends: {}\n`
  const root = readHere(text)
  const sites = root?.kind === 'map' ? root.entries[0]?.value : undefined
  for (const [index, entry] of entries.entries()) {
    const whole = sites?.kind === 'map' ? sites.entries[index] : undefined
    const alone = atOnce(readBlockEntry(entry, 2, LIMITS))?.entry
    t.strictSame(alone && [alone.key, dataOf(alone.value)], whole && [whole.key, dataOf(whole.value)])
    t.equal(alone?.keySpan.start, 2)
  }
  t.equal(atOnce(readBlockEntry(entries.join(''), 2, LIMITS)), undefined, 'not more than one')
  const start = text.indexOf('  a.test')
  const rest = atOnce(readBlockYaml(text, LIMITS, { start, end: text.indexOf('backends') }))
  t.strictSame(rest && dataOf(rest), { sites: null, backends: {} })
})
