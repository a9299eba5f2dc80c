import { createHash } from 'node:crypto'
import {
  APOSTROPHE,
  BACKSLASH,
  ByteText,
  isDigit,
  isLetter,
  isSpace,
  lowerCode,
  lowerText,
  NO_BREAK_SPACE,
  QUOTE
} from './bytes.js'
import {
  decodeBase64,
  decodeBase64Lenient,
  decodeCEscapes,
  decodeCss,
  decodeEntities,
  decodeHex,
  decodeJs,
  decodeSqlHex,
  decodeUrl,
  decodeUrlUnicode,
  encodeUnicode
} from './decoders.js'

/** Maps Latin-1 text, one code unit a byte, to Latin-1 text in linear time. */
export type Transformation = (text: string) => string

/**
 * Returns a transformation of the ModSecurity v3 reference by its name in any case, undefined for an unknown name. `none` is no
 * transformation: it resets the list of a rule.
 */
export function transformation(name: string): Transformation | undefined {
  return TRANSFORMATIONS.get(name.toLowerCase())
}

/** Maps each byte. A negative result removes the byte. */
function mapBytes(text: string, map: (code: number) => number): string {
  const out = new ByteText(text.length)
  for (let i = 0; i < text.length; i++) {
    const code = map(text.charCodeAt(i))
    if (code >= 0) out.add(code)
  }
  return out.toString()
}

const uppercase: Transformation = (text) =>
  mapBytes(text, (code) => (code >= 0x61 && code <= 0x7a ? code - 0x20 : code))

const removeNulls: Transformation = (text) => (text.includes('\0') ? text.replaceAll('\0', '') : text)

const replaceNulls: Transformation = (text) => (text.includes('\0') ? text.replaceAll('\0', ' ') : text)

const isWhite = (code: number) => isSpace(code) || code === NO_BREAK_SPACE

const removeWhitespace: Transformation = (text) => mapBytes(text, (code) => (isWhite(code) ? -1 : code))

const compressWhitespace: Transformation = (text) => {
  let white = false
  return mapBytes(text, (code) => {
    const before = white
    white = isWhite(code)
    if (!white) return code
    return before ? -1 : 0x20
  })
}

/** Replaces each C comment by a space, also one without an end. */
const replaceComments: Transformation = (text) => {
  let out = ''
  let from = 0
  for (let start = text.indexOf('/*'); start !== -1; start = text.indexOf('/*', from)) {
    const end = text.indexOf('*/', start + 2)
    out += `${text.slice(from, start)} `
    if (end === -1) return out
    from = end + 2
  }
  return out + text.slice(from)
}

/** Removes comments of C, HTML and SQL. A comment to the end of the line ends the text, as SQL has one line. */
const removeComments: Transformation = (text) => {
  let out = ''
  let from = 0
  let i = 0
  while (i < text.length) {
    const close = text.startsWith('/*', i) ? '*/' : text.startsWith('<!--', i) ? '-->' : undefined
    if (close !== undefined) {
      out += text.slice(from, i)
      const end = text.indexOf(close, i + 2)
      if (end === -1) return `${out} `
      i = end + close.length
      from = i
    } else if (text.startsWith('--', i) || text.startsWith('#', i)) return out + text.slice(from, i)
    else i++
  }
  return out + text.slice(from)
}

/** Marks of comments, longer ones before their beginnings. */
const COMMENT_MARKS: readonly string[] = ['<!--', '-->', '/*', '*/', '--', '#']

const removeCommentMarks: Transformation = (text) => {
  let out = ''
  let from = 0
  let i = 0
  while (i < text.length) {
    const mark = COMMENT_MARKS.find((candidate) => text.startsWith(candidate, i))
    if (mark === undefined) i++
    else {
      out += text.slice(from, i)
      i += mark.length
      from = i
    }
  }
  return out + text.slice(from)
}

/**
 * Undoes what shells ignore: removes `\ " ' ^`, makes one space of runs of white space, comma and semicolon, removes the space before
 * `/` and `(`, and changes to lower case.
 */
const normalizeCommandLine: Transformation = (text) => {
  const out = new ByteText(text.length)
  let space = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === BACKSLASH || code === QUOTE || code === APOSTROPHE || code === 0x5e) continue
    if (code === 0x20 || code === 0x2c || code === 0x3b || code === 0x09 || code === 0x0a || code === 0x0d) {
      if (!space) out.add(0x20)
      space = true
      continue
    }
    if (space && (code === 0x2f || code === 0x28)) out.dropLast()
    space = false
    out.add(lowerCode(code))
  }
  return out.toString()
}

/** Removes empty and `.` segments, and `..` with the segment before it. A relative path keeps leading `..`, an absolute one has none. */
const normalizePath: Transformation = (text) => {
  if (text === '') return ''
  const absolute = text.startsWith('/')
  const kept: string[] = []
  const segments = text.split('/')
  for (const segment of segments) {
    if (segment === '' || segment === '.') continue
    if (segment !== '..') kept.push(segment)
    else if (kept.length > 0 && kept.at(-1) !== '..') kept.pop()
    else if (!absolute) kept.push(segment)
  }
  const folder = kept.length > 0 && segments.at(-1) === ''
  return `${absolute ? '/' : ''}${kept.join('/')}${folder ? '/' : ''}`
}

const normalizePathWin: Transformation = (text) => normalizePath(text.replaceAll('\\', '/'))

/** Percent-encodes all but letters, digits, `*`, `-`, `.` and `_`; a space becomes `+`. */
const encodeUrl: Transformation = (text) => {
  const out = new ByteText(text.length * 3)
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x20) out.add(0x2b)
    else if (isLetter(code) || isDigit(code) || code === 0x2a || code === 0x2d || code === 0x2e || code === 0x5f)
      out.add(code)
    else out.addText(`%${code.toString(16).padStart(2, '0')}`)
  }
  return out.toString()
}

function trimmed(text: string, left: boolean, right: boolean): string {
  let start = 0
  let end = text.length
  while (left && start < end && isSpace(text.charCodeAt(start))) start++
  while (right && end > start && isSpace(text.charCodeAt(end - 1))) end--
  return text.slice(start, end)
}

/** Sets the eighth bit of each byte so that the number of one bits is even, or odd with `odd` 1. */
function setParity(text: string, odd: 0 | 1): string {
  return mapBytes(text, (code) => {
    const bits = code & 0x7f
    let sum = bits ^ (bits >> 4)
    sum ^= sum >> 2
    sum ^= sum >> 1
    return ((sum ^ odd) & 1) === 1 ? bits | 0x80 : bits
  })
}

const digest =
  (algorithm: 'md5' | 'sha1'): Transformation =>
  (text) =>
    createHash(algorithm).update(text, 'latin1').digest('binary')

const TRANSFORMATIONS: ReadonlyMap<string, Transformation> = new Map<string, Transformation>([
  ['base64decode', decodeBase64],
  ['base64decodeext', decodeBase64Lenient],
  ['base64encode', (text) => Buffer.from(text, 'latin1').toString('base64')],
  ['cmdline', normalizeCommandLine],
  ['compresswhitespace', compressWhitespace],
  ['cssdecode', decodeCss],
  ['escapeseqdecode', decodeCEscapes],
  ['hexdecode', decodeHex],
  ['hexencode', (text) => Buffer.from(text, 'latin1').toString('hex')],
  ['htmlentitydecode', decodeEntities],
  ['jsdecode', decodeJs],
  ['length', (text) => String(text.length)],
  ['lowercase', lowerText],
  ['md5', digest('md5')],
  ['normalisepath', normalizePath],
  ['normalisepathwin', normalizePathWin],
  ['normalizepath', normalizePath],
  ['normalizepathwin', normalizePathWin],
  ['parityeven7bit', (text) => setParity(text, 0)],
  ['parityodd7bit', (text) => setParity(text, 1)],
  ['parityzero7bit', (text) => mapBytes(text, (code) => code & 0x7f)],
  ['removecomments', removeComments],
  ['removecommentschar', removeCommentMarks],
  ['removenulls', removeNulls],
  ['removewhitespace', removeWhitespace],
  ['replacecomments', replaceComments],
  ['replacenulls', replaceNulls],
  ['sha1', digest('sha1')],
  ['sqlhexdecode', decodeSqlHex],
  ['trim', (text) => trimmed(text, true, true)],
  ['trimleft', (text) => trimmed(text, true, false)],
  ['trimright', (text) => trimmed(text, false, true)],
  ['uppercase', uppercase],
  ['urldecode', decodeUrl],
  ['urldecodeuni', decodeUrlUnicode],
  ['urlencode', encodeUrl],
  ['utf8tounicode', encodeUnicode]
])
