import t from 'tap'
import { checkValue } from '../../src/schema/check.js'
import { checkScalar, countFindings, repeatFindings } from '../../src/schema/constraints.js'
import { publish } from '../../src/schema/publish.js'
import type { Schema } from '../../src/schema/schema.js'
import { choice, duration, flag, fraction, integer, list, size, text } from '../../src/schema/values.js'

const told = { description: 'Told.' }
const rules = (schema: unknown, value: unknown) => checkScalar(schema as Schema, value).findings.map(({ rule }) => rule)

t.test('a value is what its schema says, or each thing that it is not is found', async (t) => {
  const name = text({ ...told, min: 2, max: 4, pattern: '^[a-z😀]+$' })
  t.same(rules(name, 'abc'), [])
  t.same(rules(name, '😀😀😀😀'), [], 'characters count, not the units of their encoding')
  t.same(rules(name, '😀'), ['shortest'])
  t.same(rules(name, 'ABCDE'), ['longest', 'pattern'], 'all at once')
  t.same(rules(name, 5), ['kind'])
  t.same(rules(text({ ...told, bytes: 3 }), 'éé'), ['bytes'])
  t.same(rules(integer({ ...told, min: 1, max: 3 }), 3), [])
  for (const value of [0, 4]) t.same(rules(integer({ ...told, min: 1, max: 3 }), value), ['range'])
  for (const value of [1.5, '1', null, 2 ** 60]) t.same(rules(integer({ ...told, min: 1, max: 3 }), value), ['kind'])
  t.same(rules(fraction(told), 0.5), [])
  t.same(rules(fraction(told), 1.01), ['range'])
  t.same(rules(fraction(told), Number.NaN), ['kind'])
  t.same(rules(flag(told), 'true'), ['kind'])
  t.same(rules(choice(['a', 1], told), 1), [])
  t.same(rules(choice(['a', 1], told), '1'), ['words'])
})

t.test('forms give the normal form, and say what is allowed', async (t) => {
  const network = text({ ...told, form: 'cidr', max: 20 }) as Schema
  t.same(checkScalar(network, ' 2001:DB8::/32'), { value: '2001:db8::/32', findings: [] })
  t.same(checkScalar(network, '10.1.2.3'), { value: '10.1.2.3/32', findings: [] })
  t.same(checkScalar(network, '2001:DB8::1'), { value: '2001:db8::1/128', findings: [] })
  t.same(rules(network, '10.1.2.3/24'), ['form'])
  t.match(checkScalar(network, 'x').findings, [{ rule: 'form', allowed: /^must be an IPv4 or IPv6 network/ }])
  t.same(rules(network, 'x'.repeat(21)), ['longest'], 'a form does not read what is too long')
})

t.test('durations and sizes are read and bounded', async (t) => {
  const window = duration({ ...told, min: 60_000, max: 3_600_000, multiple: 10_000 }) as Schema
  t.same(checkScalar(window, '1m30s'), { value: 90_000, findings: [] })
  t.same(rules(window, '59s'), ['range'])
  t.same(rules(window, '1000h'), ['range'])
  t.same(rules(window, '61s'), ['multiple'])
  for (const value of ['60', 60, '60.0']) t.same(checkScalar(window, value), { value: 60_000, findings: [] }, 'seconds')
  for (const value of ['soon', '60 s', '-60', 1e21, true, '']) t.same(rules(window, value), ['kind'])
  const memory = size({ ...told, min: 1024, max: 4096 }) as unknown as Schema
  t.same(checkScalar(memory, '2KiB'), { value: 2048, findings: [] })
  t.same(checkScalar(memory, 4096), { value: 4096, findings: [] })
  t.same(rules(memory, '5KiB'), ['range'])
  t.same(rules(memory, 1024.5), ['multiple'])
  t.same(rules(memory, '2 kb'), ['kind'])
})

t.test('entries are counted, and the first repetition is named', async (t) => {
  const few = list(text(told), { ...told, min: 1, max: 2, distinct: true }) as Schema
  t.same(countFindings(few, 0), [{ rule: 'fewest', least: 1, given: 0, exact: false }])
  t.same(countFindings(few, 3), [{ rule: 'most', most: 2, given: 3, exact: false }])
  t.same(countFindings(few, 2), [])
  t.same(countFindings({ minProperties: 2, maxProperties: 2 }, 3), [{ rule: 'most', most: 2, given: 3, exact: true }])
  t.same(repeatFindings(few, ['a', 'b', { a: 1 }, 'b', 'a']), [{ rule: 'repeated', first: 1, second: 3 }])
  t.same(repeatFindings({}, ['a', 'a']), [])
})

t.test('the API says the first finding of a value, with its code and place', async (t) => {
  const found: string[] = []
  const report = (at: string, code: string, message: string) => found.push(`${at} ${code} ${message}`)
  const names = list(text({ ...told, min: 1, max: 3 }), { ...told, max: 3, distinct: true })
  t.same(checkValue(names, ['a', 'b'], 'names', report), ['a', 'b'])
  t.equal(checkValue(names, ['', 'abcd', 7, 'a'], 'names', report), undefined)
  t.equal(checkValue(names, ['', 'abcd', 7], 'names', report), undefined)
  t.equal(checkValue(names, ['a', 'a'], 'names', report), undefined)
  t.equal(checkValue(text(told), 'a\0', 'text', report), undefined)
  t.same(found, [
    'names TOO_MANY must not have more than 3 entries',
    'names[0] FIELD_INVALID must not be empty',
    'names[1] TOO_LONG must not be longer than 3 characters',
    'names[2] FIELD_INVALID must be text',
    'names FIELD_INVALID must not hold an entry twice',
    'text FIELD_INVALID must be Unicode text without NUL'
  ])
})

t.test('a schema is published in the dialect of its reader, at every depth', async (t) => {
  const declared: Schema = {
    type: 'object',
    properties: {
      word: {
        anyOf: [
          { type: 'string', 'x-exact': true },
          { type: 'number', deprecated: true }
        ]
      },
      list: { type: 'array', items: { type: 'string', maxLength: 3 }, maxItems: 2 }
    },
    required: ['list'],
    additionalProperties: { type: 'string', 'x-form': 'label' }
  }
  t.same(
    publish(declared, {
      keeps: (keyword) => !/^(x-|max)/.test(keyword),
      member: (published, { type }, required) => ({ ...published, title: `${type ?? 'either'} ${required}` })
    }),
    {
      type: 'object',
      properties: {
        word: { anyOf: [{ type: 'string' }], title: 'either false' },
        list: { type: 'array', items: { type: 'string' }, title: 'array true' }
      },
      required: ['list'],
      additionalProperties: { type: 'string' }
    }
  )
})
