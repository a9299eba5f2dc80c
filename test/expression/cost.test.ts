import t from 'tap'
import { EvaluationError, type Expression } from '../../src/expression/expression.js'
import { compileSample, sampleExpressions, sampleFlow } from './sample-flow.js'

const expressions = sampleExpressions()
const STEPS = 'the expression takes too many steps'

function compiled(source: string): Expression {
  return compileSample(expressions, source)
}

/** The value, or the reason why there is none. */
function outcome(source: string, header = ''): unknown {
  const value = compiled(source).outcome(sampleFlow({ headers: ['X', header] }))
  return value instanceof EvaluationError ? value.message : value
}

/** `body` with `name` bound to lists in each other that hold `leaf` ten to the power of `levels` times. */
function shared(name: string, leaf: string, levels: number, body: string): string {
  let source = `cel.bind(${name}${levels}, [${Array(10)
    .fill(`${name}${levels - 1}`)
    .join()}], ${body})`
  for (let level = levels - 1; level > 0; level--) {
    source = `cel.bind(${name}${level}, [${Array(10)
      .fill(`${name}${level - 1}`)
      .join()}], ${source})`
  }
  return `cel.bind(${name}0, ${leaf}, ${source})`
}

t.test('what stands in a list many times is counted as many times', async (t) => {
  const both = (levels: number) =>
    shared('a', '[req.method]', levels, shared('b', '[req.method]', levels, `a${levels} == b${levels}`))
  t.equal(outcome(both(3)), true)
  t.equal(outcome(both(7)), STEPS, 'equality')
  t.equal(outcome(shared('a', '[req.method]', 7, `[req.method] in a7`)), false, 'what differs at once costs little')
  for (const call of ['a7.encodeJson()', 'a7.flatten(9)', 'a7.distinct()', "'%s'.format(a7)", 'json.encode(a7)']) {
    t.equal(outcome(shared('a', '[req.method]', 7, call)), STEPS, call)
  }
  t.equal(outcome(shared('a', '[]', 7, 'a7.flatten(9)')), STEPS, 'lists without items')
})

t.test('a text of many items is refused before it is written', async (t) => {
  const flow = sampleFlow()
  const text = (levels: number, leaf = 'req.method') => {
    const compiled = expressions.template(`\${${shared('a', leaf, levels, `a${levels}`)}}`, 'on_http_request')
    if (!compiled.ok) throw new Error('Does not compile')
    return compiled.value
  }
  t.equal(text(4).text(flow).length, 39_999)
  t.throws(() => text(7).text(flow), { kind: 'failed', message: /more than 100000 items/ })
  t.throws(() => expressions.dataOf(text(7).value(flow)), { kind: 'failed', message: /more than 100000 items/ })
  t.throws(() => text(4, `'${'x'.repeat(120)}'`).text(flow), { kind: 'failed', message: /or 1048576 characters/ })
})

t.test('the instructions of a pattern count against the budget', async (t) => {
  const header = 'a'.repeat(16_384)
  t.equal(outcome("req.headers['x'][0].matches('^(a?){900}a{900}$')", header), STEPS)
  const quick = compiled("req.headers['x'][0].matches('(?i)bot|crawler|spider')")
  for (let i = 0; i < 3; i++) t.equal(quick.evaluate(sampleFlow({ headers: ['X', header] })), false)
})

t.test('what stands in the source is worked out once', async (t) => {
  const bad = compiled("req.method == 'GET' || timestamp('yesterday') < timestamp('2026-01-01T00:00:00Z')")
  t.equal(bad.evaluate(sampleFlow()), true, 'an error of a part that is not needed makes no difference')
  t.equal(
    outcome("timestamp('yesterday') < timestamp('2026-01-01T00:00:00Z')"),
    'timestamp() cannot convert this value'
  )
  let drawn = 0
  const chance = sampleExpressions({ random: () => ++drawn / 10 }).expression('rand.double()', 'on_http_request')
  const draw = () => chance.ok && chance.value.evaluate(sampleFlow())
  t.same([draw(), draw()], [0.1, 0.2], 'chance is not')
  t.equal(outcome("inCidrRanges(conn.client_ip, ['198.51.100.0/24', 'none'])"), true)
  t.equal(outcome("inCidrRange('::ffff:198.51.100.7', '198.51.100.0/24')"), true)
})

t.test('what takes longer for each character of a text takes more steps', async (t) => {
  const repeated = (unit: string, length: number) => unit.repeat(Math.floor(length / unit.length))
  const long: readonly (readonly [call: string, unit: string, fits: number, exceeds: number])[] = [
    ['queryString.decode(vars.text)', 'a=b&', 65_536, 131_072],
    ['isQueryString(vars.text)', 'a=b&', 65_536, 131_072],
    ["url.parse('http://a/?' + vars.text)", 'a=b&', 65_536, 262_144],
    ['isUrl(vars.text)', 'http://a/', 65_536, 262_144],
    ['url.escape(vars.text)', 'a', 131_072, 262_144],
    ['url.unescape(vars.text)', '+', 131_072, 262_144],
    ["vars.text.replace('a', 'b')", 'a', 131_072, 262_144],
    ['vars.text.reverse()', '\u{1f600}', 131_072, 262_144],
    ['strings.quote(vars.text)', '"', 65_536, 262_144],
    ['hash.crc64(vars.text)', 'a', 131_072, 262_144],
    ['hash.xxhash64(vars.text)', 'a', 262_144, 524_288],
    ['hash.sha512(vars.text)', 'a', 524_288, 1_048_576]
  ]
  const of = (call: string, text: unknown) => {
    const flow = sampleFlow()
    flow.vars = new Map([['text', text]])
    const value = compiled(call).outcome(flow)
    return value instanceof EvaluationError ? value.message : 'a value'
  }
  for (const [call, unit, fits, exceeds] of long) {
    t.equal(of(call, repeated(unit, fits)), 'a value', `${call} of ${fits}`)
    t.equal(of(call, repeated(unit, exceeds)), STEPS, `${call} of ${exceeds}`)
  }
  t.equal(of('vars.text.upperAscii()', repeated('a\u00e9z', 262_144)), 'a value')
})

t.test('JSON text counts by what stands in it', async (t) => {
  const of = (call: string, text: unknown) => {
    const flow = sampleFlow()
    flow.vars = new Map([['text', text]])
    const value = compiled(call).outcome(flow)
    return value instanceof EvaluationError ? value.message : 'a value'
  }
  const list = (item: string, length: number) => `[${`${item},`.repeat(Math.floor(length / (item.length + 1)))}1]`
  const person = JSON.stringify({ id: 1_234_567, name: 'Somebody', email: 'somebody@example.com', tags: ['a', 'b'] })
  const keys = (count: number) =>
    JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 1])))
  for (const call of ['json.decode(vars.text)', 'isJson(vars.text)', 'vars.text.decodeJson()']) {
    t.equal(of(call, list(person, 250_000)), 'a value', `${call} of usual data`)
    t.equal(of(call, JSON.stringify(['a'.repeat(700_000)])), 'a value', `${call} of a long text`)
    t.equal(of(call, list('[[[[[]]]]]', 150_000)), STEPS, `${call} of lists in lists`)
    t.equal(of(call, list('{}', 150_000)), STEPS, `${call} of many maps`)
    t.equal(of(call, keys(40_000)), STEPS, `${call} of many names`)
  }
  const map = (count: number) => new Map(Array.from({ length: count }, (_, i) => [`k${i}`, 1n]))
  t.equal(of('json.encode(vars.text)', map(10_000)), 'a value')
  t.equal(of('json.encode(vars.text)', map(30_000)), STEPS)
  t.same(compiled('json.decode(\'["\\\\ud83d", "\\\\ud83d\\\\ude00"]\')').evaluate(sampleFlow()), [
    '\ufffd',
    '\u{1f600}'
  ])
})

t.test('the parts of a text share what it may show', async (t) => {
  const flow = sampleFlow()
  const shown = (source: string, value: unknown) => {
    flow.vars = new Map([['value', value]])
    const template = expressions.template(source, 'on_http_request')
    if (!template.ok) throw new Error('Does not compile')
    return () => template.value.text(flow).length
  }
  const TOO_MUCH = { kind: 'failed', message: /more than 100000 items/ }
  const ones = Array.from({ length: 30_000 }, () => 1n)
  t.equal(shown('${vars.value}', ones)(), 59_999)
  t.equal(shown('${vars.value}${vars.value}', ones)(), 119_998)
  t.throws(shown('${vars.value}'.repeat(4), ones), TOO_MUCH)
  t.throws(shown('${vars.value}', new Map(ones.map((one, i) => [`k${i}`, one]))), TOO_MUCH, 'a map')
  t.throws(
    shown(
      '${vars.value}',
      ones.map((_, i) => new Date(i))
    ),
    TOO_MUCH,
    'times'
  )
  t.throws(
    shown(
      '${vars.value}',
      ones.map((_, i) => i + 0.5)
    ),
    TOO_MUCH,
    'fractions'
  )
})

t.test('a constant call that takes too many steps is no reason not to compile', async (t) => {
  t.equal(outcome('lists.range(100000).size() > 0'), STEPS)
})
