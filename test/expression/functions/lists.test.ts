import t from 'tap'
import { UnsignedInt } from '../../../src/expression/cel-parser.js'
import { listFunctions, sortedByKeys } from '../../../src/expression/functions/lists.js'
import { durationOf, equals } from '../../../src/expression/values.js'
import { find, outcome, randomNumbers, randomText } from './call.js'

const join = find(listFunctions, 'list<string>.join(string)')
const slice = find(listFunctions, 'list<T>.slice(int, int)')
const flatten = find(listFunctions, 'list.flatten()')
const flattenDeep = find(listFunctions, 'list.flatten(int)')
const sort = find(listFunctions, 'list<T>.sort()')
const distinct = find(listFunctions, 'list<T>.distinct()')
const range = find(listFunctions, 'lists.range(int)')

t.test('join takes strings only and bounds the result', async (t) => {
  t.equal(join(['a', '', 'b'], ', '), 'a, , b')
  t.equal(find(listFunctions, 'list<string>.join()')(['a', 'b']), 'ab')
  t.equal(join([], '-'), '')
  t.equal(
    outcome(() => join(['a', 1n], '-')),
    'failed'
  )
  t.equal(
    outcome(() => join(['x'.repeat(600_000), 'x'.repeat(600_000)], '')),
    'failed'
  )
})

t.test('a slice stays inside the list', async (t) => {
  t.same(slice([1n, 2n, 3n], 1n, 3n), [2n, 3n])
  t.same(slice([1n], 1n, 1n), [])
  t.equal(
    outcome(() => slice([1n], 0n, 2n)),
    'absent'
  )
  t.equal(
    outcome(() => slice([1n], 0n, 2n ** 62n)),
    'absent'
  )
  t.equal(
    outcome(() => slice([1n], -1n, 1n)),
    'failed'
  )
  t.equal(
    outcome(() => slice([1n], 1n, 0n)),
    'failed'
  )
})

t.test('flatten opens as many levels as asked for', async (t) => {
  const nested = [1n, [2n, [3n, [4n]]], []]
  t.same(flatten(nested), [1n, 2n, [3n, [4n]]])
  t.same(flattenDeep(nested, 0n), nested)
  t.same(flattenDeep(nested, 2n), [1n, 2n, 3n, [4n]])
  t.same(flattenDeep(nested, 2n ** 62n), [1n, 2n, 3n, 4n])
  t.equal(
    outcome(() => flattenDeep(nested, -1n)),
    'failed'
  )
  const row = Array.from({ length: 60_000 }, () => 1n)
  t.equal(
    outcome(() => flatten([row, row])),
    'failed',
    'too many items'
  )
})

t.test('a range counts from zero and is bounded', async (t) => {
  t.same(range(3n), [0n, 1n, 2n])
  t.same(range(0n), [])
  t.equal((range(100_000n) as unknown[]).length, 100_000)
  for (const count of [-1n, 100_001n, 2n ** 62n])
    t.equal(
      outcome(() => range(count)),
      'failed',
      `${count}`
    )
})

t.test('sort orders values of one type', async (t) => {
  t.same(sort([10n, 9n, -1n]), [-1n, 9n, 10n])
  t.same(sort([2.5, Number.NaN, -1, 2]), [Number.NaN, -1, 2, 2.5])
  t.same(sort(['b', 'B', 'a', '\uff5e', '😀']), ['B', 'a', 'b', '\uff5e', '😀'], 'by code point')
  t.same(sort([true, false]), [false, true])
  const dates = [new Date(5), new Date(3)]
  t.same(sort(dates), [dates[1], dates[0]])
  const durations = [durationOf(5n), durationOf(-3n)]
  t.same(sort(durations), [durations[1], durations[0]])
  const numbers = [new UnsignedInt(3n), new UnsignedInt(2n)]
  t.same(sort(numbers), [numbers[1], numbers[0]])
  const bytes = [new Uint8Array([2]), new Uint8Array([1, 9])]
  t.same(sort(bytes), [bytes[1], bytes[0]])
  t.same(sort([]), [])
  for (const list of [[1n, 2], ['a', 1n], [null, null], [[1n], [2n]], [new Map()]]) {
    t.equal(
      outcome(() => sort(list)),
      'failed'
    )
  }
  const long = 'x'.repeat(1_000_000)
  t.equal(
    outcome(() => sort([long, long, long, long, long])),
    'failed',
    'too much to compare'
  )
  const given = [2n, 1n]
  sort(given)
  t.same(given, [2n, 1n], 'the list itself is not changed')
})

t.test('items are sorted by keys, and equal ones keep their order', async (t) => {
  t.same(sortedByKeys(['b', 'a', 'c', 'd'], [2n, 1n, 2n, 0n]), ['d', 'a', 'b', 'c'])
  t.equal(
    outcome(() => sortedByKeys(['a', 'b'], [1n])),
    'failed'
  )
})

t.test('distinct keeps the first of equal values, as CEL compares them', async (t) => {
  t.same(distinct([1n, 1, new UnsignedInt(1n), '1', true, 1.5]), [1n, '1', true, 1.5])
  t.same(
    distinct([
      [1n, [2n]],
      [1, [2]],
      [1n, 2n]
    ]),
    [
      [1n, [2n]],
      [1n, 2n]
    ]
  )
  const maps = [
    new Map([
      ['a', 1n],
      ['b', 2n]
    ]),
    new Map([
      ['b', 2],
      ['a', 1]
    ]),
    new Map([['a', 1n]])
  ]
  t.same(distinct(maps), [maps[0], maps[2]])
  t.equal((distinct([Number.NaN, Number.NaN]) as unknown[]).length, 2, 'what is not a number equals nothing')
  const long = Array.from({ length: 5 }, (_, index) => 'x'.repeat(1_000_000) + index)
  t.equal(
    outcome(() => distinct(long)),
    'failed',
    'too much to compare'
  )
  t.same(distinct([null, null, 'null']), [null, 'null'])
  t.same(distinct(['a,', 'a', ['a', 'b'], ['a,b']]), ['a,', 'a', ['a', 'b'], ['a,b']], 'no two values are confused')
})

t.test('distinct agrees with pairwise comparison', async (t) => {
  const random = randomNumbers(51)
  const value = (depth: number): unknown => {
    switch (random(depth > 0 ? 7 : 5)) {
      case 0:
        return BigInt(random(3))
      case 1:
        return random(5) / 2
      case 2:
        return new UnsignedInt(BigInt(random(3)))
      case 3:
        return randomText(random, 1)
      case 4:
        return random(2) === 0 ? null : durationOf(BigInt(random(2)))
      case 5:
        return Array.from({ length: random(3) }, () => value(depth - 1))
      default:
        return new Map(Array.from({ length: random(3) }, () => [randomText(random, 1), value(depth - 1)]))
    }
  }
  for (let run = 0; run < 200; run++) {
    const list = Array.from({ length: random(20) }, () => value(2))
    const expected = list.filter((item, index) => !list.slice(0, index).some((earlier) => equals(earlier, item)))
    const got = distinct(list) as unknown[]
    if (got.length !== expected.length || got.some((item, index) => item !== expected[index])) t.fail(`run ${run}`)
  }
  t.pass()
})
