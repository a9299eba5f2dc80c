import t, { type Test } from 'tap'
import { Duration, UnsignedInt } from '../../../src/expression/cel-parser.js'
import { stringFunctions } from '../../../src/expression/functions/strings.js'
import { find, outcome, randomNumbers, randomText } from './call.js'

const LONG = 'x'.repeat(700_000)

function call(head: string, ...args: unknown[]): unknown {
  return find(stringFunctions, head)(...args)
}

/** Each row: arguments, then the answer or the kind of error. */
function table(t: Pick<Test, 'equal' | 'same'>, head: string, rows: readonly (readonly [unknown[], unknown])[]): void {
  for (const [args, expected] of rows) {
    const shown = JSON.stringify(args, (_, value) => (typeof value === 'bigint' ? Number(value) : value))
    const name = `${head} ${shown.slice(0, 80)}`
    if (expected === 'absent' || expected === 'failed')
      t.equal(
        outcome(() => call(head, ...args)),
        expected,
        name
      )
    else t.same(call(head, ...args), expected, name)
  }
}

t.test('positions are counted in code points and bounded by the string', async (t) => {
  table(t, 'string.charAt(int)', [
    [['a😀b', 1n], '😀'],
    [['a😀b', 2n], 'b'],
    [['a😀b', 3n], ''],
    [['a😀b', 4n], 'absent'],
    [['abc', -1n], 'absent'],
    [['', 0n], ''],
    [['a', 2n ** 62n], 'absent']
  ])
  table(t, 'string.indexOf(string)', [
    [['😀x😀y', 'y'], 3n],
    [['abc', 'd'], -1n],
    [['abc', ''], 0n]
  ])
  table(t, 'string.indexOf(string, int)', [
    [['😀x😀x', 'x', 2n], 3n],
    [['abc', 'a', 3n], -1n],
    [['abc', '', 3n], 3n],
    [['abc', '', 4n], 'absent'],
    [['abc', 'a', 4n], 'absent'],
    [['abc', 'a', -1n], 'absent']
  ])
  table(t, 'string.lastIndexOf(string)', [
    [['😀x😀x', '😀'], 2n],
    [['😀', ''], 1n],
    [['a', 'aa'], -1n]
  ])
  table(t, 'string.lastIndexOf(string, int)', [
    [['😀x😀x', 'x', 2n], 1n],
    [['aaa', 'aa', 2n], 1n],
    [['abc', 'a', 3n], 0n],
    [['abc', 'a', 4n], 'absent'],
    [['abc', 'a', -1n], 'absent']
  ])
  table(t, 'string.substring(int)', [
    [['a😀b', 1n], '😀b'],
    [['a😀b', 3n], ''],
    [['a😀b', 4n], 'absent']
  ])
  table(t, 'string.substring(int, int)', [
    [['a😀b', 1n, 2n], '😀'],
    [['abc', 2n, 1n], 'failed'],
    [['abc', 1n, 4n], 'absent'],
    [['abc', -1n, 2n], 'absent']
  ])
})

t.test('strings are split and replaced from the left', async (t) => {
  table(t, 'string.split()', [
    [['a b  c'], ['a', 'b', '', 'c']],
    [[''], ['']]
  ])
  table(t, 'string.split(string)', [
    [
      ['a,b,', ','],
      ['a', 'b', '']
    ],
    [
      ['a😀b', ''],
      ['a', '😀', 'b']
    ],
    [['', ''], []],
    [['', ','], ['']],
    [
      ['a$1b', '$1'],
      ['a', 'b']
    ],
    [[','.repeat(100_000), ','], 'failed'],
    [[LONG, ''], 'failed']
  ])
  table(t, 'string.split(string, int)', [
    [['a b c', ' ', 1n], ['a b c']],
    [
      ['a b c', ' ', 2n],
      ['a', 'b c']
    ],
    [['a b c', ' ', 0n], []],
    [
      ['a b c', ' ', -5n],
      ['a', 'b', 'c']
    ],
    [
      ['a😀b', '', 2n],
      ['a', '😀b']
    ],
    [
      ['a b', ' ', 2n ** 60n],
      ['a', 'b']
    ],
    [
      [','.repeat(200_000), ',', 2n],
      ['', ','.repeat(199_999)]
    ]
  ])
  table(t, 'string.replace(string, string)', [
    [['aaa', 'aa', 'b'], 'ba'],
    [['a.b.c', '.', '$&'], 'a$&b$&c'],
    [['a😀', '', '-'], '-a-😀-'],
    [['', '', 'x'], 'x'],
    [['abc', 'x', LONG], 'abc'],
    [['xx', 'x', LONG], 'failed'],
    [['ab', '', LONG], 'failed']
  ])
  table(t, 'string.replace(string, string, int)', [
    [['aaa', 'a', 'b', 2n], 'bba'],
    [['aaa', 'a', 'b', 0n], 'aaa'],
    [['aaa', 'a', 'b', -1n], 'bbb'],
    [['aaa', 'a', 'b', 9n], 'bbb'],
    [['ab', '', '-', 2n], '-a-b'],
    [['xx', 'x', LONG, 1n], `${LONG}x`]
  ])
})

t.test('letters and blanks', async (t) => {
  table(t, 'string.lowerAscii()', [[['ABZÆİ'], 'abzÆİ']])
  table(t, 'string.upperAscii()', [[['abzæß'], 'ABZæß']])
  table(t, 'string.lower()', [[['ABÆΩ'], 'abæω']])
  table(t, 'string.upper()', [
    [['abæß'], 'ABÆSS'],
    [['ß'.repeat(600_000)], 'failed']
  ])
  table(t, 'string.trim()', [
    [['\u0085\u3000 a b\t\u2003'], 'a b'],
    [['\ufeffa\u200b'], '\ufeffa\u200b'],
    [[' \n '], '']
  ])
  table(t, 'string.reverse()', [
    [['a😀é'], 'é😀a'],
    [['😀\ud83d\ude00\ude00'], '\ude00😀😀'],
    [['abc'], 'cba']
  ])
  table(t, 'strings.quote(string)', [
    [['a"\\\n\u0007'], '"a\\"\\\\\\n\\a"'],
    [['\ud83d'], '"\ufffd"'],
    [['"'.repeat(600_000)], 'failed']
  ])
})

t.test('format writes numbers exactly, with halves to the even digit', async (t) => {
  const uint = new UnsignedInt(18_446_744_073_709_551_615n)
  table(t, 'string.format(list)', [
    [['%.0f %.0f %.0f %.1f', [0.5, 1.5, 2.5, 0.25]], '0 2 2 0.2'],
    [['%.2f', [1.005]], '1.00'],
    [['%.0f', [-0.4]], '-0'],
    [['%.20f', [0.1]], '0.10000000000000000555'],
    [['%f', [1e22]], '10000000000000000000000.000000'],
    [['%.3f', [-1234n]], '-1234.000'],
    [['%e %.0e %.0e', [0, 2.5, 9.5]], '0.000000e+00 2e+00 1e+01'],
    [['%.2e', [1e23]], '1.00e+23'],
    [['%.0e %.1e %.1e', [6.98e-58, -967, 99.96]], '7e-58 -9.7e+02 1.0e+02'],
    [['%.17e', [1e23]], '9.99999999999999916e+22'],
    [['%.3e', [5e-324]], '4.941e-324'],
    [['%.2e', [-999_999n]], '-1.00e+06'],
    [['%.1e', [uint]], '1.8e+19'],
    [['%s %s %s', [1e21, 1e-7, -0]], '1000000000000000000000 0.0000001 -0'],
    [['%d %d %d', [-5n, uint, 2.5]], '-5 18446744073709551615 2.5'],
    [['%x %X %o %b %b', [-255n, uint, -8n, -5n, false]], '-ff FFFFFFFFFFFFFFFF -10 -101 0'],
    [['%x', ['é']], 'c3a9'],
    [['%.101f', [1]], 'failed'],
    [['%', []], 'failed'],
    [['%.f', [1]], 'failed'],
    [['%5d', [1n]], 'failed'],
    [['%d', ['1']], 'failed'],
    [['%s', []], 'absent'],
    [['%s%s', ['a']], 'absent'],
    [['a', [1n]], 'a'],
    [['%s', [new Uint8Array([255])]], 'failed'],
    [['%s%s', [LONG, LONG]], 'failed']
  ])
})

t.test('format writes nested values in a fixed order', async (t) => {
  const map = new Map<unknown, unknown>([
    ['b', [1n, 2.5, null]],
    [2n, new Date('2023-02-03T23:31:20.500Z')],
    ['a', new Map([['x', new Duration(-1n, -500_000_000)]])]
  ])
  t.equal(call('string.format(list)', '<%s>', [map]), '<{2: 2023-02-03T23:31:20.5Z, a: {x: -1.5s}, b: [1, 2.5, null]}>')
})

t.test('reversing twice, and joining what was split, change nothing', async (t) => {
  const random = randomNumbers(41)
  for (let run = 0; run < 500; run++) {
    const text = randomText(random, 20)
    const separator = randomText(random, 2)
    const pieces = call('string.split(string)', text, separator) as string[]
    if (call('string.reverse()', call('string.reverse()', text)) !== text) t.fail(JSON.stringify(text))
    if (pieces.join(separator) !== text) t.fail(JSON.stringify([text, separator]))
    if (call('string.replace(string, string)', text, separator, separator) !== text)
      t.fail(JSON.stringify([text, separator]))
  }
  t.pass()
})

t.test('positions agree with an array of code points', async (t) => {
  const random = randomNumbers(42)
  for (let run = 0; run < 500; run++) {
    const text = randomText(random, 12)
    const points = Array.from(text)
    const from = random(points.length + 1)
    const to = from + random(points.length - from + 1)
    const part = points.slice(from, to).join('')
    if (call('string.substring(int, int)', text, BigInt(from), BigInt(to)) !== part)
      t.fail(JSON.stringify([text, from, to]))
    const at = Number(call('string.indexOf(string, int)', text, part, BigInt(from)))
    if (at !== from) t.fail(JSON.stringify([text, part, from]))
    const last = Number(call('string.lastIndexOf(string, int)', text, part, BigInt(from)))
    if (last !== from) t.fail(JSON.stringify([text, part, from]))
  }
  t.pass()
})

t.test('numbers in plain form read back as the same number', async (t) => {
  const random = randomNumbers(43)
  for (let run = 0; run < 500; run++) {
    const value = (random(2 ** 31) - 2 ** 30) * 2 ** (random(1000) - 500)
    const text = call('string.format(list)', '%s', [value]) as string
    if (text.includes('e') || Number(text) !== value) t.fail(text)
    const scientific = call('string.format(list)', '%.20e', [value]) as string
    if (Number(scientific) !== value || !/^-?\d\.\d{20}e[+-]\d{2,3}$/.test(scientific)) t.fail(scientific)
  }
  t.pass()
})
