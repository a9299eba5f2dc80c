import t from 'tap'
import { compileByteRange, validateUrlEncoding, validateUtf8Encoding } from '../../../src/features/waf/validators.js'

t.test('byte ranges', async (t) => {
  const check = compileByteRange('9,10, 13,32-126')
  t.equal(check('a\tb\r\n~'), undefined)
  t.equal(check('a\0'), 0)
  t.equal(check('\x7f'), 127)
  t.equal(compileByteRange('1-255')('\xff\x01'), undefined)
  for (const bad of ['', 'x', '1-', '5-3', '256', '1-2-3', '-1', '1,,2', '1.5'])
    t.throws(() => compileByteRange(bad), RangeError, bad)
})

t.test('UTF-8', async (t) => {
  const cases: readonly (readonly [string, number | undefined])[] = [
    ['', undefined],
    ['ascii', undefined],
    ['\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80', undefined],
    ['a\xe9', 1],
    ['\x80', 0],
    ['\xc0\xaf', 0],
    ['\xc1\xbf', 0],
    ['\xe0\x80\xaf', 0],
    ['\xf0\x80\x80\xaf', 0],
    ['\xed\xa0\x80', 0],
    ['\xf4\x90\x80\x80', 0],
    ['\xf5\x80\x80\x80', 0],
    ['ab\xe2\x82', 2],
    ['\xc3\xa9\xc3', 2]
  ]
  for (const [text, at] of cases) t.equal(validateUtf8Encoding(text), at, JSON.stringify(text))
})

t.test('UTF-8 is judged as by a strict decoder', async (t) => {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const bytes = [
    0x41, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff
  ]
  const wrong: string[] = []
  for (let i = 0; i < bytes.length ** 4; i += 3) {
    const buffer = Buffer.from([1, 18, 18 ** 2, 18 ** 3].map((step) => bytes[Math.floor(i / step) % 18] ?? 0))
    let valid = true
    try {
      decoder.decode(buffer)
    } catch {
      valid = false
    }
    if ((validateUtf8Encoding(buffer.toString('latin1')) === undefined) !== valid) wrong.push(buffer.toString('hex'))
  }
  t.same(wrong, [])
})

t.test('percent encoding', async (t) => {
  t.equal(validateUrlEncoding('a%20b%fF+'), undefined)
  t.equal(validateUrlEncoding('%20%2'), 3)
  t.equal(validateUrlEncoding('%zz'), 0)
  t.equal(validateUrlEncoding('100%'), 3)
})
