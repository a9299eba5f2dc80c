import { METHODS } from 'node:http'
import t from 'tap'
import { isPossible, VARIABLE_TEXTS } from '../../src/expression/value-sets.js'
import { RequestTarget } from '../../src/flow/target.js'
import { compileRegex, quotedPattern, type Regex, sharesText } from '../../src/lib/regex.js'
import { sampleExpressions, sampleFlow } from '../expression/sample-flow.js'
import { Kit } from '../features/kit.js'

const kit = new Kit()
const expressions = sampleExpressions()
const DENY = { type: 'deny' }
const LOG = { type: 'log', config: { metadata: { a: 'b' } } }

interface Found {
  readonly severity: string
  readonly message: string
  readonly shown: string
}

/** What is said of the literals of one expression in a rule with this action. */
function found(expression: string, action: object = LOG, phase = 'on_http_request'): readonly Found[] {
  const document = { [phase]: [{ expressions: [expression], actions: [action] }] }
  const text = JSON.stringify(document)
  return kit
    .compile(document)
    .problems.filter(({ code }) => code === 'LITERAL_NEVER_EQUAL')
    .map(({ severity, message, column, length }) => ({
      severity,
      message,
      shown: text.slice(column - 1, column - 1 + length)
    }))
}

/**
 * Variables with literals that none of their values is, each with the right spelling or none, and with literals that some value is. A
 * literal stands for `==`, unless it begins with a method.
 */
const TEXTS: Readonly<
  Record<string, { readonly never: readonly [string, string?][]; readonly right: readonly string[] }>
> = {
  'req.method': {
    never: [['delete', 'DELETE'], ['Get', 'GET'], ['GET ', 'GET'], [''], ['startsWith p', 'P'], ['contains et', 'ET']],
    right: ['DELETE', 'TRACE', 'CONNECT', 'startsWith P', 'contains ET', 'endsWith T']
  },
  'req.version': {
    never: [
      ['HTTP/2', 'HTTP/2.0'],
      ['2', 'HTTP/2.0'],
      ['h2', 'HTTP/2.0'],
      ['http/1.1', 'HTTP/1.1'],
      ['1.1', 'HTTP/1.1']
    ],
    right: ['HTTP/2.0', 'HTTP/1.0', 'startsWith HTTP/1']
  },
  'req.url.scheme': {
    never: [['HTTPS', 'https'], ['https://', 'https'], ['wss'], ['endsWith S', 's']],
    right: ['http', 'https', 'startsWith http']
  },
  'req.url.path': {
    never: [
      ['admin', '/admin'],
      [''],
      ['/a b', '/a%20b'],
      ['/admin?x=1', '/admin'],
      ['//admin', '/admin'],
      ['/a/../b', '/b'],
      ['/a/.', '/a/'],
      ['https://app.test/a', '/a'],
      ['/caf\u00e9', '/caf%C3%A9'],
      ['/users/{id}', '/users/%7Bid%7D'],
      ['/%61', '/a'],
      ['/a%2fb'],
      ['startsWith admin/', '/admin/'],
      ['startsWith /a b', '/a%20b'],
      ['endsWith ?x'],
      ['contains /../'],
      ['contains //'],
      ['contains  ']
    ],
    right: [
      '/',
      '*',
      '/admin',
      '/a..b',
      '/...',
      '/.well-known/x',
      '/a;v=1',
      '/a%20b',
      "/!$&'()*+,;=:@",
      'startsWith /admin',
      'startsWith /a/..',
      'contains ..',
      'contains .env',
      'endsWith .php'
    ]
  },
  'req.url.uri': {
    never: [['admin?x=1', '/admin?x=1'], ['/a b', '/a%20b'], ['startsWith https://']],
    right: ['/a?x=/../ '.trim(), '/a', '*', 'contains ?', 'startsWith /a?']
  },
  'req.url': {
    never: [['/admin'], ['HTTPS://app.test/', 'https://app.test/'], ['startsWith app.test'], ['contains  ']],
    right: [
      'https://app.test',
      'https://app.test/a?b=c',
      'startsWith https://app',
      'contains ://',
      'http://[2001:db8::1]:80/'
    ]
  },
  'req.url.query': { never: [['a b'], ['a#b'], ['q={}']], right: ['', 'a=b', 'q=%7B%7D', 'a=%zz', '?a=b'] },
  'req.url.raw_path': { never: [['/a b'], ['/a?b']], right: ['//a', '/a/../b', '/%61', ''] },
  'req.url.host': {
    never: [
      ['App.test', 'app.test'],
      ['app.test:443', 'app.test'],
      ['*.app.test'],
      ['https://app.test', 'app.test'],
      ['app.test.', 'app.test']
    ],
    right: ['app.test', '2001:db8::1', 'localhost', 'endsWith .test']
  },
  'req.host': {
    never: [['*.app.test'], ['https://app.test', 'app.test'], ['app.test/', 'app.test'], ['app.test.', 'app.test']],
    right: ['app.test', 'app.test:8080', '[::1]:80', 'endsWith .app.test', 'startsWith app.']
  },
  'req.content_type': {
    never: [
      ['application/json; charset=utf-8', 'application/json'],
      ['Application/JSON', 'application/json'],
      ['startsWith Text/', 'text/']
    ],
    right: ['application/json', '', 'startsWith text/', 'contains json']
  },
  'conn.client_ip': {
    never: [
      ['2001:DB8::1', '2001:db8::1'],
      ['2001:db8:0:0:0:0:0:1', '2001:db8::1'],
      ['::ffff:10.0.0.1', '10.0.0.1'],
      ['[::1]', '::1'],
      ['10.0.0.0/8'],
      ['10.0.0.256'],
      ['10.0.0.01'],
      ['localhost'],
      ['startsWith 2001:DB8', '2001:db8']
    ],
    right: ['10.0.0.1', '2001:db8::1', '::1', 'startsWith 10.', 'startsWith 2001:db8:', 'startsWith 192.168.']
  },
  'conn.geo.country_code': {
    never: [['us', 'US'], ['USA'], ['Germany'], ['UK', 'GB'], ['el', 'GR']],
    right: ['US', 'GB', '', 'XK']
  },
  'conn.client_ip.geo.location.continent': {
    never: [
      ['EU', 'Europe'],
      ['europe', 'Europe']
    ],
    right: ['Europe', '']
  },
  'conn.tls.version': { never: [['TLSv1.2', '1.2'], ['TLS 1.3', '1.3'], ['1.4']], right: ['1.2', '1.3', ''] },
  'conn.tls.client.serial_number': {
    never: [
      ['0A:BC', '0abc'],
      ['0xABC', '0abc']
    ],
    right: ['0abc', '']
  },
  'endpoint.protocol': { never: [['HTTPS', 'https'], ['ws']], right: ['https', 'tcp'] },
  'req.user_agent': { never: [[' curl', 'curl'], ['a\nb']], right: ['curl/8', '', 'contains  ', 'Caf\u00e9'] },
  "req.headers['x-a'][0]": {
    never: [['s3cret ', 's3cret'], ['a\r\nb']],
    right: ['S3CRET', 'a b', '', 'startsWith Bearer ']
  },
  "getReqHeader('x-a')[0]": { never: [['\ta', 'a']], right: ['a\tb'] },
  'req.host.lowerAscii()': { never: [['App.test', 'app.test']], right: ['app.test'] },
  'req.method.upperAscii()': {
    never: [
      ['get', 'GET'],
      ['Post', 'POST']
    ],
    right: ['GET']
  },
  'req.host.trim()': { never: [['a ', 'a']], right: ['a', 'a b', ''] },
  'hash.sha256(req.host)': { never: [['ABC'], ['a'.repeat(63)]], right: ['a'.repeat(64)] },
  'req.host.md5()': { never: [['A'.repeat(32), 'a'.repeat(32)]], right: ['a'.repeat(32)] }
}

function comparison(of: string, literal: string): string {
  const [, method, part] = /^(startsWith|endsWith|contains) (.*)$/s.exec(literal) ?? []
  return method === undefined ? `${of} == ${JSON.stringify(literal)}` : `${of}.${method}(${JSON.stringify(part)})`
}

t.test(
  'a text that no value of the variable is: the right spelling is shown, and nothing is said of a text that some value is',
  async (t) => {
    for (const [of, { never, right }] of Object.entries(TEXTS)) {
      for (const [literal, meant] of never) {
        const expression = comparison(of, literal)
        const [problem, ...more] = found(expression)
        t.same(more, [], expression)
        t.equal(problem?.severity, 'warning', expression)
        const written = / (?:never|is never|never has) .*; write '(.*)'$/s.exec(problem?.message ?? '')?.[1]
        t.equal(written, meant, `${expression}: ${problem?.message}`)
      }
      for (const literal of right) t.same(found(comparison(of, literal)), [], comparison(of, literal))
    }
  }
)

/** Expressions with the literals in them that nothing equals, beside near ones. */
const FORMS: Readonly<Record<string, readonly string[]>> = {
  "req.method != 'get'": ["'get'"],
  "'get' == req.method": ["'get'"],
  "req.method in ['get', 'PUT', 'post']": ["'get'", "'post'"],
  "!(req.method in ['put'])": ["'put'"],
  "req.method in {'get': 1}": ["'get'"],
  "{'get': 1, 'PUT': 2}[req.method] == 1": ["'get'"],
  "['get', 'PUT'].exists(m, req.method == m)": ["'get'"],
  "['/a', 'b'].exists(p, req.url.path.startsWith(p))": ["'b'"],
  "cel.bind(m, req.method, m == 'get')": ["'get'"],
  "req.method.matches('^(?:get|post)$')": ["'^(?:get|post)$'"],
  "cel.bind(all, ['get'], all.exists(m, m == req.method))": ["'get'"],
  "matches(req.url.path, '^admin')": ["'^admin'"],
  "req.url.path.matches('^/a b')": ["'^/a b'"],
  "req.url.path.matches('/users\\\\?id=')": ["'/users\\\\?id='"],
  "'x y' in req.headers": ["'x y'"],
  "'x-token:' in req.headers": ["'x-token:'"],
  "req.headers['x y'][0] == 'a'": ["'x y'"],
  "hasReqHeader('X-Token: ')": ["'X-Token: '"],
  "getReqHeader('x y')[0] == 'a'": ["'x y'"],
  "req.headers.exists(name, name == 'X-Token')": ["'X-Token'"],
  "req.headers['x-a'].exists(v, v == ' a')": ["' a'"],
  "' a' in req.headers['x-a']": ["' a'"],
  "'gzip, br' in req.content_encoding": ["'gzip, br'"],
  "'a=b' in req.cookies": ["'a=b'"],
  "hasReqCookie('sid=1')": ["'sid=1'"],
  "'Charset' in req.content_type.parameters": ["'Charset'"],
  'timestamp(time.now).getMonth() == 12': ['12'],
  "timestamp(time.now).getHours('Europe/Berlin') in [0, 24]": ['24'],
  'timestamp(time.now).getDayOfWeek() == 7': ['7'],
  'timestamp(time.now).getDate() == 0': ['0'],
  'timestamp(time.now).getHours() > 23': ['23'],
  'timestamp(time.now).getMinutes() >= 60': ['60'],
  '24 <= timestamp(time.now).getHours()': ['24'],
  'size(req.host) < 0': ['0'],
  'req.host.size() >= -1': ['-1'],
  'req.content_length == -1': ['-1'],
  'conn.server_port == 80443': ['80443'],
  'req.url.port == 0': ['0'],
  'rand.double() < 50.0': ['50.0'],
  'rand.int(1, 6) == 0': ['0'],
  // Near ones.
  "req.method in ['get', 'GET']": [],
  "req.method == 'get' || req.method == 'GET'": [],
  "req.method.matches('(?i)^get$')": [],
  "req.method == 'GETS'": [],
  "req.method == 'BAN'": [],
  "req.method.matches('^(?:get|POST)$')": [],
  "req.url.path.matches('^/a/[0-9]+$')": [],
  "req.url.path.matches('(?:^|/)\\\\.env')": [],
  "req.url.path.matches('\\\\p{Greek}')": [],
  "['get'].exists(m, vars.x == m)": [],
  "'X-Token' in req.headers": [],
  "req.headers['X-Token'][0] == 'a'": [],
  "req.headers.exists(name, name == 'x-token')": [],
  "hasReqHeader('X_Token')": [],
  "'?a' in req.url.query_params": [],
  "vars.method == 'get'": [],
  "req.user_agent.name == 'chrome'": [],
  'timestamp(time.now).getMonth() == 11': [],
  'timestamp(time.now).getHours() < 24': [],
  'timestamp(time.now).getHours() >= 0': [],
  "duration('48h').getHours() > 24": [],
  'size(req.host) > 0': [],
  'req.content_length > -1': [],
  'conn.client_port < 65536': [],
  'rand.double() < 0.5': [],
  'rand.double() <= 1.0': [],
  "hash.sha256(req.host, 'base64') == 'ABC='": []
}

t.test('literals are found where they stand: in lists, maps, comprehensions, patterns, keys and orders', async (t) => {
  for (const [expression, literals] of Object.entries(FORMS)) {
    const escaped = literals.map((one) => JSON.stringify(one).slice(1, -1))
    t.same(
      found(expression).map(({ shown }) => shown),
      escaped,
      expression
    )
  }
})

t.test('in a response: a status, a key of its headers', async (t) => {
  const messages = (expression: string) => found(expression, LOG, 'on_http_response').map(({ message }) => message)
  t.match(messages('res.status_code == 2000'), [/^res\.status_code is never 2000: a status has three digits/])
  t.match(messages('res.status_code >= 1000'), [/^res\.status_code >= 1000 is never true/])
  t.match(messages('res.status_code < 1000'), [])
  t.match(messages('res.status_code > 99 && res.status_code < 600'), [])
  t.match(messages("'content type' in res.headers"), [
    /^res\.headers never has 'content type': .*; write 'content-type'$/
  ])
})

t.test('in a rule that denies it is an error, and a warning everywhere else', async (t) => {
  const severities = (expression: string, action: object) => found(expression, action).map(({ severity }) => severity)
  t.same(severities("req.method == 'delete'", DENY), ['error'])
  t.same(severities("req.method == 'delete'", LOG), ['warning'])
  t.same(severities("req.url.path.startsWith('/a b')", { type: 'redirect', config: { to: '/' } }), ['error'])
  const typed = (expression: string, action: object) =>
    kit
      .compile({ on_http_request: [{ expressions: [expression], actions: [action] }] })
      .problems.map(({ severity, code, message }) => `${severity} ${code} ${message}`)
  t.match(typed("req.headers['x'] == 'a'", DENY), [
    /^error EXPRESSION_TYPE .*never equal; compare an element, such as \[0\]/
  ])
  t.match(typed("req.headers['x'][0] == 5", DENY), [
    /^error EXPRESSION_TYPE .*never equal; write the number without quotes/
  ])
  t.match(typed("req.headers['x'] == 'a'", LOG), [/^warning EXPRESSION_TYPE/])
  // The lenient form of paths has them.
  for (const path of ['/a//b', '/low%2Fx']) {
    const [problem] = found(`req.url.path == '${path}'`, DENY)
    t.match(problem, { severity: 'warning', message: /where path_form is strict, as by default: / })
  }
  t.same(severities("req.url.path == '/a/../b'", DENY), ['error'])
  // An example whose reader has not replaced a placeholder yet is one that cannot serve.
  const rules = [{ expressions: ["conn.geo.country_code == '<COUNTRY>'"], actions: [DENY] }]
  const codes = (unavailable: 'warn' | 'refuse') =>
    kit
      .compile({ on_http_request: rules }, 'route:1', unavailable)
      .problems.map(({ severity, code }) => `${severity} ${code}`)
  t.ok(codes('warn').includes('warning PLACEHOLDER'), String(codes('warn')))
  t.ok(codes('refuse').includes('error PLACEHOLDER'))
})

t.test('templates and keys of limits are looked at, too', async (t) => {
  const warned = (type: string, config: object) =>
    kit.problems(type, config).filter((one) => one.includes('LITERAL_NEVER_EQUAL')).length
  t.equal(warned('log', { metadata: { a: "${req.method == 'get' ? 1 : 2}" } }), 1)
  t.equal(warned('set-vars', { vars: [{ a: "x ${req.version == 'HTTP/2'}" }] }), 1)
  const limit = { name: 'a', algorithm: 'sliding_window', capacity: 1, rate: '60s' }
  t.equal(warned('rate-limit', { ...limit, bucket_key: ["req.method == 'get' ? 'a' : 'b'"] }), 1)
  t.equal(warned('rate-limit', { ...limit, bucket_key: ["req.method == 'GET' ? 'a' : 'b'"] }), 0)
})

/** Numbers of a linear congruential generator: the same in each run. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

t.test('no value of a request is outside of the set of its variable, however the request is written', async (t) => {
  const random = generator(11)
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
  const visible = Array.from({ length: 94 }, (_, i) => String.fromCharCode(0x21 + i))
  const pieces = [
    '/',
    '//',
    '.',
    '..',
    '/./',
    '/../',
    ';',
    '%2e',
    '%2F',
    '%5c',
    '%41',
    '%C3%A9',
    '%c0%af',
    '?',
    '&',
    '=',
    'a',
    'Z9',
    '~'
  ]
  const hosts = ['app.test', 'APP.Test:8443', '[2001:DB8::1]', '192.0.2.1:80', 'a_b.test.', 'x~1.test']
  const texts = Object.keys(VARIABLE_TEXTS).filter((path) => path.startsWith('req.') && !/[[{]/.test(path))
  const compiled = texts.map((path) => {
    const made = expressions.expression(path, 'on_http_request')
    if (!made.ok) throw new Error(path)
    return {
      path,
      expression: made.value,
      values: VARIABLE_TEXTS[path] as NonNullable<(typeof VARIABLE_TEXTS)[string]>
    }
  })
  let held = 0
  for (let i = 0; i < 4_000; i++) {
    const target = `/${Array.from({ length: Math.floor(random() * 9) }, () => pick(random() < 0.7 ? pieces : visible)).join('')}`
    const host = RequestTarget.fromRequestLine('GET', target, pick(hosts), 'https')?.authority
    if (host === undefined) continue
    const type = pick(['text/HTML; charset=utf-8', 'application/json', ' a ; b', '', 'Caf\u00e9'])
    const flow = sampleFlow({
      method: pick(METHODS.filter((one) => one !== 'CONNECT')),
      target,
      host,
      headers: ['Content-Type', type.trim(), 'User-Agent', pick(['curl/8', 'a b', ''])]
    })
    const { request } = flow
    if (request === undefined) throw new Error('there is a request')
    for (const form of ['lenient', 'strict'] as const) {
      const formed = request.target.in(form)
      if (typeof formed === 'string') continue
      request.target = formed
      for (const { path, expression, values } of compiled) {
        const value = expression.evaluate(flow) as string
        if (!isPossible(values, 'whole', value, form === 'strict')) t.fail(`${path} of ${target} is ${value}`)
        held++
      }
    }
  }
  t.ok(held > 50_000, String(held))
  for (const [method, part] of [
    ['start', '/a'],
    ['end', '.php'],
    ['part', '/x/'],
    ['pattern', '^/[a-z]+/?$']
  ] as const) {
    t.ok(isPossible(VARIABLE_TEXTS['req.url.path'] as never, method, part, true))
  }
})

t.test('a value that is found at once is one that the search through all values finds', async (t) => {
  const regexOf = (pattern: string): Regex => {
    const made = compileRegex(pattern)
    if (!made.ok) throw new Error(made.message)
    return made.regex
  }
  const places = [
    ['start', (text: string) => `^${quotedPattern(text)}`],
    ['end', (text: string) => `${quotedPattern(text)}$`],
    ['part', quotedPattern]
  ] as const
  const sets = new Map(Object.values(VARIABLE_TEXTS).map((values) => [values.pattern, values]))
  const literals = ['a', 'A', '/a b', '.php', '/../', '', ' ', 'https://x.test/', 'x.test:80', '127.0.', 'é', '?']
  const counts = { true: 0, false: 0 }
  for (const [pattern, values] of sets) {
    const all = regexOf(pattern)
    for (const literal of literals) {
      for (const [as, wanted] of places) {
        const possible = sharesText(all, regexOf(wanted(literal))) !== false
        t.equal(isPossible(values, as, literal), possible, `${as} ${JSON.stringify(literal)} of ${pattern}`)
        counts[`${possible}`]++
      }
    }
  }
  t.ok(counts.true > 200 && counts.false > 200, JSON.stringify(counts))
})
