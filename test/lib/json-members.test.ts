import t from 'tap'
import { formFields, formFieldsCalled } from '../../src/lib/form-fields.js'
import { type JsonMembersOptions, JsonValue, jsonMembers } from '../../src/lib/json-members.js'
import { atOnce } from '../../src/lib/slices.js'
import { utf8Text } from '../../src/lib/utf8-text.js'

/** Members with their values as JSON.parse has them, undefined where there are none. */
function read(text: string | Buffer, options: JsonMembersOptions = {}) {
  const members = atOnce(jsonMembers(Buffer.from(text as string), options))
  return members?.map(([name, { bytes }]) => [name, JSON.parse(Buffer.from(bytes).toString())])
}

/** What JSON.parse makes of a text that holds an object. */
function parsed(text: string): unknown[] | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    return Object.entries(value)
  } catch {
    return undefined
  }
}

t.test('members are those that JSON.parse has', async (t) => {
  const texts = [
    '{}',
    ' { "a" : [ 1 , { "b" : null } ] , "c" : { } } \n',
    '{"a":-0.5e+10,"b":0,"c":1E9,"d":-1,"e":10.25}',
    '{"\\u0061\\n":"\\"\\\\\\/\\b\\f\\n\\r\\t\\ud83d","é":"😀"}',
    '{"__proto__":1,"a":true,"b":false,"c":[[],[[]]]}',
    ...['', ' ', '[]', '1', 'null', '"a"', '{', '}', '{"a"}', '{"a":}', '{"a":1,}', '{,}', '{"a":1 "b":2}', '{a:1}'],
    ...['{"a":01}', '{"a":1.}', '{"a":.5}', '{"a":+1}', '{"a":-}', '{"a":1e}', '{"a":1e+}', '{"a":0x1}', '{"a":NaN}'],
    ...['{"a":tru}', '{"a":truely}', '{"a":nul', '{"a":[1,]}', '{"a":[,1]}', '{"a":[1}', '{"a":{"b":1]}', '{"a":1}}'],
    ...[
      '{"a":"\n"}',
      '{"a":"\\x"}',
      '{"a":"\\u12g4"}',
      '{"a":"\\',
      '{"a":"b',
      "{'a':1}",
      '{"a":1}x',
      '{"a":1}//',
      '\ufeff{}'
    ],
    ...['{"a":"\u007f\u2028"}', '{"a":1\u00a0}', '{"a":[1 2]}', '{"a"::1}', '{"a":1,,"b":2}', '{"":""}']
  ]
  for (const text of texts) t.same(read(text), parsed(text), text.replace(/[^ -~]/g, '?'))
})

/** Objects put names that are numbers first. */
function sorted(members: readonly unknown[] | undefined): string | undefined {
  return members && JSON.stringify(members.map((member) => JSON.stringify(member)).sort())
}

t.test('a text with an error anywhere is refused as JSON.parse refuses it', async (t) => {
  const source = '{"a":[1,-2.5e3,"x\\n\\u00e9",true,{"b":null}],"c":{"d":{},"e":[]},"f":"é"}'
  const pieces = ['"', '\\', '{', '}', '[', ']', ',', ':', '0', '1', '-', '.', 'e', ' ', 'u', 't', '\u0001', 'é', '']
  let differing = 0
  for (let at = 0; at <= source.length; at++) {
    for (const piece of pieces) {
      for (const length of [0, 1, 2]) {
        const text = source.slice(0, at) + piece + source.slice(at + length)
        const expected = parsed(text)
        const found = read(text)
        if (sorted(found) === sorted(expected)) continue
        differing++
        t.equal(sorted(found), sorted(expected), text)
      }
    }
  }
  t.equal(differing, 0)
})

t.test('a name stands once where it must', async (t) => {
  const inner = '{"a":{"x":1,"x":2},"b":{"x":3}}'
  t.same(read(inner)?.length, 2)
  t.equal(read('{"a":1,"\\u0061":2}'), undefined)
  t.same(read('{"a":1,"b":2,"A":3,"b":4}', { called: ['a'] }), [
    ['a', 1],
    ['A', 3]
  ])
  t.equal(read('{"a":1,"b":2,"a":3}', { called: ['a'] }), undefined)
})

t.test('depth is bounded, UTF-8 is needed, and only what is wanted is given', async (t) => {
  const nested = (depth: number) => `${'{"a":'.repeat(depth - 1)}{}${'}'.repeat(depth - 1)}`
  t.ok(read(nested(64), { depth: 64 }))
  t.equal(read(nested(65), { depth: 64 }), undefined)
  t.ok(atOnce(jsonMembers(Buffer.from(nested(200_000)))), 'no stack is used up')
  t.equal(read(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), undefined)
  t.same(read('{"a":1,"b":2}', { wanted: (name) => name === 'b' }), [['b', 2]])
  const scalar = (text: string) => atOnce(new JsonValue(Buffer.from(text)).scalar())
  t.same(['"\\u00e9"', '-1.5', 'true', 'null', '[1]', '{}'].map(scalar), ['é', -1.5, true, null, undefined, undefined])
})

t.test('UTF-8 is read in stretches as it is in one', async (t) => {
  for (const unit of ['a', 'é', '€', '😀', 'aé€😀', '\ufeff']) {
    for (const shift of ['', 'x', 'xy', 'xyz']) {
      const text = shift + unit.repeat(40_000)
      t.ok(atOnce(utf8Text(Buffer.from(text))) === text, `${unit} behind ${shift.length}`)
    }
  }
  for (const wrong of [0xff, 0x80, 0xc3]) {
    const bytes = Buffer.alloc(50_000, 'a')
    bytes[16_383] = wrong
    t.equal(atOnce(utf8Text(bytes)), undefined)
    t.equal(atOnce(utf8Text(Buffer.alloc(50_000, wrong))), undefined)
  }
})

t.test('fields of a form are those of URLSearchParams', async (t) => {
  const read = (text: string, most?: number) => atOnce(formFields(Buffer.from(text), most))
  const long = Array.from({ length: 5_000 }, (_, i) => `k${i}=%C3%A9+${i}`).join('&')
  for (const text of ['', 'a=b', '?a=b&?c=d', '&&a&=b&c=&', 'a=%zz&b=%F0%9F', long, `${'&'.repeat(20_000)}a=1&?b=2`]) {
    t.same(read(text), [...new URLSearchParams(text)], text.slice(0, 20))
  }
  t.equal(read(long, 4_999), undefined)
  t.equal(read(long, 5_000)?.length, 5_000)
})

t.test('members and fields that are called so are those that a reader of all of them finds', async (t) => {
  const names = ['token', 'key', 'k', '', 'a b', 'é', 'ſ', 'kk', '%', 'a"b', 'a/\\n', 'i\u0307', '😀']
  const spelled = [
    'TOKEN',
    'toKen',
    'tokens',
    'toke',
    'to\u212aen',
    '\u212a',
    '\u212aEY',
    'KEY',
    'A B',
    'É',
    'İ',
    'kK',
    'A"b',
    '\u212ak'
  ]
  const percents = (text: string) =>
    [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
  const escapes = (text: string) =>
    Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')
  for (const name of names) {
    for (const one of [...names, ...spelled]) {
      const same = one.toLowerCase() === name
      for (const text of [
        JSON.stringify(one),
        `"${escapes(one)}"`,
        `"${escapes(one).toUpperCase().replaceAll('U', 'u')}"`
      ]) {
        const found = read(`{"x":1,${text}:2,"y":{${text}:3}}`, { called: [name] })
        t.same(found, same ? [[one, 2]] : [], `${name} in ${text}`)
      }
      for (const text of [
        encodeURIComponent(one),
        percents(one),
        one.replace(/[&=%+?]/g, encodeURIComponent).replaceAll(' ', '+')
      ]) {
        for (const form of [`${text}=1`, `x=y&${text}=a&b=c`, `x&${text}`, `?${text}=1&z`]) {
          const isCalledSo = ([key]: readonly [string, string]) => key.toLowerCase() === name
          const wanted = [...new URLSearchParams(form)].filter(isCalledSo)
          t.same(atOnce(formFieldsCalled(Buffer.from(form), [name])).filter(isCalledSo), wanted, `${name} in ${form}`)
        }
      }
    }
  }
  const long = `${'a=b&'.repeat(50_000)}Token=1&${'x'.repeat(100_000)}&token=%zz`
  t.same(atOnce(formFieldsCalled(Buffer.from(long), ['token'])), [
    ['Token', '1'],
    ['token', '%zz']
  ])
})
