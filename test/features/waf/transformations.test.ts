import t from 'tap'
import { transformation } from '../../../src/features/waf/transformations.js'

const apply = (name: string, text: string) => transformation(name)?.(text)

/** Cases by transformation: input and output. */
const CASES: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  lowercase: [
    ['ABCxyz[\xc4]', 'abcxyz[\xc4]'],
    ['', '']
  ],
  uppercase: [['abcXYZ{\xe4}', 'ABCXYZ{\xe4}']],
  urlDecode: [
    ['a%20b+c', 'a b c'],
    ['a+b', 'a b'],
    ['%', '%'],
    ['%4', '%4'],
    ['%zz%41', '%zzA'],
    ['%u0041', '%u0041'],
    ['%%41', '%A'],
    ['%00', '\0']
  ],
  urlDecodeUni: [
    ['%u0041%u00e9', 'A\xe9'],
    ['%uff1cscript%UFF1E', '<script>'],
    ['%u1234', '4'],
    ['%u12', '%u12'],
    ['%u+%', '%u %'],
    ['%41%u004', 'A%u004']
  ],
  htmlEntityDecode: [
    ['&lt;b&GT;&quot&amp;', '<b>"&'],
    ['&#60;&#x3C;&#x3c&#X03c;', '<<<<'],
    ['&nbsp;', '\xa0'],
    ['&unknown;&;&', '&unknown;&;&'],
    ['&#;&#x;', '&#;&#x;'],
    ['&#106&#x61;', 'ja'],
    ['&#99999999999999999999;', '\xff'],
    ['&#x100000041;', 'A'],
    ['&ltx', '&ltx']
  ],
  jsDecode: [
    ['\\u0041\\x42\\103', 'ABC'],
    ['\\uff1c\\n\\t\\a\\z', '<\n\t\x07z'],
    ['\\u00g0', 'u00g0'],
    ['\\x4', 'x4'],
    ['\\477', "'7"],
    ['\\8', '8'],
    ['end\\', 'end\\']
  ],
  cssDecode: [
    ['\\41 \\042', 'AB'],
    ['\\000041B', 'AB'],
    ['\\ff1c x', '<x'],
    ['\\zx\\', 'zx'],
    ['a\\\nb', 'ab'],
    ['ex\\pression', 'expression'],
    ['\\j\\a\\v', 'j\n'.concat('v')],
    ['\\0041\tB', 'AB']
  ],
  escapeSeqDecode: [
    ['\\a\\b\\f\\n\\r\\t\\v\\?\\\'\\"\\\\', '\x07\b\f\n\r\t\v?\'"\\'],
    ['\\x41\\X42\\103\\0', 'ABC\0'],
    ['\\x4\\8\\q', 'x48q'],
    ['\\', '\\']
  ],
  removeNulls: [['a\0b\0', 'ab']],
  replaceNulls: [['a\0b\0', 'a b ']],
  removeWhitespace: [[' a\t\n\v\f\r b\xa0', 'ab']],
  compressWhitespace: [['  a \t\xa0\n b  ', ' a b ']],
  replaceComments: [
    ['a/*x*/b/* y', 'a b '],
    ['a*/b', 'a*/b'],
    ['/*/a', ' '],
    ['un/**/ion', 'un ion']
  ],
  removeComments: [
    ['a/*x*/b<!-- y -->c', 'abc'],
    ['a--b', 'a'],
    ['a#b', 'a'],
    ['a/*b', 'a ']
  ],
  removeCommentsChar: [['a/*b*/c--d#e<!--f-->g', 'abcdefg']],
  cmdLine: [
    ['C^OMMAND /C "dir"', 'command/c dir'],
    ['a ,; \t b', 'a b'],
    ["\\n'e't (x", 'net(x'],
    ['', '']
  ],
  normalizePath: [
    ['', ''],
    ['.', ''],
    ['./..', '..'],
    ['..', '..'],
    ['../.', '..'],
    ['.././', '../'],
    ['/a/./b//c/../d', '/a/b/d'],
    ['/../../etc/passwd', '/etc/passwd'],
    ['a/../../b', '../b'],
    ['a/b/..', 'a'],
    ['a/b/../', 'a/'],
    ['//', '/'],
    ['/a//', '/a/']
  ],
  normalisePath: [['a/../b', 'b']],
  normalizePathWin: [['c:\\win\\..\\x', 'c:/x']],
  normalisePathWin: [['\\..\\a', '/a']],
  base64Decode: [
    ['VGVzdA==', 'Test'],
    ['VGVz\ndA', 'Test'],
    ['VGV!zdA', 'Te'],
    ['', ''],
    ['/w==', '\xff']
  ],
  base64DecodeExt: [['VG!Vz-dA==', 'Test']],
  base64Encode: [['\xff\0', '/wA=']],
  hexDecode: [
    ['41420', 'AB'],
    ['41zz42', 'A']
  ],
  hexEncode: [['A\xff', '41ff']],
  sqlHexDecode: [['0x414243x 0xg 0X4', 'ABCx 0xg 0X4']],
  length: [
    ['', '0'],
    ['\xff12', '3']
  ],
  trim: [[' \ta b\n', 'a b']],
  trimLeft: [[' a ', 'a ']],
  trimRight: [[' a ', ' a']],
  utf8toUnicode: [
    ['caf\xc3\xa9', 'caf%u00e9'],
    ['\xef\xbc\x9c', '%uff1c'],
    ['\xf0\x9f\x98\x80', '%u1f600'],
    ['\xc0\xaf', '%u002f'],
    ['\xc3', '\xc3'],
    ['\xe2\x82x', '\xe2\x82x'],
    ['\xff\xf8', '\xff\xf8'],
    ['plain', 'plain']
  ],
  urlEncode: [['a b/\xff', 'a+b%2f%ff']],
  parityEven7bit: [['a\x03\x80', '\xe1\x03\0']],
  parityOdd7bit: [['a\x03', 'a\x83']],
  parityZero7bit: [['\xe1', 'a']]
}

for (const [name, cases] of Object.entries(CASES)) {
  t.test(name, async (t) => {
    for (const [input, output] of cases) t.equal(apply(name, input), output, JSON.stringify(input))
  })
}

t.test('digests are of bytes and give bytes', async (t) => {
  const hex = (name: string, text: string) => apply('hexEncode', apply(name, text) ?? '')
  t.equal(hex('md5', ''), 'd41d8cd98f00b204e9800998ecf8427e')
  t.equal(hex('sha1', 'abc'), 'a9993e364706816aba3e25717850c26c9cd0d89d')
  t.not(hex('sha1', '\xe4'), hex('sha1', 'a'))
})

t.test('names have any case, and unknown ones are refused', async (t) => {
  t.equal(transformation('URLDECODEUNI'), transformation('urlDecodeUni'))
  t.equal(transformation('none'), undefined)
  t.equal(transformation('rot13'), undefined)
})

/** Pseudo-random texts of bytes that transformations look for, the same in every run. */
function* randomTexts(count: number): Generator<string> {
  const alphabet = '%u&#x;\\/*-<!>.+ \n\0\'"09afAFgz=\x80\xa0\xc3\xe2\xf0\xff'
  let state = 12345
  const next = (limit: number) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % limit
  }
  for (let i = 0; i < count; i++) {
    let text = ''
    for (let length = next(40); length > 0; length--) text += alphabet[next(alphabet.length)]
    yield text
  }
}

t.test('every transformation keeps bytes and stays within three times its input', async (t) => {
  const names = Object.keys(CASES)
  const wrong: string[] = []
  for (const text of randomTexts(2_000)) {
    for (const name of names) {
      const out = apply(name, text) ?? ''
      const bytes = Buffer.from(out, 'latin1').toString('latin1') === out
      if (!bytes || out.length > Math.max(4, text.length * 3)) wrong.push(`${name} ${JSON.stringify(text)}`)
    }
  }
  t.same(wrong, [])
})

t.test('transformations that normalise change nothing the second time', async (t) => {
  const wrong: string[] = []
  const names = ['lowercase', 'removeNulls', 'removeWhitespace', 'compressWhitespace', 'normalizePath', 'trim']
  for (const text of randomTexts(2_000)) {
    for (const name of names) {
      const once = apply(name, text) ?? ''
      if (apply(name, once) !== once) wrong.push(`${name} ${JSON.stringify(text)}`)
    }
  }
  t.same(wrong, [])
})

t.test('encodings are undone by their decoders', async (t) => {
  const pairs = [
    ['base64Encode', 'base64Decode'],
    ['hexEncode', 'hexDecode'],
    ['urlEncode', 'urlDecode']
  ] as const
  const wrong: string[] = []
  for (const text of randomTexts(500)) {
    for (const [encode, decode] of pairs) {
      if (apply(decode, apply(encode, text) ?? '') !== text) wrong.push(`${encode} ${JSON.stringify(text)}`)
    }
  }
  t.same(wrong, [])
})
