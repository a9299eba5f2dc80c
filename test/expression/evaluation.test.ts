import t from 'tap'
import { EvaluationError, type Expression } from '../../src/expression/expression.js'
import { engineValue } from '../../src/expression/values.js'
import { compileSample, type FlowOptions, sampleExpressions, sampleFlow } from './sample-flow.js'

const expressions = sampleExpressions()

function compiled(source: string): Expression {
  return compileSample(expressions, source)
}

/** The value as JSON data, or the kind of the error. */
function value(source: string, options: FlowOptions = {}): unknown {
  try {
    return expressions.dataOf(compiled(source).evaluate(sampleFlow(options)))
  } catch (error) {
    if (error instanceof EvaluationError) return error.kind
    throw error
  }
}

t.test('what is not there is absent, everything else that goes wrong is failed', async (t) => {
  const table: Record<string, unknown> = {
    "{'a': 1}['b']": 'absent',
    "{'a': 1}.b": 'absent',
    '[1][1]': 'absent',
    '[1][-1]': 'absent',
    'vars.none': 'absent',
    'actions.service.rate_limit.limited': 'absent',
    "getReqCookie('none').value": 'absent',
    '1 / 0': 'failed',
    '9223372036854775807 + 1': 'failed',
    "int('x')": 'failed',
    "dyn(1) < dyn('a')": 'failed',
    "dyn('abc').none": 'failed',
    "secrets.get('main', 'none')": 'failed',
    "timestamp('yesterday')": 'failed',
    "dyn(1) ? 'a' : 'b'": 'failed'
  }
  for (const [source, kind] of Object.entries(table)) t.equal(value(source), kind, source)
})

t.test('an operand that decides makes up for an error of the other, and failed weighs more than absent', async (t) => {
  const absent = "req.headers['none'][0] == 'x'"
  const failed = '1 / 0 == 1'
  t.equal(value(`${absent} || true`), true)
  t.equal(value(`true || ${failed}`), true)
  t.equal(value(`${failed} || true`), true)
  t.equal(value(`${absent} && false`), false)
  t.equal(value(`${absent} || false`), 'absent')
  t.equal(value(`false || ${absent}`), 'absent')
  t.equal(value(`${absent} || ${failed}`), 'failed')
  t.equal(value(`${failed} && ${absent}`), 'failed')
  t.equal(value("['a', ''].exists(x, x == 'a' || {'k': 1}[x] == 1)"), true)
  t.equal(value("['b', 'a'].exists(x, {'a': 1}[x] == 1)"), true, 'a later element decides')
  t.equal(value("['b', 'c'].exists(x, {'a': 1}[x] == 1)"), 'absent')
  t.equal(value("['b'].exists_one(x, {'a': 1}[x] == 1)"), 'absent')
})

t.test('the message of an error holds no data of the exchange', async (t) => {
  const options = { headers: ['X-Token', 'hunter2', 'Cookie', 'hunter2=hunter2'] }
  const header = "req.headers['x-token'][0]"
  const sources = [
    `int(${header})`,
    `{'a': 1}[${header}]`,
    `${header}.matches(${header} + '(')`,
    `timestamp(${header})`
  ]
  sources.push(`duration(${header})`, `json.decode(${header})`, `${header}.charAt(99)`)
  for (const source of sources) {
    try {
      compiled(source).evaluate(sampleFlow(options))
      t.fail(`${source} has a value`)
    } catch (error) {
      t.ok(error instanceof EvaluationError, source)
      t.notMatch((error as Error).message, /hunter2/, source)
    }
  }
})

t.test('comprehension variables hide variables and namespaces, each in its own place', async (t) => {
  t.same(value('[1, 2].map(req, req * 10)'), [10, 20])
  t.equal(value("['x'].exists(hash, hash == 'x')"), true)
  t.same(value('[1].map(x, [2].map(y, [3].map(x, x + y) + [x]))'), [[[5, 1]]])
  t.same(value("['b', 'a', 'c'].sortBy(x, x)"), ['a', 'b', 'c'])
  t.same(value("[{'n': 2}, {'n': 1}].sortBy(x, x.n).map(x, x.n)"), [1, 2])
  t.same(value("{'a': 1, 'b': 2}.transformList(k, v, k + string(v))"), ['a1', 'b2'])
  t.equal(value("req.method == 'GET' && ['POST'].all(method, method != req.method)"), true)
})

t.test('names of objects are data', async (t) => {
  const options = {
    headers: ['constructor', 'c', '__proto__', 'p', 'toString', 's'],
    target: '/?__proto__=q&constructor=r'
  }
  t.same(value("req.headers['constructor'] + req.headers['__proto__'] + req.headers['tostring']", options), [
    'c',
    'p',
    's'
  ])
  t.same(value('req.headers.constructor', options), ['c'])
  t.equal(value("req.url.query_params['__proto__'][0] + getQueryParam('constructor')[0]", options), 'qr')
  t.equal(value("has(req.headers['hasownproperty'])", options), false)
  t.equal(value("{'__proto__': 1, 'constructor': 2}.size()"), 2)
  t.equal(value("{'a': 1}.constructor"), 'absent')
  t.equal(value('json.decode(\'{"__proto__": {"x": 1}}\').x'), 'absent')
  t.equal(value('json.decode(\'{"__proto__": {"x": 1}}\')["__proto__"].x == 1.0'), true)
  const data = expressions.dataOf(engineValue(JSON.parse('{"__proto__": 1}'))) as object
  t.same(Object.keys(data), ['__proto__'])
  t.equal(Object.getPrototypeOf(data), Object.prototype)
})

t.test('a pattern never backtracks', async (t) => {
  const headers = ['X', `${'a'.repeat(20_000)}!`]
  const sources = ["'^(a+)+$'", "'(a|aa)+$'", "'^(.*)*x$'", "'([a-z]+)*[0-9]'"]
  for (const pattern of sources) {
    const expression = compiled(`req.headers['x'][0].matches(${pattern})`)
    const flow = sampleFlow({ headers })
    expression.evaluate(flow)
    const before = process.cpuUsage()
    t.equal(expression.evaluate(flow), false, pattern)
    t.ok(milliseconds(before) < 100, `${pattern} is linear`)
  }
  t.equal(value("'abc'.matches('(?i)B') && matches('x\\ny', '(?s)x.y')"), true, 'flags of RE2')
  t.equal(value("req.headers['x'][0].matches(req.headers['p'][0])", { headers: ['X', 'abc', 'P', '^a.c$'] }), true)
  t.equal(value("req.headers['x'][0].matches(req.headers['p'][0])", { headers: ['X', 'a', 'P', '('] }), 'failed')
  const large = { headers: ['X', 'a', 'P', 'a{999}b{999}c{999}'] }
  t.equal(
    value("req.headers['x'][0].matches(req.headers['p'][0])", large),
    'failed',
    'a client cannot make a large program'
  )
})

t.test('the budget stops what takes too long, and nothing absorbs that', async (t) => {
  const big = (body: string) => `cel.bind(big, lists.range(1000), ${body})`
  const nested = (depth: number): string => (depth === 0 ? 'true' : `big.all(x${depth}, ${nested(depth - 1)})`)
  const sources = [
    big(nested(5)),
    `${big('big.exists(a, big.exists(b, big.exists(c, a + b + c < 0)))')} || true`,
    `true && ${big('!big.exists(a, big.exists(b, big.all(c, false || c > 5000 || 1 / 0 == 1)))')}`,
    `${big('big.map(a, big.map(b, string(a) + string(b)))')}.size() > 0 || true`,
    `${big("big.all(a, big.all(b, b in big)) || 'a'.size() == 1")}`,
    `${big("big.map(a, 'x').join('').size() + big.map(a, big.map(b, b).size()).size()")} > 0`
  ]
  for (const source of sources) {
    const expression = compiled(source)
    const flow = sampleFlow()
    t.throws(() => expression.evaluate(flow), { kind: 'failed', message: /too many steps/ }, source)
    const before = process.cpuUsage()
    t.throws(() => expression.evaluate(flow), { kind: 'failed', message: /./ })
    t.ok(milliseconds(before) < 50, `${source} ends soon`)
  }
  t.equal(value('lists.range(1000).filter(x, x % 2 == 0).size()'), 500, 'what a policy needs fits')
  t.equal(value('lists.range(1000).map(x, string(x)).exists(x, x.startsWith(req.method) || x.endsWith("99"))'), true)
})

t.test('texts and lists cannot grow without bound', async (t) => {
  const doubled = (times: number): string =>
    times === 0 ? "'0123456789abcdef'" : `cel.bind(s, ${doubled(times - 1)}, s + s)`
  t.equal(value(`${doubled(12)}.size()`), 65_536)
  t.equal(value(`${doubled(20)}.size()`), 'failed')
  const lists = (times: number): string => (times === 0 ? '[1, 2]' : `cel.bind(s, ${lists(times - 1)}, s + s)`)
  t.equal(value(`${lists(20)}.size()`), 'failed')
  t.equal(value("'a'.replace('', 'b'.replace('b', 'cccccccccccccccccccccccc')).size() > 0"), true)
})

t.test('an expression keeps nothing between evaluations', async (t) => {
  const expression = compiled('[req.method].map(x, [req.url.path].map(y, x + y))[0][0]')
  t.equal(expression.evaluate(sampleFlow({ target: '/a' })), 'GET/a')
  t.equal(expression.evaluate(sampleFlow({ method: 'POST', target: '/b' })), 'POST/b')
  const failing = compiled("req.headers['x'][0]")
  t.throws(() => failing.evaluate(sampleFlow()), { kind: 'absent', message: /./ })
  t.equal(failing.evaluate(sampleFlow({ headers: ['X', '1'] })), '1')
})

t.test('addresses, randomness, secrets', async (t) => {
  const table: Record<string, unknown> = {
    "inCidrRange('66.249.66.77', '66.249.66.1/24')": true,
    "inCidrRange('66.249.67.1', '66.249.66.1/24')": false,
    "inCidrRange('66.249.66.1', 'nonsense') || inCidrRange('066.1.1.1', '0.0.0.0/0')": false,
    "inCidrRange('::ffff:10.1.2.3', '10.0.0.0/8')": true,
    "inCidrRange('10.1.2.3', '::/0')": false,
    "inCidrRanges(conn.client_ip, [req.method, '198.51.100.0/24'])": true,
    "'172.31.255.255'.isPrivateIp() && !'172.32.0.0'.isPrivateIp() && !'127.0.0.1'.isPrivateIp()": true,
    "ipPrefix('2001:db8:1:2:3::4', 24, 64)": '2001:db8:1:2::/64',
    'ipPrefix(conn.client_ip, 24, 64)': '198.51.100.0/24',
    "ipPrefix('x', 24, 64)": 'failed',
    'rand.int()': 1,
    'rand.int(3, 5)': 4,
    'rand.int(size(req.method), 2)': 'failed',
    'rand.double() == 0.5': true,
    "secrets.get('main', 'key')": 's3cret'
  }
  for (const [source, expected] of Object.entries(table)) t.equal(value(source), expected, source)
  const low = sampleExpressions({ random: () => 0 }).expression('rand.int(3, 5)', 'on_http_request')
  const high = sampleExpressions({ random: () => 1 - Number.EPSILON }).expression('rand.int(3, 5)', 'on_http_request')
  t.equal(low.ok && low.value.evaluate(sampleFlow()), 3n)
  t.equal(high.ok && high.value.evaluate(sampleFlow()), 5n, 'both ends are possible')
})

t.test('types decide overloads when they are known late', async (t) => {
  const table: Record<string, unknown> = {
    "dyn('abc').size() + dyn([1]).size()": 4,
    "dyn(['b', 'a']).join('-')": 'b-a',
    "dyn([1, 2]).join('-')": 'failed',
    "type(dyn(1)) == int && type('a') == string && type(null) == null_type": true,
    "[1, 'a', true].map(x, string(x))": ['1', 'a', 'true'],
    '1 == 1.0 && 1u == 1 && 2 > 1.5': true,
    "dyn(1) == 'a'": false,
    "timestamp('2026-01-01T00:00:00Z') + duration('90m') == timestamp('2026-01-01T01:30:00Z')": true,
    "string(duration('-1.5s'))": '-1.5s',
    "'a' < 'b' && '\u{1F600}' > '\uFFEE'": true
  }
  for (const [source, expected] of Object.entries(table)) t.same(value(source), expected, source)
})

function milliseconds(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}
