import t from 'tap'
import { BodyReader } from '../../src/transport/http1/body-reader.js'
import { HeadReader } from '../../src/transport/http1/head-reader.js'
import { FieldNames } from '../../src/transport/http1/serialise.js'
import { LenientAnswer } from '../../src/transport/lenient-answer.js'
import { Random } from './codec-fuzz.js'

const LENGTH = 'Content-Length: 2\r\n\r\nok'
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'

/** What comes, and what the strict reader gets. */
const TAKEN: readonly (readonly [what: string, came: string, strict: string])[] = [
  ['bare LF', 'HTTP/1.1 200 OK\nA: b\nContent-Length: 2\n\nok', `HTTP/1.1 200 OK\r\nA: b\r\n${LENGTH}`],
  ['both ends of lines', 'HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\nok', `HTTP/1.1 200 OK\r\nA: b\r\n${LENGTH}`],
  [
    'control characters',
    `HTTP/1.1 200 O\x01K\r\nA: b\0\x1fc\rd\x7f\te\r\n${LENGTH}`,
    `HTTP/1.1 200 O K\r\nA: b  c d \te\r\n${LENGTH}`
  ],
  [
    'obs-text stays',
    `HTTP/1.1 200 OK\r\nA: \xc3\xa0\r\n \xa0\r\n${LENGTH}`,
    `HTTP/1.1 200 OK\r\nA: \xc3\xa0 \xa0\r\n${LENGTH}`
  ],
  ['folds', `HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\t \td \r\n${LENGTH}`, `HTTP/1.1 200 OK\r\nA: b c d\r\n${LENGTH}`],
  ['a version', `HTTP/1.2 200 OK\r\n${LENGTH}`, `HTTP/1.1 200 OK\r\n${LENGTH}`],
  ['an old version', `HTTP/1.0 200 OK\r\n${LENGTH}`, `HTTP/1.0 200 OK\r\n${LENGTH}`],
  ['spaces', `HTTP/1.1   404 Not  Found\r\n${LENGTH}`, `HTTP/1.1 404 Not  Found\r\n${LENGTH}`],
  [
    'equal lengths',
    `HTTP/1.1 200 OK\r\ncontent-length: 2\r\nA: b\r\n${LENGTH}`,
    `HTTP/1.1 200 OK\r\ncontent-length: 2\r\nA: b\r\n\r\nok`
  ],
  ['a list of them', 'HTTP/1.1 200 OK\r\nContent-Length: 2, 2 ,2\r\n\r\nok', `HTTP/1.1 200 OK\r\n${LENGTH}`],
  [
    'padded chunks',
    `${CHUNKED}2  \r\nok\r\n1 \t;a=b\r\n!\r\n0   \r\n\r\n`,
    `${CHUNKED}2\r\nok\r\n1;a=b\r\n!\r\n0\r\n\r\n`
  ],
  [
    'chunks with bare LF',
    `${CHUNKED.replaceAll('\r', '')}2\nok\n0\nT: \x01u\n\n`,
    `${CHUNKED}2\r\nok\r\n0\r\nT:  u\r\n\r\n`
  ],
  [
    'interim answers',
    `HTTP/1.1 103 Hints\nA: b\n\nHTTP/1.1 200 OK\n${LENGTH}`,
    `HTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n${LENGTH}`
  ],
  ['until the end', 'HTTP/1.0 200 OK\n\na\nb\0', 'HTTP/1.0 200 OK\r\n\r\na\nb\0'],
  ['a switch', 'HTTP/1.1 101 Switching\nUpgrade: tcp\n\na\nb\0', 'HTTP/1.1 101 Switching\r\nUpgrade: tcp\r\n\r\na\nb\0']
]

/** What could be read as another message: the strict reader refuses it. */
const REFUSED: readonly (readonly [what: string, came: string])[] = [
  ['length beside chunks', `HTTP/1.1 200 OK\nContent-Length: 2\nTransfer-Encoding: chunked\n\n2\nok\n0\n\n`],
  ['different lengths', `HTTP/1.1 200 OK\r\nContent-Length: 3\r\n${LENGTH}`],
  ['a list of different lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok'],
  ['lengths of another form', `HTTP/1.1 200 OK\r\nContent-Length: 02\r\n${LENGTH}`],
  ['a length with a sign', 'HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok'],
  ['a control character in a length', 'HTTP/1.1 200 OK\r\nContent-Length: 2\x0b\r\n\r\nok'],
  ['a CR in a length', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r0\r\n\r\nok'],
  ['a folded length', 'HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok'],
  ['a control character in an encoding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n'],
  ['a folded encoding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n'],
  ['two encodings', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['a fold behind the status line', `HTTP/1.1 200 OK\r\n A: b\r\n${LENGTH}`],
  ['a fold of white space', `HTTP/1.1 200 OK\r\nA: b\r\n \r\n${LENGTH}`],
  ['a space before a colon', `HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok`],
  ['a name that is none', `HTTP/1.1 200 OK\r\nA\0B: c\r\n${LENGTH}`],
  ['a line without a colon', `HTTP/1.1 200 OK\r\nfoo\r\n${LENGTH}`],
  ['HTTP/2', `HTTP/2.0 200 OK\r\n${LENGTH}`],
  ['no answer', '220 mail ESMTP\r\n'],
  ['an extension with bare LF', `${CHUNKED}2;a\nok\r\n0\r\n\r\n`],
  ['white space before a size', `${CHUNKED} 2\r\nok\r\n0\r\n\r\n`],
  ['a size with a prefix', `${CHUNKED}0x2\r\nok\r\n0\r\n\r\n`],
  ['a chunk that is longer than its size', `${CHUNKED}2\nokay\n0\n\n`],
  ['a size whose padding does not end', `${CHUNKED}2${' '.repeat(300_000)}\r\nok\r\n0\r\n\r\n`],
  ['folds without end', `HTTP/1.1 200 OK\r\nA: b\r\n${' c\r\n'.repeat(150_000)}${LENGTH}`]
]

/** The rewritten bytes, when they come in these pieces. */
function rewritten(pieces: readonly Buffer[], method = 'GET'): string {
  const lenient = new LenientAnswer()
  lenient.begin(method)
  return pieces.map((piece) => lenient.read(piece, piece.length).toString('latin1')).join('')
}

/** Does the strict reader take the first final answer, and how? */
function readStrictly(text: string): string {
  const head = new HeadReader('response', { headerBytes: 262_144, headers: 1e9, targetBytes: 0 }, new FieldNames())
  let at = 0
  do {
    head.next()
    const used = head.read(text.slice(at))
    if (used === -1) return 'refused'
    at += used
  } while (head.status < 200 && head.status !== 101)
  if (head.badFraming || head.lengths + head.encodings > 1) return 'refused'
  if (head.encodings + head.lengths === 0) return `${head.status} ${text.slice(at)}`
  const bodies = new BodyReader(head)
  let body = ''
  bodies.begin(head.encodings > 0 ? 'chunked' : 'length', head.length)
  const bytes = Buffer.from(text.slice(at), 'latin1')
  bodies.read(bytes, 0, bytes.length, {
    data: (chunk, from, to) => {
      body += chunk.toString('latin1', from, to)
    }
  })
  return bodies.refusal === undefined && bodies.done ? `${head.status} ${body}` : 'refused'
}

const whole = (text: string) => [Buffer.from(text, 'latin1')]

t.test('what keeps to the grammar or breaks it harmlessly is rewritten', (t) => {
  for (const [what, came, strict] of TAKEN) {
    t.equal(rewritten(whole(came)), strict, what)
    t.not(readStrictly(strict), 'refused', what)
    t.equal(rewritten(whole(strict)), strict, `${what}, a second time`)
  }
  t.end()
})

t.test('what could be read as another message is refused', (t) => {
  for (const [what, came] of REFUSED) t.equal(readStrictly(rewritten(whole(came))), 'refused', what)
  t.end()
})

t.test('answers without content end with their heads', (t) => {
  const head = 'HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n'
  t.equal(rewritten(whole(`${head}5 \nsurplus`), 'HEAD'), `${head.replaceAll('\n', '\r\n')}5 \nsurplus`)
  for (const status of [204, 304]) {
    const came = head.replace('200', String(status))
    t.equal(rewritten(whole(`${came}5 \n`)), `${came.replaceAll('\n', '\r\n')}5 \n`)
  }
  t.end()
})

t.test('cuts change nothing, and what is right passes without a copy', (t) => {
  const random = new Random(7)
  for (const [what, came] of [...TAKEN, ...REFUSED.filter(([, text]) => text.length < 1_000)]) {
    const all = rewritten(whole(came))
    const bytes = Buffer.from(came, 'latin1')
    t.equal(rewritten(Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))), all, `${what}, byte by byte`)
    for (let i = 0; i < 20; i++) {
      const at = random.next(bytes.length + 1)
      t.equal(rewritten([bytes.subarray(0, at), bytes.subarray(at)]), all, `${what}, cut at ${at}`)
    }
  }
  const lenient = new LenientAnswer()
  lenient.begin('GET')
  lenient.read(Buffer.from('HTTP/1.1 200 OK\n\n'), 17)
  const body = Buffer.from('a\nb')
  t.equal(lenient.read(body, body.length), body)
  t.end()
})
