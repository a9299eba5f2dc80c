import t from 'tap'
import { changeTest } from '../../../src/features/waf/changes.js'
import { transformation } from '../../../src/features/waf/transformations.js'

const NAMES = [
  'cmdLine',
  'compressWhitespace',
  'cssDecode',
  'escapeSeqDecode',
  'htmlEntityDecode',
  'jsDecode',
  'lowercase',
  'normalisePath',
  'normalisePathWin',
  'normalizePath',
  'normalizePathWin',
  'removeComments',
  'removeCommentsChar',
  'removeNulls',
  'removeWhitespace',
  'replaceComments',
  'replaceNulls',
  'sqlHexDecode',
  'uppercase',
  'urlDecode',
  'urlDecodeUni',
  'utf8toUnicode'
]
const PARTS = ['a', 'Z', '0', 'x41', '.', '..', '/', '\\', '%41', '+', '&lt;', ' ', '  ', '\t', '\n', '\r', '\v', '\f']
const MORE = ['\0', '\xa0', '\xc3\xa9', '--', '-', '#', '/*', '*/', '<!--', '"', "'", '^', ',', ';', '(', '0x41', '']

/** All texts of up to two parts. */
const texts = [...PARTS, ...MORE].flatMap((first, _, all) => all.map((second) => first + second))

t.test('no transformation changes a text that its test clears', (t) => {
  for (const name of NAMES) {
    const test = changeTest(name)
    const change = transformation(name)
    if (test === undefined || change === undefined) throw new Error(`${name} has no test`)
    const wrong = texts.filter((text) => !test(text, 0) && change(text) !== text)
    t.same(wrong, [], name)
    const cleared = texts.filter((text) => !test(text, 0))
    t.ok(cleared.length > 0, `${name} clears some texts`)
  }
  t.end()
})

t.test('a test clears joined values only if it clears each of them', (t) => {
  for (const name of NAMES) {
    const test = changeTest(name) as NonNullable<ReturnType<typeof changeTest>>
    const change = transformation(name) as (text: string) => string
    const wrong: string[][] = []
    for (let i = 0; i + 2 < texts.length; i++) {
      const values = texts.slice(i, i + 3)
      if (!test(values.join('\n'), 2) && values.some((value) => change(value) !== value)) wrong.push(values)
    }
    t.same(wrong, [], name)
    t.notOk(test('\n\n', 2), `${name}: line breaks between empty values`)
  }
  t.end()
})

t.test('transformations that change most texts have no test', (t) => {
  for (const name of ['base64Decode', 'length', 'md5', 'hexEncode', 'unknown'])
    t.equal(changeTest(name), undefined, name)
  t.end()
})
