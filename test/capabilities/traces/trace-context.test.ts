import t from 'tap'
import { formatTraceparent, parseTraceparent, readTracestate } from '../../../src/capabilities/traces/trace-context.js'
import { TraceIds } from '../../../src/capabilities/traces/trace-ids.js'
import { numbers } from '../../helpers/numbers.js'

const RUNS = 5_000
const next = numbers(20)

const oneOf = <T>(list: readonly T[]): T => list[next(list.length)] as T
const textOf = (alphabet: string, length: number) => Array.from({ length }, () => oneOf([...alphabet])).join('')

function digits(length: number): string {
  const text = textOf('0123456789abcdef', length)
  return /[^0]/.test(text) ? text : digits(length)
}

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const SPAN = '00f067aa0ba902b7'

t.test('what is written is read again', async (t) => {
  for (let run = 0; run < RUNS; run++) {
    const context = { traceId: digits(32), spanId: digits(16), flags: next(4) }
    const text = formatTraceparent(context)
    const again = parseTraceparent(text)
    if (text.length !== 55 || JSON.stringify(again) !== JSON.stringify(context)) t.fail(text)
  }
})

t.test('a value with one character changed is read only where it is still one', async (t) => {
  const VALID = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/
  let valid = 0
  for (let run = 0; run < RUNS; run++) {
    const text = `00-${digits(32)}-${digits(16)}-01`
    const at = next(text.length + 1)
    const by = oneOf([oneOf([...'0123456789abcdef-']), String.fromCharCode(next(256)), ''])
    const changed = text.slice(0, at) + by + text.slice(at + 1)
    const expected = VALID.test(changed)
    if (expected) valid++
    if (expected !== (parseTraceparent(changed) !== undefined)) t.fail(JSON.stringify(changed))
  }
  t.ok(valid > RUNS / 10 && valid < RUNS, `${valid} of them are valid`)
})

t.test('no text makes it throw', async (t) => {
  for (let run = 0; run < RUNS; run++) {
    const text = textOf('0f-=,@ az\u0000\u00ff', next(80))
    if (parseTraceparent(text) !== undefined) t.fail(text)
    if (typeof readTracestate([text, text]) !== 'string') t.fail(text)
  }
})

t.test('traceparent by its specification', async (t) => {
  const read = (text: string) => parseTraceparent(text)
  t.same(read(`00-${TRACE}-${SPAN}-01`), { traceId: TRACE, spanId: SPAN, flags: 1 })
  t.same(read(`00-${TRACE}-${SPAN}-ff`)?.flags, 3, 'flags that are not known are dropped')
  for (let bits = 0; bits < 256; bits++) {
    const text = `00-${TRACE}-${SPAN}-${bits.toString(16).padStart(2, '0')}`
    if (read(text)?.flags !== (bits & 3)) t.fail(text)
  }
  t.same(read(`cc-${TRACE}-${SPAN}-01-what-comes-later`)?.traceId, TRACE, 'of a later version the known parts are read')
  t.same(read(`cc-${TRACE}-${SPAN}-01`)?.traceId, TRACE)
  for (const wrong of [
    '',
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-0`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}-01-`,
    `cc-${TRACE}-${SPAN}-01.later`,
    ` 00-${TRACE}-${SPAN}-01`,
    `00-${TRACE.slice(1)}\u00b0-${SPAN}-01`,
    `00_${TRACE}-${SPAN}-01`,
    `00-${TRACE}_${SPAN}-01`,
    `00-${TRACE}-${SPAN}_01`,
    `00-${TRACE.slice(1)}-${SPAN}-01`,
    `0x-${TRACE}-${SPAN}-01`
  ])
    t.equal(read(wrong), undefined, JSON.stringify(wrong))
})

t.test('tracestate by its specification', async (t) => {
  t.equal(readTracestate(['a=1,b=2']), 'a=1,b=2')
  t.equal(
    readTracestate(['a=1', '\t b=2 ,, c@d=3 ']),
    'a=1,b=2,c@d=3',
    'several fields are one list; empty members are none'
  )
  t.equal(readTracestate(['a=1=2']), '', 'a value holds no equals sign')
  for (const wrong of [
    'a',
    'A=1',
    '=1',
    'a=',
    'a=1,a=2',
    'a@B=1',
    'a=\u007f',
    `${'k'.repeat(257)}=1`,
    `a=${'v'.repeat(257)}`
  ])
    t.equal(readTracestate([wrong]), '', wrong)
  const many = (count: number) => Array.from({ length: count }, (_, i) => `k${i}=v`).join(',')
  t.equal(readTracestate([many(32)]), many(32))
  t.equal(readTracestate([many(33)]), '')
  const long = `long=${'v'.repeat(200)}`
  const short = Array.from({ length: 8 }, (_, i) => `k${i}=${'v'.repeat(50)}`).join(',')
  t.equal(readTracestate([`${long},${short}`]), short, 'long members go first')
  const full = Array.from({ length: 12 }, (_, i) => `k${i}=${'v'.repeat(60)}`).join(',')
  const kept = readTracestate([full])
  t.ok(kept.length <= 512 && full.startsWith(kept) && kept.endsWith('v'), 'then the last ones')
})

t.test('any valid list is passed on, up to 512 characters', async (t) => {
  let whole = 0
  for (let run = 0; run < RUNS; run++) {
    const keys = Array.from(
      { length: 1 + next(32) },
      (_, i) => `${oneOf(['a', 'x-y_', '0c*/'])}${i}${oneOf(['', '@v'])}`
    )
    const value = () => `${oneOf(['', ' ', 'a b'])}${textOf('az09~!/:', 1 + next(20))}`
    const text = keys.map((key) => `${key}=${value()}`).join(',')
    const read = readTracestate([text])
    if (text.length <= 512) whole++
    const kept = text.length <= 512 ? read === text : read !== '' && text.startsWith(`${read},`) && read.length <= 512
    if (!kept) t.fail(text)
  }
  t.ok(whole > RUNS / 10 && whole < RUNS)
})

t.test('identifiers are of the right form and differ', async (t) => {
  const ids = new TraceIds()
  const made = new Set<string>()
  for (let i = 0; i < 2_000; i++) {
    const id = ids.next()
    if (!/^[0-9a-f]{16}$/.test(id) || !/^[0-9a-f]{16}$/.test(ids.half.digits)) t.fail(`${ids.half.digits} ${id}`)
    made.add(id)
  }
  t.equal(made.size, 2_000)
  const other = new TraceIds()
  other.next()
  t.not(other.half.digits, ids.half.digits)
})
