import { createRequire } from 'node:module'
import t from 'tap'
import { documentedVariables } from '../../src/expression/catalogue.js'
import { EvaluationError } from '../../src/expression/expression.js'
import type { Phase } from '../../src/flow/flow.js'
import { noGeo, openGeo } from '../../src/lib/geo.js'
import { UserAgents } from '../../src/lib/user-agent.js'
import { fixture } from '../helpers/files.js'
import { type FlowOptions, START, sampleExpressions, sampleFlow } from './sample-flow.js'

const expressions = sampleExpressions()

/** The value of `source` as JSON data; the kind of the error when there is none. */
function value(
  source: string,
  options: FlowOptions = {},
  phase: Phase = 'on_http_response',
  language = expressions
): unknown {
  const compiled = language.expression(source, phase)
  if (!compiled.ok) return compiled.problems.map(({ code, message }) => `${code} ${message}`).join()
  try {
    return language.dataOf(compiled.value.evaluate(sampleFlow(options)))
  } catch (error) {
    if (error instanceof EvaluationError) return error.kind
    throw error
  }
}

t.test('every variable can be read without TLS, database or body', async (t) => {
  const sources = {
    results: {},
    clock: { wall: () => START, monotonic: () => 0 },
    geo: noGeo,
    userAgent: new UserAgents()
  }
  const variables = documentedVariables(sources)
  const flow = sampleFlow({ response: {} })
  for (const { path, optional, read } of variables) {
    t.ok(optional === true || read(flow) !== undefined, `${path} has a value`)
    const compiled = expressions.expression(path, 'on_http_response')
    t.ok(compiled.ok, `${path} compiles`)
    if (compiled.ok) t.same([...compiled.value.variables], [path], `${path} is one variable`)
  }
  t.equal(variables.length, 189, 'all documented paths are there, and vars')
})

t.test('the request target is a text with members', async (t) => {
  const options = { target: '/api/a%20b?debug=true&Page=1&Page=2', host: 'user.test:8443' }
  const table: Record<string, unknown> = {
    'req.url': 'https://user.test:8443/api/a%20b?debug=true&Page=1&Page=2',
    "req.url.contains('debug')": true,
    'req.url.authority': 'user.test:8443',
    'req.url.host': 'user.test',
    'req.url.port': 8443,
    'req.url.path': '/api/a%20b',
    'req.url.query': 'debug=true&Page=1&Page=2',
    'req.url.uri': '/api/a%20b?debug=true&Page=1&Page=2',
    'req.url.scheme': 'https',
    "req.url.query_params['debug'][0]": 'true',
    "req.url.query_params['Page']": ['1', '2'],
    "getQueryParam('Page')": ['1', '2'],
    "getQueryParam('page')": [],
    "hasQueryParam('debug') && !hasQueryParam('Debug')": true,
    'req.method': 'GET',
    'req.version': 'HTTP/1.1',
    'req.host': 'user.test:8443',
    'req.ts.header_received': '2026-11-20T12:30:15.005Z',
    'req.ts.body_received': 'absent'
  }
  for (const [source, expected] of Object.entries(table)) t.same(value(source, options), expected, source)
  t.equal(value('req.url.port'), 'absent', 'a port that is not written is absent')
  t.equal(value('has(req.url.port)'), false)
  t.equal(value("has(req.url.query_params['debug'])", options), true)
  t.equal(value('req.url.raw_path', { target: '/a/../b?x' }), '/a/../b', 'the raw path is not normalised')
  t.equal(value('req.url.path', { target: '/a/../b?x' }), '/b')
})

t.test('headers are looked up in any case and only by names that came', async (t) => {
  const options = {
    headers: [
      'X-User',
      'bob',
      'Accept-Encoding',
      'gzip, br',
      'x-user',
      'eve',
      'Content-Type',
      'Text/HTML; charset="utf-8"; q=1'
    ],
    body: new Uint8Array(12)
  }
  const table: Record<string, unknown> = {
    "req.headers['x-user']": ['bob', 'eve'],
    "req.headers['X-USER'][1]": 'eve',
    "'X-User' in req.headers": true,
    "'x-nope' in req.headers": false,
    "req.headers['x-nope']": 'absent',
    "req.headers['x-user'][2]": 'absent',
    "req.headers[req.method == 'GET' ? 'X-User' : 'x'][0]": 'bob',
    "req.headers.exists(name, name == 'x-user')": true,
    "getReqHeader('X-User')": ['bob', 'eve'],
    "getReqHeader('x-nope')": [],
    "hasReqHeader('ACCEPT-ENCODING')": true,
    'req.content_type': 'text/html',
    "req.content_type.parameters['charset']": 'utf-8',
    'req.content_type.raw': 'Text/HTML; charset="utf-8"; q=1',
    'req.content_length': 12,
    'req.content_encoding': []
  }
  for (const [source, expected] of Object.entries(table)) t.same(value(source, options), expected, source)
})

t.test('a change of the headers is seen by the next expression', async (t) => {
  const compiled = expressions.expression("req.headers['x'][0] + string(size(req.headers))", 'on_http_request')
  if (!compiled.ok) throw new Error('refused')
  const flow = sampleFlow({ headers: ['X', '1'] })
  t.equal(compiled.value.evaluate(flow), '12')
  flow.request?.headers.set('X', '2')
  flow.request?.headers.append('Y', '3')
  t.equal(compiled.value.evaluate(flow), '23')
})

t.test('cookies of requests keep their order, cookies of responses go by path', async (t) => {
  const request = { headers: ['Cookie', 'a=1; b="two"; a=3; __proto__=x; novalue'] }
  t.same(value("req.cookies['a'].map(c, c.value)", request), ['1', '3'])
  t.equal(value("getReqCookie('b').value", request), 'two')
  t.equal(value("getReqCookie('__proto__').value", request), 'x')
  t.equal(value("getReqCookie('constructor').value", request), 'absent')
  t.equal(value("hasReqCookie('toString')", request), false)
  const response = {
    response: {
      headers: [
        'Set-Cookie',
        's=short; Path=/',
        'Set-Cookie',
        's=long; Path=/deep/er; HttpOnly; Secure; SameSite=Lax; Max-Age=90; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Priority=High'
      ]
    }
  }
  const table: Record<string, unknown> = {
    "getResCookie('s').value": 'long',
    "res.cookies['s'].map(c, c.path)": ['/deep/er', '/'],
    "getResCookie('s').http_only && getResCookie('s').secure": true,
    "getResCookie('s').same_site": 'Lax',
    "getResCookie('s').max_age == duration('90s')": true,
    "getResCookie('s').expires == timestamp('2026-10-21T07:28:00Z')": true,
    "getResCookie('s').unparsed_attributes": { Priority: 'High' },
    "hasResCookie('t')": false
  }
  for (const [source, expected] of Object.entries(table)) t.same(value(source, response), expected, source)
})

t.test('the response has a length only while it is known', async (t) => {
  const body = new Uint8Array(7)
  const options = { response: { status: 404, headers: ['Location', '/x', 'Content-Encoding', 'gzip , br'], body } }
  t.equal(value('res.status_code', options), 404)
  t.equal(value('res.location', options), '/x')
  t.same(value('res.content_encoding', options), ['gzip', 'br'])
  t.equal(value('res.content_length', options), 7)
  t.equal(value('res.content_length', { response: {} }), 'absent')
  t.same(value("getResHeader('location')", options), ['/x'])
})

t.test('connection, endpoint and time', async (t) => {
  const table: Record<string, unknown> = {
    'conn.client_ip': '198.51.100.7',
    "conn.client_ip in ['198.51.100.7']": true,
    'conn.client_port': 40_001,
    'conn.server_ip': '192.0.2.10',
    'conn.server_port': 8443,
    'conn.server_region': 'eu',
    'conn.bytes_in': 120,
    'conn.bytes_out': 30,
    'conn.ts.start': '2026-11-20T12:30:15Z',
    'endpoint.id': 'edge_1',
    'endpoint.addr': 'app.test:443',
    'endpoint.url': 'https://app.test',
    'endpoint.port': 443,
    'endpoint.protocol': 'https',
    'time.now': '2026-11-20T12:30:15Z',
    'timestamp(time.now).getFullYear()': 2026,
    'conn.tls.sni': '',
    'conn.tls.client.subject.organization': [],
    'conn.tls.client.validity.not_after': 'absent'
  }
  for (const [source, expected] of Object.entries(table)) t.same(value(source), expected, source)
  t.equal(value('conn.server_ip', { connection: { local: { address: '::ffff:127.0.0.1', port: 1 } } }), '127.0.0.1')
  t.equal(value('endpoint.url', { entry: { port: 8443 } }), 'https://app.test:8443')
})

t.test('a client certificate is read in full', async (t) => {
  const { clientCertificate, pem } = await certificate()
  const tls = {
    version: 'TLSv1.3',
    cipher: 'TLS_AES_128_GCM_SHA256',
    sni: 'app.test',
    alpn: 'h2',
    resumed: false,
    clientCertificate
  }
  const options = { connection: { tls } }
  const table: Record<string, unknown> = {
    'conn.tls.version': '1.3',
    'conn.tls.negotiated_alpn': 'h2',
    'conn.tls.client.subject': 'CN=client\\, one,OU=Ops,O=Example,L=Zürich,C=CH',
    'conn.tls.client.subject.common_name': 'client, one',
    'conn.tls.client.subject.locality': ['Zürich'],
    'conn.tls.client.issuer.organization': ['Example'],
    'conn.tls.client.san':
      'DNS:a.test, IP Address:192.0.2.1, email:ops@a.test, URI:spiffe://a/b, IP Address:2001:db8::1',
    'conn.tls.client.san.dns_names': ['a.test'],
    'conn.tls.client.san.ip_addresses': ['192.0.2.1', '2001:db8::1'],
    'conn.tls.client.san.uris': ['spiffe://a/b'],
    'conn.tls.client.san.email_addresses': ['ops@a.test'],
    'conn.tls.client.serial_number': '1234abcd',
    'conn.tls.client.signature_algorithm': 'ECDSA-SHA256',
    "conn.tls.client.extensions.exists(e, e.id == '2.5.29.17' && !e.critical)": true,
    'conn.tls.client.validity.not_after > conn.tls.client.validity.not_before': true,
    'conn.tls.client.pem': pem
  }
  for (const [source, expected] of Object.entries(table)) t.same(value(source, options), expected, source)
  const broken = { connection: { tls: { ...tls, clientCertificate: clientCertificate.subarray(0, 60) } } }
  t.equal(value('conn.tls.client.subject', broken), '', 'a broken certificate is an empty one')
})

async function certificate(): Promise<{ clientCertificate: Uint8Array; pem: string }> {
  const { readFile } = await import('node:fs/promises')
  const pem = await readFile(fixture('expression/client.pem'), 'utf8')
  const base64 = pem.replace(/-----[^-]+-----|\s/g, '')
  return { clientCertificate: new Uint8Array(Buffer.from(base64, 'base64')), pem }
}

t.test('what actions published is read by declared type, flat or nested, under both names', async (t) => {
  const run = (source: string, publish: boolean) => {
    const compiled = expressions.expression(source, 'on_http_request')
    if (!compiled.ok) return compiled.problems.map(({ message }) => message).join()
    const flow = sampleFlow()
    if (publish) {
      flow.publish('rate_limit', { limited: true, remaining: 4, 'error.code': '' })
      flow.publish('basic_auth', { credentials: { presented: true, username: 'bob' } })
      flow.publish('http_request', { res: { status_code: 200, headers: { 'x-a': ['1'] } } })
    }
    try {
      return expressions.dataOf(compiled.value.evaluate(flow))
    } catch (error) {
      return (error as EvaluationError).kind
    }
  }
  t.equal(run('actions.service.rate_limit.limited', true), true)
  t.equal(run('actions.ngrok.rate_limit.remaining == 4', true), true)
  t.equal(run('actions.service.rate_limit.error.code', true), '')
  t.equal(run('actions.service.basic_auth.credentials.username', true), 'bob')
  t.same(run('actions.service.basic_auth.credentials', true), { presented: true, username: 'bob' })
  t.equal(
    run(
      "actions.service.http_request.res.status_code == 200 && actions.service.http_request.res.headers['x-a'][0] == '1'",
      true
    ),
    true
  )
  t.equal(run('actions.service.rate_limit.limited', false), 'absent', 'before the action ran')
  t.equal(run('has(actions.service.rate_limit.limited)', false), false)
  t.equal(run('has(actions.ngrok.rate_limit.limited)', true), true)
  t.match(run('actions.service.rate_limit.limted', true), /did you mean actions\.service\.rate_limit\.limited/)
})

t.test('vars are absent until they are set', async (t) => {
  const run = (source: string) => {
    const compiled = expressions.expression(source, 'on_http_request')
    if (!compiled.ok) throw new Error('refused')
    const flow = sampleFlow()
    flow.vars = new Map<string, unknown>([
      ['tier', 'gold'],
      ['map', new Map([['key', 1n]])],
      ['nothing', null]
    ])
    try {
      return compiled.value.evaluate(flow)
    } catch (error) {
      return (error as EvaluationError).kind
    }
  }
  t.equal(run("vars.tier == 'gold'"), true)
  t.equal(run('vars.map.key'), 1n)
  t.equal(run("vars['tier']"), 'gold')
  t.equal(run("has(vars.tier) && !has(vars.other) && 'map' in vars"), true)
  t.equal(run('vars.other'), 'absent')
  t.equal(run('vars.constructor'), 'absent')
  t.equal(run('vars.nothing == null'), true)
})

t.test('the shipped database knows countries and says what it does not know', async (t) => {
  const language = sampleExpressions({ geo: await openGeo() })
  const at = (source: string, client: string) => value(source, { client }, 'on_tcp_connect', language)
  t.equal(at('conn.geo.country_code', '8.8.8.8'), 'US')
  t.equal(at('conn.geo.country', '8.8.8.8'), 'United States')
  t.equal(at('conn.client_ip.geo.location.country_code', '2001:4860:4860::8888'), 'US')
  t.equal(at('conn.client_ip.geo.location.is_eu', '2.16.0.1'), true)
  t.equal(at('conn.geo.country_code', '127.0.0.1'), '')
  const city = language.expression("conn.geo.city == 'Paris'", 'on_tcp_connect')
  t.match(city, { ok: true, warnings: [{ code: 'DATA_UNAVAILABLE', severity: 'warning', start: 0, end: 13 }] })
  t.match(language.expression('conn.geo.country_code', 'on_tcp_connect'), { ok: true, warnings: [] })
  t.match(expressions.expression('conn.geo.country_code', 'on_tcp_connect'), {
    warnings: [{ code: 'DATA_UNAVAILABLE' }]
  })
})

t.test('a database of addresses is read for the first expression that looks something up in it', async (t) => {
  let prepared = 0
  const covers = { country: true, city: false, as: false }
  const language = sampleExpressions({ geo: { covers, prepare: () => prepared++, lookup: noGeo.lookup } })
  language.expression("conn.client_ip == '192.0.2.1' && conn.geo.city == 'Paris'", 'on_tcp_connect')
  t.equal(prepared, 0, 'an address by itself, and what the database does not have')
  language.expression("conn.geo.country_code == 'CH'", 'on_tcp_connect')
  t.equal(prepared, 1)
  language.expression("conn.server_ip.geo.location.is_eu ? 'a' : 'b'", 'on_http_request')
  t.equal(prepared, 2)
})

t.test('what is known of the shipped database before it is read is true', async (t) => {
  const shipped = await openGeo()
  const file = createRequire(import.meta.url).resolve(
    '@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb'
  )
  t.same(shipped.covers, (await openGeo(file)).covers)
  t.equal(await openGeo(), shipped)
})

t.test('user agents', async (t) => {
  const agent = (source: string, header: string) => value(source, { headers: ['User-Agent', header] })
  const phone =
    'Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1'
  const bot = 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)'
  t.equal(agent('req.user_agent', phone), phone)
  t.equal(agent('req.user_agent.is_mobile && !req.user_agent.is_bot', phone), true)
  t.equal(
    agent("req.user_agent.name + ' ' + req.user_agent.os + ' ' + req.user_agent.device", phone),
    'Safari iOS iPhone'
  )
  t.equal(agent('req.user_agent.is_bot', bot), true)
  t.equal(agent('req.user_agent.url', bot), 'http://www.google.com/bot.html')
  t.equal(agent("req.user_agent.name + '/' + req.user_agent.version", 'curl/8.4.0'), 'curl/8.4.0')
  t.equal(value('req.user_agent.is_bot'), false)
})
