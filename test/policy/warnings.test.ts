import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { checkFile } from '../../src/cli/check-files.js'
import type { Problem } from '../../src/policy/problems.js'
import { loggedWarning, policyWarnings } from '../../src/policy/warnings/codes.js'
import { warningKinds } from '../../src/policy/warnings/registry.js'
import { Kit } from '../features/kit.js'
import { projectFile } from '../helpers/files.js'

const kit = new Kit()
const DENY = { type: 'deny' }
const LOG = { type: 'log', config: { metadata: { a: 'b' } } }
const ANSWER = { type: 'custom-response', config: { status_code: 200 } }
const STRIP = { type: 'remove-headers', config: { headers: ['x-user'] } }
const CLIENT = { 'X-User': '${conn.tls.client.subject.common_name}' }
const redirect = (from: string | undefined, to: string) => ({ type: 'redirect', config: { from, to } })
const rewrite = { type: 'url-rewrite', config: { from: '/a', to: '/b' } }
const forward = (on_error?: string) => ({
  type: 'forward-internal',
  config: { url: 'https://shop.internal', ...(on_error === undefined ? {} : { on_error }) }
})
const limit = (name: string, capacity = 1) => ({
  type: 'rate-limit',
  config: { name, algorithm: 'sliding_window', capacity, rate: '60s', bucket_key: ['conn.client_ip'] }
})
const keyed = (...bucket_key: string[]) => ({
  type: 'rate-limit',
  config: { name: 'a', algorithm: 'sliding_window', capacity: 1, rate: '60s', bucket_key }
})
const VARS = { type: 'set-vars', config: { vars: [{ plan: 'free' }] } }
const headers = (added: object) => ({ type: 'add-headers', config: { headers: added } })
const login = (auth_id: string, provider = 'google') => ({ type: 'oauth', config: { provider, auth_id } })
const replacing = (from: string, to: string) => ({
  type: 'request-body-find-replace',
  config: { replacements: [{ from, to }] }
})

/** A rule whose expressions are the texts, and whose actions are the rest. */
function rule(...parts: (string | object)[]) {
  const expressions = parts.filter((part) => typeof part === 'string')
  return { expressions, actions: parts.filter((part) => typeof part === 'object') }
}

interface Sample {
  readonly is: string
  readonly on_http_request?: readonly object[]
  readonly on_tcp_connect?: readonly object[]
  readonly on_http_response?: readonly object[]
  /** Where it is, with a part of what is said; absent: nothing is said. */
  readonly at?: string
  readonly says?: RegExp
}

const HTTP = 'on_http_request'
const shadowed = (is: string, first: object, second: object, ...between: object[]): Sample => ({
  is,
  on_http_request: [first, ...between, second],
  at: `${HTTP}[${between.length + 1}]`,
  says: /^this rule never runs: the rule on_http_request\[0\] in line \d+ matches every request/
})
const apart = (is: string, ...rules: object[]): Sample => ({ is, on_http_request: rules })
const condition = (is: string, expression: string, says?: RegExp): Sample => ({
  is,
  on_http_request: [rule(expression, LOG)],
  ...(says === undefined ? {} : { at: `${HTTP}[0].expressions[0]`, says })
})

/** What each kind says, and what is near to it and right. */
const SAMPLES: Readonly<Record<string, readonly Sample[]>> = {
  RULE_FAILS_OPEN: [
    {
      is: 'a header that may be absent, and the safe form',
      on_http_request: [rule("req.headers['x-token'][0] != 's3cret'", DENY)],
      at: `${HTTP}[0].expressions[0]`,
      says: /write !\('x-token' in req\.headers\) \|\| req\.headers\['x-token'\]\[0\] != 's3cret', or put strict_expressions: true/
    },
    apart('the safe form', rule("!('x-token' in req.headers) || req.headers['x-token'][0] != 's3cret'", DENY)),
    apart('what is only let pass', rule("req.headers['x-token'][0] != 's3cret'", LOG))
  ],
  RULE_NEVER_MATCHES: [
    {
      is: 'two methods at once',
      on_http_request: [rule("req.method == 'GET'", "req.method == 'POST'", DENY)],
      at: `${HTTP}[0].expressions[1]`,
      says: /^no request has both req\.method == 'GET' and req\.method == 'POST'.* one expression with \|\|$/
    },
    condition('in one expression', "req.host == 'a.test' && req.host == 'b.test'", /no request has both/),
    condition('under a negation', "!(req.host != 'a.test' || req.host != 'b.test')", /is true for no request/),
    condition('two beginnings', "req.url.path.startsWith('/a/') && req.url.path.startsWith('/b/')", /no request/),
    condition('two ends', "req.host.endsWith('.a.test') && req.host.endsWith('.b.test')", /no request/),
    condition('a host that a list lacks', "req.host in ['a.test', 'b.test'] && req.host == 'c.test'", /no request/),
    condition('a header that cannot be both', "req.headers['x'][0] == 'a' && 'b' == req.headers['x'][0]", /no request/),
    condition('what is no part', "req.url.path == '/a' && req.url.path.contains('/b/')", /no request/),
    condition('nothing', 'false', /because its expression is true for no request/),
    condition('an empty list', 'req.method in []', /req\.method in \[\] is true for no request/),
    condition('numbers', '1 > 2', /1 > 2 is true for no request/),
    condition('either method', "req.method == 'GET' || req.method == 'POST'"),
    condition('a beginning within another', "req.url.path.startsWith('/a') && req.url.path.startsWith('/a/b')"),
    condition('a beginning and an end', "req.url.path.startsWith('/a') && req.url.path.endsWith('.js')"),
    condition('two parts', "req.url.path.contains('a') && req.url.path.contains('b')"),
    condition('two headers', "req.headers['x'][0] == 'a' && req.headers['y'][0] == 'b'"),
    condition('two values of one header', "'a' in req.headers['x'] && 'b' in req.headers['x']"),
    condition('chance', 'rand.double() == 0.5 && rand.double() == 0.7')
  ],
  CONDITION_ALWAYS_TRUE: [
    condition('one of two differs', "req.method != 'GET' || req.method != 'POST'", /every request; .* write &&$/),
    condition(
      'of a list',
      "!(req.host in ['a.test']) || !(req.host in ['b.test'])",
      /^this condition is true for every/
    ),
    condition('what has an empty beginning', "req.url.path.startsWith('')", /true for every request$/),
    condition('numbers', '1 < 2', /true for every request$/),
    condition(
      'of a value that may be absent',
      "req.headers['x'][0] != 'a' || req.headers['x'][0] != 'b'",
      /true for every request that has what it compares; .* write &&$/
    ),
    condition('neither', "req.method != 'GET' && req.method != 'POST'"),
    condition('of two variables', "req.method != 'GET' || req.host != 'a.test'"),
    condition('said by those who mean it', 'true'),
    condition('a part that is not always there', "!req.url.path.contains('/')")
  ],
  LITERAL_NEVER_EQUAL: [
    {
      is: 'a method in lower case',
      on_http_request: [rule("req.method == 'delete'", LOG)],
      at: `${HTTP}[0].expressions[0]`,
      says: /^req\.method is never 'delete': .*; write 'DELETE'$/
    },
    {
      is: 'in a template',
      on_http_request: [rule({ type: 'log', config: { metadata: { a: "${req.version == 'HTTP/2'}" } } })],
      at: `${HTTP}[0].actions[0].config.metadata.a`,
      says: /write 'HTTP\/2\.0'$/
    },
    apart('the method', rule("req.method == 'DELETE'", DENY))
  ],
  RULE_UNREACHABLE: [
    {
      is: 'behind a rule without conditions, once',
      on_http_request: [rule(DENY), rule("req.method == 'GET'", LOG), rule(LOG)],
      at: `${HTTP}[1]`,
      says: /^this rule and those after it never run: .* has no condition, and its deny ends on_http_request/
    },
    {
      is: 'behind what is always true',
      on_http_request: [rule('true', forward()), rule(LOG)],
      at: `${HTTP}[1]`,
      says: /its forward-internal ends/
    },
    {
      is: 'of connections',
      on_tcp_connect: [rule(DENY), rule(LOG)],
      at: 'on_tcp_connect[1]',
      says: /its deny ends on_tcp_connect/
    },
    apart('behind a rule with a condition', rule("req.method == 'GET'", DENY), rule(LOG)),
    apart('behind a rule whose condition may have no value', rule("!(vars.x == 'a' && vars.x == 'b')", LOG), rule(LOG)),
    apart('behind an action that goes on when it fails', rule(forward('continue')), rule(LOG)),
    apart('behind one that ends only sometimes', rule(limit('a')), rule(LOG)),
    { is: 'in another phase', on_http_request: [rule(DENY)], on_http_response: [rule(LOG)] }
  ],
  RULE_SHADOWED: [
    shadowed('one host', rule("req.host == 'a.test'", DENY), rule("req.host == 'a.test'", LOG)),
    shadowed('a host of a list', rule("req.host in ['a.test', 'b.test']", DENY), rule("req.host == 'b.test'", LOG)),
    shadowed(
      'a host of either',
      rule("req.host == 'a.test' || 'b.test' == req.host", DENY),
      rule("req.host == 'b.test'", LOG)
    ),
    shadowed('below a domain', rule("req.host.endsWith('.a.test')", forward()), rule("req.host == 'x.a.test'", LOG)),
    shadowed(
      'below a narrower domain',
      rule("req.host.endsWith('.a.test')", DENY),
      rule("req.host.endsWith('.b.a.test')", LOG)
    ),
    shadowed('below a path', rule("req.url.path.startsWith('/api')", DENY), rule("req.url.path == '/api/users'", LOG)),
    shadowed(
      'below a narrower path',
      rule("req.url.path.startsWith('/api/')", DENY),
      rule("req.url.path.startsWith('/api/users/')", LOG)
    ),
    shadowed('a part', rule("req.url.path.contains('admin')", DENY), rule("req.url.path.startsWith('/admin/')", LOG)),
    shadowed(
      'a path of one host',
      rule("req.host == 'a.test'", ANSWER),
      rule("req.host == 'a.test' && req.url.path == '/x'", LOG),
      rule("req.host == 'b.test'", DENY),
      rule("req.method == 'PUT'", rewrite, LOG, ANSWER)
    ),
    shadowed('all others', rule("req.host != 'a.test'", DENY), rule("req.host == 'b.test'", LOG)),
    shadowed(
      'a host or a path',
      rule("req.host == 'a.test' || req.url.path == '/a' || req.method == 'PUT' && conn.client_ip == '10.0.0.1'", DENY),
      rule("req.method == 'GET' && req.url.path == '/a'", LOG)
    ),
    apart(
      'one side that asks for more',
      rule("req.host == 'a.test' && req.method == 'GET' || req.url.path == '/a'", DENY),
      rule("req.host == 'a.test'", LOG)
    ),
    shadowed(
      'the same address',
      rule("inCidrRange(conn.client_ip, '10.0.0.0/8')", DENY),
      rule("inCidrRange(conn.client_ip, '10.0.0.0/8') && req.method == 'GET'", LOG)
    ),
    apart(
      'the narrower one first',
      rule("req.url.path == '/api/users'", DENY),
      rule("req.url.path.startsWith('/api')", LOG)
    ),
    apart('another host', rule("req.host == 'a.test'", DENY), rule("req.host == 'b.test'", LOG)),
    apart('a path beside it', rule("req.url.path.startsWith('/api/')", DENY), rule("req.url.path == '/apis'", LOG)),
    apart('one that does not end', rule("req.host == 'a.test'", LOG), rule("req.host == 'a.test'", DENY)),
    apart('one that ends only sometimes', rule("req.host == 'a.test'", limit('a')), rule("req.host == 'a.test'", LOG)),
    shadowed(
      'a host of a rule that is a thousand rules away',
      rule("req.host == 'a.test'", DENY),
      rule("req.host == 'a.test' && req.method == 'GET'", LOG),
      ...Array.from({ length: 1_000 }, (_, i) => rule(`req.host == 'b${i}.test'`, DENY))
    ),
    apart(
      'one with a condition more',
      rule("req.host == 'a.test'", "req.method == 'GET'", DENY),
      rule("req.host == 'a.test'", LOG)
    ),
    apart(
      'a host that has changed',
      rule("req.host == 'a.test'", DENY),
      rule(headers({ Host: 'a.test' })),
      rule("req.host == 'a.test'", LOG)
    ),
    apart(
      'a path that has changed',
      rule("req.url.path == '/b'", DENY),
      rule(rewrite),
      rule("req.url.path == '/b'", LOG)
    ),
    apart('what an action publishes', rule("vars.x == 'a'", DENY), rule("vars.x == 'a'", LOG)),
    apart(
      'headers, which actions may change',
      rule("req.headers['x'][0] == 'a'", DENY),
      rule("req.headers['x'][0] == 'a'", LOG)
    ),
    apart('chance', rule('rand.double() < 0.5', DENY), rule('rand.double() < 0.5', LOG)),
    {
      is: 'what TLS says, which begins in between',
      on_tcp_connect: [
        rule("conn.tls.sni == 'a.test'", DENY),
        rule({ type: 'terminate-tls' }),
        rule("conn.tls.sni == 'a.test'", LOG)
      ]
    }
  ],
  ACTION_UNREACHABLE: [
    {
      is: 'behind an action that ends the phase',
      on_http_request: [rule("req.method == 'GET'", DENY, LOG)],
      at: `${HTTP}[0].actions[1].type`,
      says: /^log can never run, because deny before it always ends the phase$/
    },
    {
      is: 'behind one that halts',
      on_http_request: [rule("req.method == 'GET'", forward(), LOG)],
      at: `${HTTP}[0].actions[1].type`,
      says: /because forward-internal before it/
    },
    apart('behind one that goes on when it fails', rule("req.method == 'GET'", forward('continue'), LOG)),
    apart('before it', rule("req.method == 'GET'", LOG, DENY))
  ],
  GROUP_MISSING: [
    {
      is: 'a redirect to a group that its pattern lacks',
      on_http_request: [rule(redirect('^https://([^/]+)/(.*)$', 'https://b.test/$3'))],
      at: `${HTTP}[0].actions[0].config.to`,
      says: /^the pattern has no group for \$3, which is replaced by an empty text/
    },
    {
      is: 'a name that no group has',
      on_http_request: [rule(redirect('^https://(?P<host>[^/]+)/', 'https://$<name>.b.test/'))],
      at: `${HTTP}[0].actions[0].config.to`,
      says: /no group for \$<name>/
    },
    {
      is: 'a group without a pattern',
      on_http_request: [rule(redirect(undefined, '/login/$1'))],
      at: `${HTTP}[0].actions[0].config.to`,
      says: /^without a pattern in from, \$1 is no group and stays as it is written/
    },
    {
      is: 'a rewrite',
      on_http_request: [rule({ type: 'url-rewrite', config: { from: '^/a/.*$', to: '/b/$1' } })],
      at: `${HTTP}[0].actions[0].config.to`,
      says: /no group for \$1/
    },
    {
      is: 'the text of a body',
      on_http_request: [rule(replacing('secret', '$1'))],
      at: `${HTTP}[0].actions[0].config.replacements[0].to`,
      says: /no group for \$1/
    },
    {
      is: 'a group as another program writes it',
      on_http_request: [rule(replacing('a(b)', 'c\\1'))],
      at: `${HTTP}[0].actions[0].config.replacements[0].to`,
      says: /^"\\1" is no reference to a group here; write \$1$/
    },
    {
      is: 'a group in braces',
      on_http_request: [rule(replacing('a(b)', '${1}${2}'))],
      at: `${HTTP}[0].actions[0].config.replacements[0].to`,
      says: /no group for \$<2>/
    },
    apart('a group that is there', rule(redirect('^https://([^/]+)/(.*)$', 'https://b.test/$2'))),
    apart('the whole match', rule(redirect('^https://[^/]+/', '$0?a'))),
    apart('a name that is there', rule(redirect('^https://(?P<host>[^/]+)/', 'https://$<host>.b.test/'))),
    apart('a dollar', rule(redirect('^https://a', 'https://b.test/$$1'))),
    apart('an expression', rule(redirect('^https://a', 'https://${req.host}/'))),
    apart('a pattern that traffic makes', rule(redirect('^https://${req.host}/', 'https://b.test/$1')))
  ],
  LIMIT_NAME_REPEATED: [
    {
      is: 'in two rules',
      on_http_request: [rule(limit('api')), rule("req.method == 'PUT'", limit('api', 5))],
      at: `${HTTP}[1].actions[0].config.name`,
      says: /^a limit in line \d+ is called "api" too: they share nothing/
    },
    {
      is: 'in one rule',
      on_http_request: [rule(limit('api'), limit('api', 5))],
      at: `${HTTP}[0].actions[1].config.name`,
      says: /is called "api" too/
    },
    apart('two names', rule(limit('api'), limit('Api'))),
    apart('the name of something else', rule(limit('api'), { type: 'log', config: { metadata: { name: 'api' } } }))
  ],
  LIMIT_KEY_SHARED: [
    {
      is: 'a key of the API',
      on_http_request: [rule(keyed("req.headers['x-api-key'][0]"))],
      at: `${HTTP}[0].actions[0].config.bucket_key[0]`,
      says: /^clients without req\.headers\['x-api-key'\] share one bucket.*the expression 'x-api-key' in req\.headers; .*bucket_key: \[req\.headers\['x-api-key'\]\[0\], conn\.client_ip\]$/
    },
    {
      is: 'a list that is empty without it',
      on_http_request: [rule(keyed("getReqHeader('x-api-key')"))],
      at: `${HTTP}[0].actions[0].config.bucket_key[0]`,
      says: /the expression hasReqHeader\('x-api-key'\); /
    },
    {
      is: 'beside what many share',
      on_http_request: [rule(keyed('req.host', "req.url.query_params['key'][0]"))],
      at: `${HTTP}[0].actions[0].config.bucket_key[1]`,
      says: /the expression 'key' in req\.url\.query_params; /
    },
    {
      is: 'a cookie',
      on_http_request: [rule("hasReqHeader('cookie')", keyed("getReqCookie('sid').value"))],
      at: `${HTTP}[0].actions[0].config.bucket_key[0]`,
      says: /the expression hasReqCookie\('sid'\); /
    },
    {
      is: 'a variable that no rule before has set',
      on_http_request: [rule("req.method == 'PUT'", VARS), rule(keyed('vars.plan'))],
      at: `${HTTP}[1].actions[0].config.bucket_key[0]`,
      says: /the expression has\(vars\.plan\); /
    },
    apart('with the address', rule(keyed("req.headers['x-api-key'][0]", 'conn.client_ip'))),
    apart('the address in its place', rule(keyed("hasReqHeader('x') ? getReqHeader('x')[0] : conn.client_ip"))),
    apart('with a network', rule(keyed("getReqHeader('x')", 'ipPrefix(conn.client_ip, 32, 64)'))),
    apart('asked for', rule("hasReqHeader('x-api-key')", keyed("req.headers['X-API-Key'][0]"))),
    apart('asked for with in', rule("'x-api-key' in req.headers", keyed("getReqHeader('x-api-key')[0]"))),
    apart('set before', rule(VARS), rule(keyed('vars.plan'))),
    apart('set before in the rule', rule(VARS, keyed('vars.plan'))),
    apart(
      'left by a login',
      rule({ type: 'basic-auth', config: { credentials: ['alice:password1'] } }),
      rule(keyed("req.headers['authorization'][0]"))
    ),
    apart('what is always there', rule(keyed('req.host', 'req.user_agent')))
  ],
  HEADER_FORGEABLE: [
    {
      is: 'what the certificate of the client says',
      on_http_request: [rule(headers(CLIENT))],
      at: `${HTTP}[0].actions[0].config.headers.X-User`,
      says: /^a client can send "X-User" itself/
    },
    apart('removed before', rule(STRIP), rule(headers(CLIENT)))
  ],
  LOGIN_AMBIGUOUS: [
    {
      is: 'one auth_id of two logins',
      on_http_request: [rule("req.host == 'a.test'", login('a')), rule("req.host == 'b.test'", login('a', 'github'))],
      at: `${HTTP}[1].actions[0].config.auth_id`,
      says: /has the same auth_id/
    },
    apart('two of them', rule("req.host == 'a.test'", login('a')), rule("req.host == 'b.test'", login('b')))
  ]
}

const CODES = Object.keys(policyWarnings)
/** Of what a document relies on around it. */
const AROUND = ['UNIT_MISSING', 'LIMIT_KEY_IPV6', 'LIMIT_WINDOW_SHORT']

function told(document: Sample): readonly Problem[] {
  const { is: _, at: _at, says: _says, ...phases } = document
  const { problems } = kit.compile(phases)
  t.same(
    problems.filter(({ severity }) => severity === 'error'),
    [],
    document.is
  )
  return problems.filter(({ code }) => CODES.includes(code))
}

t.test('each kind warns of what it is about, and of nothing that is near to it', async (t) => {
  for (const [code, samples] of Object.entries(SAMPLES)) {
    for (const sample of samples) {
      const found = told(sample).filter((problem) => problem.code === code)
      const title = `${code}: ${sample.is}`
      t.same(
        found.map(({ path }) => path),
        sample.at === undefined ? [] : [sample.at],
        title
      )
      if (sample.says !== undefined) t.match(found[0]?.message, sample.says, title)
      for (const { line, column, length } of found) t.ok(line >= 1 && column >= 1 && length >= 1, title)
    }
  }
})

t.test('every code of the table has a sample that warns and one that does not', async (t) => {
  for (const { warning } of warningKinds) t.ok(SAMPLES[warning.code], `the kind ${warning.code} has samples`)
  // What the configuration around a document has is asked where there is one.
  for (const code of CODES.filter((one) => !AROUND.includes(one))) {
    const samples = SAMPLES[code] ?? []
    t.ok(samples.some(({ at }) => at !== undefined) && samples.some(({ at }) => at === undefined), code)
  }
})

t.test('strict_expressions makes absence an error, so that nothing fails open; the other kinds stay', async (t) => {
  const rules = [rule("req.headers['x-token'][0] != 's3cret'", DENY), rule(DENY), rule(LOG)]
  const codes = (document: object) => kit.compile(document).problems.map(({ code }) => code)
  t.same(codes({ on_http_request: rules }), ['RULE_FAILS_OPEN', 'RULE_UNREACHABLE'])
  t.same(codes({ strict_expressions: true, on_http_request: rules }), ['RULE_UNREACHABLE'])
})

t.test('a document with errors is not judged: what is wrong in it may be what is missed', async (t) => {
  const open = rule("actions.ngrok.oauth.identity.email != 'a@b.test'", DENY)
  const right = { type: 'oauth', config: { provider: 'google' } }
  const wrong = { type: 'oauth', config: { provider: 'no such provider' } }
  const codes = (action: object) =>
    kit.compile({ on_http_request: [rule(action), open] }).problems.map(({ code }) => code)
  t.same(codes(right), [])
  t.notOk(codes(wrong).includes('RULE_FAILS_OPEN'))
  t.ok(codes(LOG).includes('RULE_FAILS_OPEN'))
})

t.test('the log says what is wrong without the text of the document', async (t) => {
  const { problems } = kit.compile({
    on_http_request: [
      rule("req.headers['x-token'][0] != 's3cret'", DENY),
      rule("req.host == 's3cret'", "req.host == 'another'", redirect('a', 's3cret$1')),
      rule("'s3cret' != 'b'", limit('s3cret'), limit('s3cret')),
      rule("req.url.path == '/s3cret'", DENY),
      rule(
        "req.url.path == '/s3cret'",
        headers({ 'x-s3cret': '${conn.tls.client.subject.common_name}' }),
        forward(),
        LOG
      ),
      rule({ type: 'forward-internal', config: { url: 'https://s3cret.test' } })
    ]
  })
  const codes = new Set(problems.map(({ code }) => code))
  t.ok(codes.size >= 9, [...codes].join(' '))
  t.ok(problems.filter(({ message }) => message.includes('s3cret')).length >= 5, 'a message may show it')
  for (const problem of problems) {
    t.notMatch(loggedWarning(problem), 's3cret')
    t.match(loggedWarning(problem), /^a /)
  }
})

/** What `sluice check` says of a document, or of a site file. */
async function codesOf(t: Test, text: string): Promise<string[]> {
  const document = parse(text) as object
  if (!('sites' in document)) return kit.compile(document).problems.map(({ code }) => code)
  const { findings } = await checkFile(join(t.testdir({ 'site.yaml': text }), 'site.yaml'), {})
  return findings.flatMap(({ problems }) => problems.map(({ code }) => code))
}

t.test('the page about warnings has an example of each that warns, and one that does not', async (t) => {
  const page = readFileSync(projectFile('docs/policy-warnings.md'), 'utf8')
  const sections = new Map(
    page
      .split(/^## /m)
      .slice(1)
      .map((section) => [section.slice(0, section.indexOf('\n')), section])
  )
  t.same([...sections.keys(), 'UNIT_MISSING'].sort(), [...CODES].sort())
  for (const code of CODES) t.ok(page.includes(`\`${code}\``), `the table has ${code}`)
  for (const [code, section] of sections) {
    const examples = [...section.matchAll(/```yaml\n(.*?)```/gs)].map(([, text]) => text as string)
    // One after the other: a test has one folder.
    const found: string[][] = []
    for (const text of examples) found.push(await codesOf(t, text))
    t.same(found, [[code], []], code)
  }
})
