import t from 'tap'
import { parseExactJson } from '../../src/lib/exact-json.js'

t.test('whole numbers keep their digits: ints up to 64 bits, text beyond', async (t) => {
  const table: Record<string, unknown> = {
    '1234567890123456789': 1_234_567_890_123_456_789n,
    '-9223372036854775808': -9_223_372_036_854_775_808n,
    '9223372036854775807': 9_223_372_036_854_775_807n,
    '9223372036854775808': '9223372036854775808',
    '123456789012345678901234567890': '123456789012345678901234567890',
    '9007199254740993': 9_007_199_254_740_993n,
    '9007199254740991': 9_007_199_254_740_991,
    '1234567890123456789.5': Number('1234567890123456789.5'),
    '1e30': 1e30,
    '"1234567890123456789"': '1234567890123456789',
    '{"id":1234567890123456789,"1234567890123456789":[-1234567890123456789,"\\"1234567890123456789"]}': {
      id: 1_234_567_890_123_456_789n,
      '1234567890123456789': [-1_234_567_890_123_456_789n, '"1234567890123456789']
    }
  }
  for (const [text, value] of Object.entries(table)) t.same(parseExactJson(text), value, text)
  for (const text of ['01234567890123456789', '1234567890123456789x', '{"a":1234567890123456789', '-', ''])
    t.throws(() => parseExactJson(text), SyntaxError, text)
  t.same(Object.keys(parseExactJson('{"__proto__":1234567890123456789}') as object), ['__proto__'])
})

t.test('everything else is as the parser of the language has it, and long digits cost little', async (t) => {
  for (const text of ['{"a":[1,2.5,-0,true,null,"\\u006e\\ud83d"],"b":{}}', '[1234567890123456.7,12345678901234567e3]'])
    t.same(parseExactJson(text), JSON.parse(text), text)
  const before = process.cpuUsage()
  t.type(parseExactJson('9'.repeat(1_000_000)), 'string')
  t.equal((parseExactJson(`[${'1234567890123456789,'.repeat(50_000)}0]`) as unknown[]).length, 50_001)
  const { user, system } = process.cpuUsage(before)
  t.ok(user + system < 1_000_000)
})
