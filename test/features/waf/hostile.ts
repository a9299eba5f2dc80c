import { readJson } from '../../../src/features/waf/bodies/json.js'
import { readMultipart } from '../../../src/features/waf/bodies/multipart.js'
import { readUrlencoded } from '../../../src/features/waf/bodies/urlencoded.js'
import type { BodyResult } from '../../../src/features/waf/bodies/values.js'
import { readXml } from '../../../src/features/waf/bodies/xml.js'
import { detectSqli } from '../../../src/features/waf/detect/sqli.js'
import { detectXss } from '../../../src/features/waf/detect/xss.js'
import { compilePhrases } from '../../../src/features/waf/phrases.js'
import { transformation } from '../../../src/features/waf/transformations.js'
import { compileByteRange, validateUrlEncoding, validateUtf8Encoding } from '../../../src/features/waf/validators.js'

/** Beginning, repeated middle and end of hostile texts. */
export const SHAPES: Readonly<Record<string, readonly [string, string, string?]>> = {
  letters: ['', 'a'],
  spaces: ['x', ' ', 'x'],
  newlines: ['x', '\n', 'x'],
  'carriage returns': ['', '\r\n'],
  nulls: ['', '\0'],
  'single quotes': ['', "'"],
  'double quotes': ['', '"'],
  'escaped quotes': ['"', '\\"'],
  backslashes: ['', '\\'],
  percents: ['', '%'],
  'percent u': ['', '%u00'],
  ampersands: ['', '&'],
  entities: ['', '&#'],
  'entity digits': ['&#x', '0'],
  brackets: ['', '['],
  objects: ['', '{"a":'],
  members: ['{', '"a":1,', '"b":2}'],
  parentheses: ['1', '(', ' or 1=1'],
  'closed parentheses': ["x'", ')', ' or 1=1'],
  'open comments': ['1', '/*'],
  'short comments': ['1', '/**/', ' or 1=1'],
  'line comments': ['1', '--\n', ' or 1=1'],
  'less signs': ['', '<'],
  tags: ['', '<a b='],
  attributes: ['<a ', "b='c' ", '>'],
  'html comments': ['', '<!--'],
  cdata: ['<r>', '<![CDATA['],
  declarations: ['', '<!x ['],
  elements: ['', '<a>'],
  'boundary lines': ['--XX\r\n', '--XX\r\n'],
  'near boundaries': ['--XX\r\n\r\n', '\n--X'],
  'part headers': ['--XX\r\n', 'a:b\r\n'],
  'long disposition': ['--XX\r\nContent-Disposition: form-data', ';a="b"', '\r\n\r\nx'],
  dots: ['', '../'],
  'dot segments': ['/', 'a/../'],
  hyphens: ['', '-'],
  arithmetic: ['1', '-1', ' or 1=1'],
  names: ['', 'union '],
  'utf-8 leads': ['', '\xf0'],
  'high bytes': ['', '\xff'],
  'base64 text': ['', 'QUJD'],
  'unfinished phrases': ['', 'aaaaaaab'],
  digits: ['', '9']
}

export function shaped([start, middle, end = '']: readonly [string, string, string?], length: number): string {
  const count = Math.ceil((length - start.length - end.length) / middle.length)
  return (start + middle.repeat(count)).slice(0, length - end.length) + end
}

/** Transformation that fails: a name in the list is wrong. */
function missing(name: string): (text: string) => string {
  return () => {
    throw new Error(`there is no transformation ${name}`)
  }
}

const latin1 = (text: string) => Buffer.from(text, 'latin1')
const PHRASES = compilePhrases(['aaaaaaaaa', 'aaaaaaac', '../../x', '""""x', 'union select'])
const RANGE = compileByteRange('1-255')

export const NAMES = [
  ...[
    'lowercase',
    'uppercase',
    'urlDecode',
    'urlDecodeUni',
    'htmlEntityDecode',
    'jsDecode',
    'cssDecode',
    'escapeSeqDecode'
  ],
  ...['removeNulls', 'replaceNulls', 'removeWhitespace', 'compressWhitespace', 'replaceComments', 'removeComments'],
  ...[
    'removeCommentsChar',
    'cmdLine',
    'normalizePath',
    'normalizePathWin',
    'base64Decode',
    'base64DecodeExt',
    'base64Encode'
  ],
  ...['hexDecode', 'hexEncode', 'sqlHexDecode', 'sha1', 'md5', 'length', 'trim', 'utf8toUnicode', 'urlEncode']
]

/** Readers of bodies with their results. */
export const READERS: Readonly<Record<string, (text: string) => BodyResult>> = {
  urlencoded: (text) => readUrlencoded(latin1(text)),
  json: (text) => readJson(latin1(text)),
  multipart: (text) => readMultipart(latin1(text), { contentType: 'multipart/form-data; boundary=XX' }),
  xml: (text) => readXml(latin1(text))
}

export const FUNCTIONS: Readonly<Record<string, (text: string) => unknown>> = {
  ...Object.fromEntries(NAMES.map((name) => [name, transformation(name) ?? missing(name)])),
  phrases: PHRASES,
  'byte range': RANGE,
  utf8: validateUtf8Encoding,
  'url encoding': validateUrlEncoding,
  sqli: detectSqli,
  xss: detectXss,
  ...READERS
}

/** CPU time of a call in milliseconds, the least of some calls. */
export function costOf(run: (text: string) => unknown, text: string, calls: number): number {
  let least = Number.POSITIVE_INFINITY
  for (let i = 0; i < calls; i++) {
    const before = process.cpuUsage()
    run(text)
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1_000)
  }
  return least
}
