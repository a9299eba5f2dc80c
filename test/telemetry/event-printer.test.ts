import t from 'tap'
import { printer } from '../../src/telemetry/traffic-events.js'

const VALUES: Readonly<Record<string, unknown>> = {
  plain: 'text',
  'a.quoted': 'say "no" \\ and',
  'a.control': 'line\n\u0000\u001f\u007f\u0085',
  'a.wide': 'ä 日本 😀 \u2028',
  'a.b.half': 'lone \ud83d half \udc00',
  'a.b.number': -1.5,
  'a.b.nothing': null,
  flag: false,
  'a.list': [{ deep: ['"'] }, null],
  'a.b.endless': Number.POSITIVE_INFINITY,
  'quoted"name.below': 1
}

t.test('what is printed is what JSON.stringify makes of the nested object', async (t) => {
  const print = printer([...Object.keys(VALUES), 'missing', 'a.missing'])
  const expected = {
    plain: VALUES.plain,
    a: {
      quoted: VALUES['a.quoted'],
      control: VALUES['a.control'],
      wide: VALUES['a.wide'],
      b: { half: VALUES['a.b.half'], number: -1.5, nothing: null, endless: null },
      list: VALUES['a.list'],
      missing: null
    },
    flag: false,
    'quoted"name': { below: 1 },
    missing: null
  }
  const text = print((path) => VALUES[path])
  t.same(JSON.parse(text), JSON.parse(JSON.stringify(expected)))
  t.equal(Buffer.from(text).toString(), text, 'it is what UTF-8 can hold')
  t.equal(
    printer([])(() => 1),
    '{}'
  )
})

t.test('any text comes back as it was', async (t) => {
  const print = printer(['text'])
  for (let unit = 0; unit < 0x1_0000; unit++) {
    const text = `a${String.fromCharCode(unit)}b`
    const found: unknown = JSON.parse(print(() => text))
    if ((found as { text: string }).text !== text) t.fail(`U+${unit.toString(16)}`)
  }
})
