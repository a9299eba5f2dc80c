import t from 'tap'
import { EvaluationError, type Template } from '../../src/expression/expression.js'
import { sampleExpressions, sampleFlow } from './sample-flow.js'

const expressions = sampleExpressions()
const flow = sampleFlow({
  method: 'POST',
  target: '/a/b?x=1',
  headers: ['X-User', 'bob', 'X-List', 'a', 'X-List', 'b']
})
flow.vars = new Map<string, unknown>([
  ['n', 3n],
  ['map', new Map<string, unknown>([['k', [1n, 2.5, null]]])],
  ['big', 9_007_199_254_740_993n],
  ['bytes', new Uint8Array([104, 105])]
])

function template(source: string): Template {
  const compiled = expressions.template(source, 'on_http_request')
  if (!compiled.ok) throw new Error(compiled.problems.map(({ message }) => message).join())
  return compiled.value
}

/** `${source}` without writing a placeholder into a string. */
function part(source: string): string {
  return `\${${source}}`
}

t.test('parts are put into the text; what is no part stays as it stands', async (t) => {
  const table: Record<string, string> = {
    '': '',
    'plain text': 'plain text',
    'a $ and $5 and $': 'a $ and $5 and $',
    '{not} a part': '{not} a part',
    [`${part('req.method')} ${part('req.url.path')}`]: 'POST /a/b',
    [`<${part("{'a': {'b': '}'}}.a.b")}>`]: '<}>',
    [`${part("'}' + \"}\" + r'\\}' + '\\'}'")}!`]: "}}\\}'}!",
    [part("'''it's } here'''")]: "it's } here",
    [part('req.method // } a comment\n')]: 'POST',
    [`$${part('vars.n')}`]: '$3',
    [`list ${part("req.headers['x-list']")}`]: 'list a,b',
    [`map ${part('vars.map')}`]: 'map {"k":[1,2.5,null]}',
    [`int ${part('vars.big')} double ${part('2.0')} ${part('1.5')}`]: 'int 9007199254740993 double 2 1.5',
    [`bytes ${part('vars.bytes')} bool ${part('true')} null ${part('null')}`]: 'bytes hi bool true null null',
    [`${part("timestamp('2026-01-02T03:04:05.6Z')")} ${part("duration('90s')")}`]: '2026-01-02T03:04:05.6Z 90s'
  }
  for (const [source, expected] of Object.entries(table)) t.equal(template(source).text(flow), expected, source)
})

t.test('a whole string keeps the type of its one part', async (t) => {
  t.equal(template(part('vars.n')).value(flow), 3n)
  t.same(template(part("req.headers['x-list']")).value(flow), ['a', 'b'])
  t.equal(template(` ${part('vars.n')}`).value(flow), ' 3', 'with a text beside it is text')
  t.equal(template('text').value(flow), 'text')
  t.equal(template('text').constant, 'text')
  t.equal(template(part("'a'")).constant, undefined)
  t.same(
    [...template(`${part('vars.n')}${part('req.method == vars.x')}`).variables],
    ['vars.n', 'req.method', 'vars.x']
  )
})

t.test('quotes that a quoted YAML string escaped are accepted', async (t) => {
  t.equal(template(part('req.headers[\\"x-user\\"][0]')).text(flow), 'bob')
  t.equal(template(`id=${part('req.headers[\\"x-user\\"][0] + \\"}\\"')}`).text(flow), 'id=bob}')
  t.equal(template(part('"a\\"b"')).text(flow), 'a"b', 'an escape that is right stays what it is')
})

t.test('problems stand at their place in the whole string', async (t) => {
  const at = (source: string) => {
    const compiled = expressions.template(source, 'on_http_request')
    const problems = compiled.ok ? compiled.warnings : compiled.problems
    return problems.map(({ start, end }) => source.slice(start, end))
  }
  t.same(at(`abc ${part('req.metod')} ${part('req.urll')}`), ['req.metod', 'req.urll'])
  t.same(at(`x${part('req.headers[\\"a\\"][0] + nope')}`), ['nope'])
  t.same(at(`x${part("conn.geo.city == 'a'")}`), ['conn.geo.city'])
  const open = expressions.template('a ${req.method', 'on_http_request')
  t.match(open, { ok: false, problems: [{ code: 'EXPRESSION_SYNTAX', start: 2, end: 4, message: /no closing/ }] })
  t.match(expressions.template(part(''), 'on_http_request'), { ok: false, problems: [{ message: /empty/ }] })
  const old = expressions.template(part('.ngrok.geo.country_code'), 'on_http_request')
  t.match(old, { ok: false, problems: [{ message: /write conn\.geo\.country_code/ }] })
  t.match(expressions.template(part('res.status_code'), 'on_http_request'), {
    problems: [{ code: 'EXPRESSION_PHASE' }]
  })
})

t.test('errors pass through and texts are bounded', async (t) => {
  t.throws(() => template(`a ${part('vars.none')}`).text(flow), { kind: 'absent', message: /vars\.none/ })
  t.throws(() => template(part('1 / (size(req.method) - 4)')).value(flow), { kind: 'failed', message: /division/ })
  const long = sampleFlow()
  long.vars = new Map([['s', 'x'.repeat(700_000)]])
  try {
    template(part('vars.s') + part('vars.s')).text(long)
    t.fail('the text is too long')
  } catch (error) {
    t.ok(error instanceof EvaluationError && error.kind === 'failed')
  }
})

t.test('any text without a placeholder is itself', async (t) => {
  const characters = ['$', '{', '}', '"', "'", '\\', 'a', '\n', '/', '\u{1F600}', ' ']
  let seed = 11
  for (let i = 0; i < 2000; i++) {
    let source = ''
    for (let k = 0; k < 12; k++) {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
      source += characters[(seed >>> 8) % characters.length]
    }
    if (source.includes('${')) {
      expressions.template(source, 'on_http_request')
    } else if (template(source).text(flow) !== source) t.fail(source)
  }
  t.pass()
})

t.test('the text of a reference is written by an expression, and messages say so', async (t) => {
  t.equal(template("a ${'${'}HOME} b").text(flow), 'a ${HOME} b')
  const messages = (source: string) => {
    const compiled = expressions.template(source, 'on_http_request')
    return compiled.ok ? [] : compiled.problems.map(({ message }) => message)
  }
  t.same(messages('a ${HOME}'), ["there is no variable HOME; for the text ${HOME} itself write ${'${'}HOME}"])
  t.match(messages('costs ${'), [/for the text \$\{ itself write \$\{'\$\{'\}$/])
  t.notMatch(messages('${req.metod}')[0], /itself write/)
})
