import t from 'tap'
import { changeSigns } from '../../../src/features/waf/changes.js'
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

/** Returns whether a text has a sign that a transformation changes it; undefined if there are no signs. */
function hasSign(name: string, text: string): boolean | undefined {
  const signs = changeSigns(name)
  if (signs === undefined) return undefined
  const lower = text.toLowerCase()
  return signs.texts.some((sign) => lower.includes(sign)) || signs.pattern?.test(text) === true
}

t.test('no transformation changes a text without its signs', (t) => {
  for (const name of NAMES) {
    const change = transformation(name)
    if (change === undefined) throw new Error(`${name} is not known`)
    const wrong = texts.filter((text) => hasSign(name, text) === false && change(text) !== text)
    t.same(wrong, [], name)
    const cleared = texts.filter((text) => hasSign(name, text) === false)
    t.ok(cleared.length > 0, `${name} leaves some texts`)
  }
  t.end()
})

t.test('transformations that change most texts have no signs', (t) => {
  for (const name of ['base64Decode', 'length', 'md5', 'hexEncode', 'unknown'])
    t.equal(changeSigns(name), undefined, name)
  t.end()
})
