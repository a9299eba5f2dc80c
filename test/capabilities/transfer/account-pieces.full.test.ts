import t from 'tap'
import { stringify } from 'yaml'
import { readPieces } from '../../../src/capabilities/transfer/command-account.js'
import { dataOf } from '../../../src/policy/tree.js'
import { readTree } from '../../../src/policy/yaml-tree.js'
import { random } from '../../features/rate-limit/limiter/support/random.js'
import { SITE } from './transfer-stand.js'

const LIMITS = { depth: 64, nodes: 100_000 }

/** What reading the whole says; undefined when something is wrong. */
function wholeOf(text: string): unknown {
  const { root, problems } = readTree(text, LIMITS)
  return root === undefined || problems.length > 0 ? undefined : dataOf(root)
}

const TEXTS = [
  'plain',
  'on_http_request:\n  - actions:\n      - type: deny\n',
  '# no comment\n    - no item\n\n\n',
  '  indented\nback\n',
  'a "quote" and \\ and : colon',
  'last line without an end\n  - x',
  '\n\n',
  "it's *no alias &no anchor",
  '---\n...\n%no directive',
  'ä 𝄞 \u2028 \t tab'
]

function document(next: () => number) {
  const pick = <T>(list: readonly T[]) => list[Math.floor(next() * list.length)] as T
  const entries = (kind: string) =>
    Array.from({ length: 1 + Math.floor(next() * 5) }, (_, n) => ({
      id: `${kind}_${n}`,
      fields: {
        text: pick(TEXTS),
        list: [n, null, true, -0.5, pick(TEXTS)],
        map: { [pick(TEXTS)]: {}, __proto__x: [] }
      }
    }))
  const kinds = ['vault', 'https_edge', 'https_edge_route'].filter(() => next() < 0.8)
  return {
    format: 'sluice-account/1',
    version: pick(TEXTS),
    users: next() < 0.5 ? [] : [{ id: 'usr_1', role: 'member' }],
    records: Object.fromEntries(kinds.map((kind) => [kind, entries(kind)]))
  }
}

const LINES = [
  '',
  '# x',
  '    # x',
  '  vault:',
  '    - id: x',
  '    -',
  '      y: 1',
  'users: []',
  'records:',
  '---',
  '...',
  '  - x',
  '    "',
  'x',
  '\tx',
  '&a',
  '%YAML 1.1',
  '    - &a {}',
  '    - *a',
  '}',
  '"format": 1,',
  '"a:b"'
]

/** The text with a line or a character more or less. */
function damaged(text: string, next: () => number): string {
  const lines = text.split('\n')
  const at = Math.floor(next() * lines.length)
  const column = Math.floor(next() * text.length)
  const line = LINES[Math.floor(next() * LINES.length)] as string
  const ways = [
    () => lines.toSpliced(at, 1).join('\n'),
    () => lines.toSpliced(at, 0, line).join('\n'),
    () => lines.toSpliced(at, 1, line).join('\n'),
    () => lines.toSpliced(at, 0, lines[Math.floor(next() * lines.length)] as string).join('\n'),
    () => text.slice(0, column) + text.slice(column + 1),
    () => `${text.slice(0, column)}${'"\':,{[ &*|-#\n'[Math.floor(next() * 13)]}${text.slice(column)}`,
    () => text.replaceAll('\n', '\r\n')
  ]
  return (ways[Math.floor(next() * ways.length)] as () => string)()
}

t.test('a text that is read in pieces says what the whole says', (t) => {
  const next = random(20)
  let read = 0
  let refused = 0
  for (let round = 0; round < 400; round++) {
    const data = document(next)
    const exact = stringify(data, { lineWidth: 0, aliasDuplicateObjects: false, blockQuote: 'literal' })
    const texts = [exact, JSON.stringify(data), JSON.stringify(data, null, 2)]
    for (const text of [...texts, ...texts.map((one) => damaged(one, next)), damaged(damaged(exact, next), next)]) {
      const pieces = readPieces(text, LIMITS, 1 + Math.floor(next() * 200))
      if (pieces === undefined) refused++
      else {
        read++
        const whole = wholeOf(text)
        if (JSON.stringify(pieces) !== JSON.stringify(whole)) t.same(pieces, whole, text)
      }
    }
  }
  t.ok(read > 1000 && refused > 100, `${read} read, ${refused} left to the whole`)
  t.end()
})

t.test('what pieces cannot say is left to the whole', (t) => {
  const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
  for (const text of [
    '{"a": 1, "a": 2}',
    '{"a": {"b": 1, "c": 2, "b": 3}}',
    nested(70),
    '{"a": 1,}',
    'records:\n  vault: &a\n    - x: 1\n',
    'records:\n  vault:\n    - &a {x: 1}\n  other:\n    - *a\n',
    'records:\n  vault:\n    - x: 1\n  vault:\n    - x: 2\n',
    'records:\n  vault:\n    - x: 1\nrecords: {}\n',
    '---\nrecords:\n  vault:\n    - x: 1\n',
    'records:\n  vault:\n'
  ]) {
    t.equal(readPieces(text, LIMITS, 1), undefined, text.slice(0, 40))
  }
  t.same(readPieces(nested(60), LIMITS), wholeOf(nested(60)))
  t.same(readPieces(SITE, LIMITS, 1), wholeOf(SITE))
  t.end()
})
