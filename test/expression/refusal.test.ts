import t from 'tap'
import { EvaluationError } from '../../src/expression/expression.js'
import type { Phase } from '../../src/flow/flow.js'
import { sampleExpressions, sampleFlow } from './sample-flow.js'

const expressions = sampleExpressions()

/** `code start-end message` of each problem. */
function problems(source: string, phase: Phase = 'on_http_request'): string[] {
  const result = expressions.expression(source, phase)
  const found = result.ok ? result.warnings : result.problems
  return found.map(({ severity, code, start, end, message }) => `${severity} ${code} ${start}-${end} ${message}`)
}

t.test('unknown names are refused where they stand, with what was probably meant', async (t) => {
  const table: Record<string, RegExp> = {
    "req.metod == 'GET'": /error EXPRESSION_UNKNOWN 0-9 .*did you mean req\.method\?/,
    "true && req.path.startsWith('/')": /EXPRESSION_UNKNOWN 8-16 .*did you mean req\.url\.path\?/,
    'req.url.pth': /0-11 .*did you mean req\.url\.path\?/,
    "req.headers('X') == 'a'":
      /^error EXPRESSION_UNKNOWN 0-16 req\.headers is a value and no function; write req\.headers\['X'\]$/,
    "req.url.query_params('a')[0] == 'a'": /write req\.url\.query_params\['a'\]$/,
    "vars('plan') == 'a'": /write vars\['plan'\]$/,
    'req.method() == "a"': /req\.method is a value and no function; write req\.method$/,
    "req.Method == 'a'": /did you mean req\.method\?/,
    "request.headers['x'][0] == 'a'": /0-15 there is no variable request\.headers; did you mean req\.headers\?/,
    "conn.geo.contry == 'a'": /did you mean conn\.geo\.country\?/,
    req: /req is no value; name one of its members/,
    "req.header('X') == 'a'":
      /^error EXPRESSION_UNKNOWN 0-15 there is no function req\.header\(\); did you mean req\.headers\?$/,
    "getReqHeader['X'] == 'a'": /getReqHeader is a function; write getReqHeader\(…\)$/,
    "req.ip == '192.0.2.1'": /did you mean conn\.client_ip\?$/,
    "remote_addr == '192.0.2.1'": /did you mean conn\.client_ip\?$/,
    'req.url.path.length > 3': /write req\.url\.path\.size\(\)$/,
    'req.method == GET': /there is no variable GET; a text stands in quotes: 'GET'$/,
    "req.method == 'GET' and true": /EXPRESSION_SYNTAX .*and is unexpected here; write &&$/,
    "req.method == 'GET' OR true": /OR is unexpected here; write \|\|$/,
    "not req.method == 'GET'": /not is no operator; write !\(…\)$/,
    "req.method <> 'GET'": /<> is unexpected here; write !=$/,
    "req.url.path.includes('a')": /EXPRESSION_UNKNOWN .*includes\(\); write contains\(/,
    "req.url.path.starts_with('a')": /write startsWith\(/,
    "req.url.path.startWith('a')": /did you mean startsWith\(/,
    "hasReqHeadr('x')": /did you mean hasReqHeader\(/,
    "hash.sha265('x')": /there is no function hash\.sha265\(\); did you mean hash\.sha256/,
    "sort(req.headers['a'])": /EXPRESSION_UNKNOWN .*sort\(\); did you mean list\.sort\(\) or list\.sortBy\(x, …\)\?/,
    "req.headers['a'].sort(x, size(x))": /EXPRESSION_UNKNOWN .*sort\(\) takes no variable; did you mean sortBy\(/,
    "req.headers['a'].orderBy(x, size(x))": /did you mean sortBy\(/,
    "req.headers['a'].contains('b')": /EXPRESSION_TYPE .*this is a list: did you mean \[0\]\.contains\(/,
    "getReqHeader('a').startsWith('b')": /did you mean \[0\]\.startsWith\(/,
    "actions.service.ai_gateway.decision == ''": /ai_gateway\.decision: the action ai-gateway is not/,
    'size()': /size\(\) does not take these arguments/,
    'b"x".json()': /EXPRESSION_UNKNOWN/
  }
  for (const [source, expected] of Object.entries(table)) t.match(problems(source)[0], expected, source)
  t.equal(problems("req.headers('X') == 'a'").length, 1, 'one problem, not two')
  t.equal(problems("req.headers['a'].sort(x, size(x))").length, 1, 'its variable is no second problem')
  t.notMatch(problems("req.headers['a'].contains(1)")[0], /list: did you mean \[1\]/)
  t.equal(problems("req.metod == 'a' || conn.cilent_ip == 'b'").length, 2, 'all unknown names at once')
})

t.test('what a phase cannot know is refused in it', async (t) => {
  t.match(
    problems('res.status_code == 200')[0],
    /EXPRESSION_PHASE 0-15 res\.status_code is known in on_http_response only/
  )
  t.match(problems("getResHeader('x') == []")[0], /EXPRESSION_PHASE/)
  t.match(
    problems("req.method == 'GET'", 'on_tcp_connect')[0],
    /EXPRESSION_PHASE .*on_http_request and on_http_response/
  )
  t.match(problems("getReqHeader('x') == []", 'on_tcp_connect')[0], /EXPRESSION_PHASE/)
  t.same(problems("conn.client_ip == 'a' && vars.x == 1", 'on_tcp_connect'), [])
  t.same(problems("res.status_code == 200 && req.method == 'GET'", 'on_http_response'), [])
})

t.test('types that do not fit are refused; comparisons of different types only warned about', async (t) => {
  t.match(problems("1 + 'a'")[0], /error EXPRESSION_TYPE 0-7 \+ is not defined for int and string/)
  t.match(problems('req.method && true')[0], /error EXPRESSION_TYPE .*&& takes bool/)
  t.match(problems('size(1)')[0], /it is size\(string\)/)
  t.match(problems("'a' in 'abc'")[0], /error EXPRESSION_TYPE .*write contains/)
  t.match(
    problems("res.status_code < '200'", 'on_http_response')[0],
    /error EXPRESSION_TYPE .*int and string; write the number without quotes/
  )
  t.match(problems('true < 1')[0], /error EXPRESSION_TYPE .*bool and int/)
  t.match(problems('req.method == 1')[0], /warning EXPRESSION_TYPE .*never equal/)
  t.match(problems("!conn.client_ip in ['a']")[0], /warning EXPRESSION_TYPE/)
  t.same(problems('1 < 2.5'), [], 'numbers of different types are comparable')
  const compared = expressions.expression("dyn(req.content_length) < '200'", 'on_http_request')
  t.ok(compared.ok)
  if (compared.ok) t.throws(() => compared.value.evaluate(sampleFlow()), { kind: 'failed', message: /not defined/ })
})

t.test('a choice between values of different types is known when it runs', async (t) => {
  const table: Record<string, [string, unknown]> = {
    "req.method == 'GET' ? 'x' : null": ['dyn', 'x'],
    "req.method == 'PUT' ? 'x' : null": ['dyn', null],
    "req.method == 'GET' ? ['a'] : 'b'": ['dyn', ['a']],
    "req.method == 'GET' ? [] : ['a']": ['list<string>', []],
    "req.method == 'GET' ? 'a' : 'b'": ['string', 'a']
  }
  for (const [source, [type, value]] of Object.entries(table)) {
    const compiled = expressions.expression(source, 'on_http_request')
    if (!compiled.ok) {
      t.fail(`${source}: ${compiled.problems[0]?.message}`)
      continue
    }
    t.equal(compiled.value.type, type, source)
    t.same(compiled.value.evaluate(sampleFlow({ method: 'GET' })), value, source)
  }
  t.match(problems('1 ? 2 : 3')[0], /error EXPRESSION_TYPE 0-1 the condition of \? : is a bool, not int/)
})

t.test('an invisible character is named with its place, and allowed in a string', async (t) => {
  t.match(
    problems("req.method ==\u00a0'a'")[0],
    /error EXPRESSION_SYNTAX 13-14 .*U\+00A0 \(no-break space\), at character 14/
  )
  for (const character of '\u2003\u200b\u200e\u2028\u202f\u2060\u3000\ufeff') {
    const code = `U+${character.charCodeAt(0).toString(16).toUpperCase()}`
    for (const source of [`${character}true`, `true${character}`, `true &&${character}true`]) {
      const [found = ''] = problems(source)
      t.match(found, `error EXPRESSION_SYNTAX ${source.indexOf(character)}-`, code)
      t.match(found, code)
    }
    t.same(problems(`req.method == '${character}'`), [], `${code} in a string`)
  }
})

t.test('the type of an expression is known where it can be', async (t) => {
  const type = (source: string) => {
    const result = expressions.expression(source, 'on_http_request')
    return result.ok ? result.value.type : undefined
  }
  t.equal(type("req.method == 'a'"), 'bool')
  t.equal(type('req.url'), 'string')
  t.equal(type('req.headers'), 'map<string, list<string>>')
  t.equal(type("getReqHeader('a')"), 'list<string>')
  t.equal(type('conn.ts.start'), 'timestamp')
  t.equal(type('vars.x'), 'dyn')
  t.equal(type('[1, 2].map(x, string(x))'), 'list<string>')
})

t.test('syntax errors say what to write', async (t) => {
  const table: Record<string, RegExp> = {
    "req.method = 'GET'": /EXPRESSION_SYNTAX 11-12 = is unexpected here; compare with ==/,
    'true & false': /write &&/,
    '1 +': /EXPRESSION_SYNTAX 3-3 the expression ends too early/,
    '': /the expression is empty/,
    "'abc": /no closing quote/,
    "'\\d'": /escape is unknown/,
    '${vars.x} == 1': /belongs into the texts of a config/,
    'vars.y == ${vars.x}': /EXPRESSION_SYNTAX 10-11 .*belongs into the texts/,
    '{{ .x }}': /\{\{ \}\} are not supported/,
    '.ngrok.geo.country_code': /write conn\.geo\.country_code/,
    'for == 1': /for is a reserved word/,
    '9223372036854775808': /64 bits/,
    'has(vars)': /has\(\) takes one member/,
    '[1].all(1, true)': /name of a variable/,
    '[1].sortBy(1, 2)': /name of a variable/,
    "req.url.path.matches('(?=a)')": /EXPRESSION_REGEX 21-28 look-ahead/,
    "'a'.matches('[')": /EXPRESSION_REGEX 12-15/,
    "b'ÿ'": /bytes hold ASCII/
  }
  for (const [source, expected] of Object.entries(table)) t.match(problems(source)[0], expected, JSON.stringify(source))
  t.same(problems('-9223372036854775808 < 0 // the smallest'), [], 'the smallest integer and comments are fine')
})

t.test('limits of size and depth', async (t) => {
  const limit = /error EXPRESSION_LIMIT/
  t.match(problems(`${'('.repeat(150)}1${')'.repeat(150)}`)[0], limit)
  t.match(problems(Array.from({ length: 1500 }, () => '1').join('+'))[0], limit)
  t.match(problems(`${'!'.repeat(8000)}true`)[0], limit)
  t.match(problems(`'${'a'.repeat(9000)}'`)[0], limit)
  t.match(problems(`[${'1,'.repeat(1500)}1]`)[0], limit)
  const chain = expressions.expression(Array.from({ length: 900 }, () => '1').join('+'), 'on_http_request')
  t.equal(chain.ok && chain.value.evaluate(sampleFlow()), 900n, 'below the limits it works')
})

t.test('whatever is written, compiling answers and never throws', async (t) => {
  const pieces = [
    'req',
    '.',
    'url',
    'path',
    '(',
    ')',
    '[',
    ']',
    '{',
    '}',
    "'a'",
    '"',
    "'",
    '1',
    '1u',
    '2.5',
    '&&',
    '||',
    '==',
    '<',
    '+',
    '-',
    '!',
    '?',
    ':',
    ',',
    'x',
    'has',
    'map',
    'all',
    'matches',
    'vars',
    'null',
    'in',
    '\\',
    '$',
    '//',
    '\u{1F600}',
    'headers',
    'cel.bind',
    'type'
  ]
  let seed = 7
  const next = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 1
    return seed % below
  }
  let accepted = 0
  const flow = sampleFlow()
  for (let i = 0; i < 6000; i++) {
    const source = Array.from({ length: 1 + next(9) }, () => pieces[next(pieces.length)]).join(next(2) === 0 ? '' : ' ')
    const result = expressions.expression(source, 'on_http_request')
    if (!result.ok) {
      if (!result.problems.every(({ start, end }) => start >= 0 && end >= start && end <= source.length + 1))
        t.fail(`offsets in ${source}`)
      continue
    }
    accepted++
    try {
      result.value.evaluate(flow)
    } catch (error) {
      if (!(error instanceof EvaluationError)) t.fail(`${source} threw ${error}`)
      else if (/could not be evaluated/.test(error.message)) t.fail(`${source} is broken`)
    }
  }
  t.ok(accepted > 20, `${accepted} of the sources are expressions`)
})

t.test('a constant that fails for every exchange is refused where it stands', async (t) => {
  const table: Record<string, [string, RegExp]> = {
    "timestamp('2026-02-30T00:00:00Z') < timestamp(time.now)": ["timestamp('2026-02-30T00:00:00Z')", /cannot convert/],
    "timestamp('2026-02-03') < timestamp(time.now)": ["timestamp('2026-02-03')", /cannot convert/],
    "timestamp(time.now).getHours('Europe/Berln') > 8": ["'Europe/Berln'", /no such time zone/],
    "timestamp(time.now).getHours('+25:00') > 8": ["'+25:00'", /no such time zone/],
    "duration('5 minutes') > duration('1s')": ["duration('5 minutes')", /cannot convert/],
    '[1, 2][5] == size(req.method)': ['[1, 2][5]', /index out of range/],
    '[req.method, req.host][2] == req.host': ['2', /index out of range/],
    "req.headers['x'][-1] == 'a'": ['-1', /index out of range/],
    "{'a': 1}['b'] == size(req.method)": ["{'a': 1}['b']", /no such key: "b"/],
    "int('abc') == size(req.method)": ["int('abc')", /int\(\) cannot convert/],
    "size(req.host) > int('1,000') + 1": ["int('1,000')", /int\(\) cannot convert/],
    'size(req.host) > 9223372036854775807 + 1': ['9223372036854775807 + 1', /./],
    "bool('yes') && req.method == 'GET'": ["bool('yes')", /bool\(\) cannot convert/],
    '1 / 0 == size(req.method)': ['1 / 0', /division by zero/],
    'size(req.method) / 0 == 1': ['0', /division by zero/],
    'size(req.method) % 0 == 1': ['0', /division by zero/],
    "hash.sha256(req.host, 'hexx') == 'a'": ["'hexx'", /a hash is written as/],
    "req.host.md5('base32') == 'a'": ["'base32'", /a hash is written as/],
    "b64.decode('***') == req.host": ["b64.decode('***')", /not base64/],
    "json.decode('{a: 1}').a == req.host": ["json.decode('{a: 1}')", /./],
    "inCidrRange(conn.client_ip, '10.0.0.0/33')": ["'10.0.0.0/33'", /a range is written as/],
    "inCidrRange(conn.client_ip, '10.0.0')": ["'10.0.0'", /a range is written as/],
    "conn.client_ip.inCidrRanges(['10.0.0.0/8', '10.0.0.0-10.0.0.9'])": [
      "['10.0.0.0/8', '10.0.0.0-10.0.0.9']",
      /a range is written as/
    ],
    "ipPrefix(conn.client_ip, 33, 64) == 'a'": ['33', /0 to 32 bits/],
    'rand.int(5, 1) == 3': ['rand.int(5, 1)', /min <= max/],
    'rand.int(-1, 1) == 0': ['-1', /min <= max/],
    "req.host.substring(3, 1) == 'a'": ['req.host.substring(3, 1)', /ends before it starts/],
    "req.host.charAt(-1) == 'a'": ['-1', /outside the string/],
    "basic_auth.encode('a:b', req.host) == 'a'": ["'a:b'", /holds no colon/],
    '[1, 2].all(x, x / 0 == 1) || req.host == "a"': ['[1, 2].all(x, x / 0 == 1)', /division by zero/],
    '[req.host].all(x, 1 / 0 == 1)': ['1 / 0', /division by zero/]
  }
  for (const [source, [part, reason]] of Object.entries(table)) {
    const result = expressions.expression(source, 'on_http_request')
    t.notOk(result.ok, source)
    const [first, ...more] = result.ok ? [] : result.problems
    t.match(first, { severity: 'error', code: 'EXPRESSION_FAILS', message: reason }, source)
    t.equal(source.slice(first?.start, first?.end), part, source)
    t.same(more, [], source)
  }
  const right = [
    "timestamp('2028-02-29T00:00:00Z') < timestamp(time.now)",
    "timestamp(time.now).getHours('Europe/Berlin') > 8 && timestamp(time.now).getHours('-09:30') > 8",
    '[1, 2][1] == size(req.method)',
    "req.headers['x'][1] == 'a'",
    "{'a': 1}[req.method] == 1",
    'true || 1 / 0 == 1',
    "[1].exists(x, x == 1 || {'a': 1}['b'] == x)",
    '1.0 / 0.0 > 1.0',
    'size(req.method) / size(req.host) == 1',
    "hash.sha256(req.host, 'base64') == 'a'",
    "hash.sha256(req.host, req.method) == 'a'",
    "inCidrRange(conn.client_ip, '::/0') || inCidrRange(conn.client_ip, req.host)",
    "conn.client_ip.inCidrRanges(['10.0.0.1', '2001:db8::/32'])",
    "ipPrefix(conn.client_ip, 32, 128) == 'a'",
    'rand.int(1, 5) == 3',
    "has({'a': 1}.b) || 'b' in {'a': 1}",
    "req.host.substring(1, 1) == ''"
  ]
  for (const source of right) t.same(problems(source), [], source)
})
