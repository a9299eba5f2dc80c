import t from 'tap'
import { actions } from '../../src/features/registry.js'
import { resultsOf } from '../../src/policy/action.js'
import { Kit } from './kit.js'

const kit = new Kit()

/** Problems besides the warning that the action cannot run yet. */
function problems(type: string, config: unknown, phase: Parameters<Kit['problems']>[2] = 'on_http_request'): string[] {
  return kit.problems(type, config, phase).filter((problem) => !problem.includes('cannot run in this version'))
}

const jwt = {
  issuer: { allow_list: [{ value: 'https://issuer.test/' }] },
  audience: { allow_list: [{ value: 'https://api.test' }] },
  http: { tokens: [{ type: 'jwt', method: 'header', name: 'Authorization', prefix: 'Bearer ' }] },
  jws: { allowed_algorithms: ['RS256'], keys: { sources: { additional_jkus: ['https://issuer.test/jwks.json'] } } }
}
const oidc = { issuer_url: 'https://idp.test', client_id: 'id', client_secret: 'secret', scopes: ['openid'] }

t.test('every action stands in the list once, in order, and says what it publishes', async (t) => {
  const types = actions.map((action) => action.type)
  t.same(types, [...new Set(types)].sort())
  for (const action of actions) {
    for (const wrong of (action.availability === 'ready' && action.misnamed) || []) {
      t.notOk(types.includes(wrong), wrong)
      const [said = ''] = new Kit().problems(wrong, undefined)
      t.ok(said.endsWith(`; did you mean "${action.type}"?`), said)
    }
  }
  const results = resultsOf(actions)
  t.equal(results.compress?.negotiated_algorithm, 'string')
  t.equal(results.oidc?.['identity.email'], 'string')
})

t.test('actions that are refused by name say why', async (t) => {
  for (const type of ['saml', 'ai-gateway']) {
    t.match(kit.problems(type, { anything: 1 }), [/^error ACTION_UNSUPPORTED .*type: .{20,}/], type)
  }
})

t.test('what is documented is accepted', async (t) => {
  const good: readonly (readonly [string, unknown, Parameters<Kit['problems']>[2]?])[] = [
    ['circuit-breaker', undefined],
    [
      'circuit-breaker',
      {
        error_threshold: 0,
        volume_threshold: 1,
        window_duration: '1s',
        tripped_duration: '2m',
        num_buckets: 10,
        enforce: false
      }
    ],
    ['circuit-breaker', { error_threshold: 1.0, volume_threshold: 2_000_000_000, window_duration: '1m30s' }],
    ['forward-internal', { url: 'https://api.internal', on_error: 'continue' }],
    ['forward-internal', { url: 'http://api.internal:8080/' }],
    ['forward-internal', { url: 'tcp://${conn.tls.sni}:443' }, 'on_tcp_connect'],
    ['forward-internal', { url: 'https://${req.host.split(".")[0]}.internal' }],
    [
      'http-request',
      {
        url: 'https://id.internal/${req.method}',
        method: 'POST',
        body: '{"a": "${req.host}"}',
        timeout: '30s',
        max_redirects: 10,
        on_error: 'halt'
      }
    ],
    [
      'http-request',
      {
        url: 'https://id.internal',
        query_params: [{ key: 'k', value: '${req.host}' }],
        headers: { 'x-a': '${req.host}' },
        retry_condition: 'attempts < 2 && last_attempt.res.status_code == 500'
      },
      'on_http_response'
    ],
    ['jwt-validation', jwt],
    [
      'jwt-validation',
      { ...jwt, jws: { ...jwt.jws, keys: [{ ...jwt.jws.keys, identification: { token_claims: ['kid'] } }] } }
    ],
    ['oauth', { provider: 'google' }],
    [
      'oauth',
      {
        provider: 'github',
        auth_id: 'a',
        client_id: 'x',
        client_secret: "${secrets.get('vault', 'password')}",
        scopes: ['a'],
        authz_url_params: { prompt: 'login' },
        max_session_duration: '336h',
        idle_session_timeout: '15m',
        userinfo_refresh_interval: '5m',
        allow_cors_preflight: true,
        auth_cookie_domain: 'a.test',
        email_domains: ['a.test']
      }
    ],
    ['openid-connect', oidc],
    ['openid-connect', { issuer_url: 'https://idp.test', idle_session_duration: '1h' }],
    [
      'request-body-find-replace',
      { replacements: [{ from: '(a)', to: '$1' }, { from: 'b' }, { from: '${req.host}', to: '' }] }
    ],
    ['response-body-find-replace', { replacements: [{ from: 'a', to: '${res.status_code}' }] }, 'on_http_response'],
    [
      'sse-find-replace',
      {
        replacements: [
          { field: 'data', from: 'a' },
          { field: 'retry', from: 'b' }
        ]
      },
      'on_event_stream_message'
    ],
    ['terminate-tls', undefined, 'on_tcp_connect'],
    [
      'terminate-tls',
      {
        min_version: 1.2,
        max_version: '1.3',
        mutual_tls_certificate_authorities: ['ca_1', "${secrets.get('vault', 'password')}"],
        mutual_tls_verification_strategy: 'require-any'
      },
      'on_tcp_connect'
    ],
    ['verify-webhook', { provider: 'github', secret: "${secrets.get('vault', 'password')}", enforce: false }],
    ['verify-webhook', { provider: 'sns' }]
  ]
  for (const [type, config, phase] of good)
    t.same(problems(type, config, phase), [], `${type} ${JSON.stringify(config)}`)
})

t.test('what is not is refused at its place', async (t) => {
  const bad: readonly (readonly [string, unknown, RegExp, Parameters<Kit['problems']>[2]?])[] = [
    ['circuit-breaker', { error_threshold: 1.1 }, /error_threshold/],
    ['circuit-breaker', { volume_threshold: 0 }, /volume_threshold/],
    ['circuit-breaker', { window_duration: '121s' }, /window_duration/],
    ['circuit-breaker', { rolling_window: '10s' }, /rolling_window/],
    ['forward-internal', {}, /url/],
    ['forward-internal', { url: 'api.internal' }, /config\.url/],
    ['forward-internal', { url: 'https://a/b' }, /config\.url/],
    ['forward-internal', { url: 'https://a', on_error: 'ignore' }, /on_error/],
    ['forward-internal', { url: 'https://${nope.x}' }, /EXPRESSION_UNKNOWN .*config\.url/],
    ['http-request', { url: '/relative' }, /config\.url/],
    ['http-request', { url: 'https://a', method: 'BREW' }, /config\.method/],
    ['http-request', { url: 'https://a', timeout: '31s' }, /config\.timeout/],
    ['http-request', { url: 'https://a', max_redirects: 101 }, /max_redirects/],
    ['http-request', { url: 'https://a', headers: { 'content-length': '1' } }, /content-length/],
    ['http-request', { url: 'https://a', query_params: [{ key: '', value: '' }] }, /query_params\[0\]\.key/],
    [
      'http-request',
      { url: 'https://a', query_params: [{ key: 'k'.repeat(129), value: '' }] },
      /query_params\[0\]\.key/
    ],
    [
      'http-request',
      { url: 'https://a', query_params: [{ key: 'k', value: 'v'.repeat(8193) }] },
      /query_params\[0\]\.value/
    ],
    ['jwt-validation', { ...jwt, issuer: { allow_list: [] } }, /issuer\.allow_list/],
    [
      'jwt-validation',
      { ...jwt, http: { tokens: [{ type: 'jwt', method: 'query', name: 'a' }] } },
      /tokens\[0\]\.method/
    ],
    ['jwt-validation', { ...jwt, jws: { ...jwt.jws, allowed_algorithms: ['none'] } }, /allowed_algorithms\[0\]/],
    ['jwt-validation', { ...jwt, jws: { allowed_algorithms: ['RS256'] } }, /keys/],
    ['jwt-validation', { ...jwt, jws: { ...jwt.jws, keys: [] } }, /keys/],
    ['oauth', { provider: 'myspace' }, /config\.provider/],
    ['oauth', { provider: 'google', client_id: 'x' }, /client_id: client_id needs client_secret/],
    ['oauth', { provider: 'google', client_secret: 'x' }, /client_secret: client_secret needs client_id/],
    ['openid-connect', { client_id: 'x', client_secret: 'y' }, /issuer_url/],
    ['openid-connect', { issuer_url: 'idp.test' }, /issuer_url/],
    ['openid-connect', { ...oidc, idle_session_duration: '1m', idle_session_timeout: '1m' }, /idle_session_duration/],
    ['request-body-find-replace', { replacements: [] }, /replacements/],
    ['request-body-find-replace', { replacements: [{ from: 'a(?!b)' }] }, /REGEX_INVALID .*replacements\[0\]\.from/],
    ['request-body-find-replace', { replacements: [{ from: 'a', field: 'data' }] }, /field/],
    [
      'sse-find-replace',
      { replacements: [{ from: 'a', field: 'event' }] },
      /replacements\[0\]\.field/,
      'on_event_stream_message'
    ],
    ['terminate-tls', { min_version: '1.4' }, /min_version/, 'on_tcp_connect'],
    ['terminate-tls', { min_version: '1.3', max_version: '1.2' }, /min_version/, 'on_tcp_connect'],
    ['terminate-tls', { server_certificate: 'PEM' }, /server_certificate/, 'on_tcp_connect'],
    ['terminate-tls', {}, /ACTION_PHASE/],
    ['verify-webhook', { provider: 'github' }, /secret is required/],
    ['verify-webhook', { provider: 'githubb', secret: 'x' }, /did you mean "github"/],
    ['verify-webhook', { provider: 'github', secret: '' }, /secret/]
  ]
  for (const [type, config, expected, phase] of bad) {
    const found = problems(type, config, phase)
    t.match(found, [/^error /], `${type} ${JSON.stringify(config).slice(0, 100)}: ${found.join()}`)
    t.match(found[0], expected)
  }
})

t.test('doubtful documents are warned of', async (t) => {
  t.match(problems('oidc', oidc), [/^warning ACTION_RENAMED .*openid-connect/])
  t.match(problems('oauth', { provider: 'google', scopes: ['a'] }), [/^warning CONFIG_UNUSED .*scopes/])
  t.match(problems('oauth', { provider: 'amazon' }), [/^warning CONFIG_INCOMPLETE .*provider/])

  t.match(problems('terminate-tls', { min_version: '1.0' }, 'on_tcp_connect'), [
    /^warning ACTION_UNAVAILABLE .*min_version.*RFC 8996/
  ])
  t.match(problems('forward-internal', { url: '<URL here>' }), [/^warning PLACEHOLDER .*config\.url/])
  t.match(problems('openid-connect', { issuer_url: 'YOUR_ISSUER' }), [/^warning PLACEHOLDER .*config\.issuer_url/])
  t.match(problems('openid-connect', { issuer_url: 'https://<tenant>.test' }), [/^warning PLACEHOLDER /])
  for (const [provider, right] of [
    ['vmware_workspace', 'vmware'],
    ['launch-darkly', 'launch_darkly'],
    ['launchdarkly', 'launch_darkly'],
    ['teams', 'microsoft_teams'],
    ['facebook', 'facebook_graph_api or facebook_messenger']
  ] as const) {
    const found = problems('verify-webhook', { provider, secret: 'x' })
    t.match(found, [/^warning PROVIDER_RENAMED .*config\.provider/], provider)
    t.ok(found[0]?.includes(right), found[0] ?? provider)
  }
})

t.test('blanks of examples are warned of, and such a policy never runs', async (t) => {
  const google = { provider: 'google' }
  const blanks: [string, object, RegExp, Parameters<Kit['problems']>[2]?][] = [
    ['restrict-ips', { allow: ['OFFICE_IP'] }, /PLACEHOLDER .*allow\[0\]/],
    ['restrict-ips', { allow: ['0.0.0.0/0'], deny: ['MY-NETWORK/24'] }, /PLACEHOLDER .*deny\[0\]/],
    ['restrict-ips', { ip_policies: ['OFFICE'] }, /PLACEHOLDER .*ip_policies\[0\]/],
    ['oauth', { ...google, client_id: '...' }, /PLACEHOLDER .*client_id/],
    ['oauth', { ...google, client_id: '...', client_secret: '...' }, /PLACEHOLDER .*client_id/],
    ['oauth', { ...google, client_id: 'a', client_secret: '<secret>' }, /PLACEHOLDER .*client_secret/],
    ['openid-connect', { ...oidc, client_id: '$CLIENT_ID' }, /PLACEHOLDER .*client_id/],
    ['openid-connect', { ...oidc, issuer_url: 'ISSUER_URL' }, /PLACEHOLDER .*issuer_url/],
    ['http-request', { url: 'AUTH_URL' }, /PLACEHOLDER .*url/],
    ['forward-internal', { url: '<URL here>' }, /PLACEHOLDER .*url/],
    ['terminate-tls', { mutual_tls_certificate_authorities: ['YOUR_CA'] }, /PLACEHOLDER/, 'on_tcp_connect']
  ]
  for (const [type, config, expected, phase = 'on_http_request'] of blanks) {
    const found = problems(type, config, phase)
    t.match(found, [expected], `${type} ${JSON.stringify(config)}`)
    t.match(found, [/^warning /], `${type} ${JSON.stringify(config)}`)
    const document = { [phase]: [{ actions: [{ type, config }] }] }
    t.equal(kit.compile(document).policy, undefined, `${type} ${JSON.stringify(config)} does not run`)
    const refused = kit.compile(document, 'route:1', 'refuse').problems
    t.match(refused, [{ severity: 'error', code: 'PLACEHOLDER' }], `${type} is refused where it would run`)
  }
  for (const entry of ['office_ip', 'Office', '10.0.0.256', 'X']) {
    const severity = entry === 'X' ? 'warning' : 'error'
    t.match(problems('restrict-ips', { allow: [entry] }), [new RegExp(`^${severity} `)], entry)
  }
  t.same(problems('oauth', { ...google, client_id: 'MYAPP', client_secret: 'a...b' }), [], 'may be the values')
})

t.test('one authority of clients needs no list around it', async (t) => {
  const one = { mutual_tls_certificate_authorities: 'ca_abc', mutual_tls_verification_strategy: 'require-any' }
  t.match(problems('terminate-tls', one, 'on_tcp_connect'), [/^warning LIST_EXPECTED .*a list of one/])
  const document = { on_tcp_connect: [{ actions: [{ type: 'terminate-tls', config: one }] }] }
  t.ok(kit.compile(document).policy, 'and it runs')
  const broken = { mutual_tls_certificate_authorities: '-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----' }
  t.match(problems('terminate-tls', broken, 'on_tcp_connect'), [
    /^warning LIST_EXPECTED/,
    /^warning CONFIG_INVALID .*the authority cannot be used/
  ])
})

t.test('of an action that is refused by name, nothing else is told', async (t) => {
  for (const action of actions) {
    if (action.availability !== 'unsupported') continue
    const result = `actions.service.${action.type.replaceAll('-', '_')}`
    const expressions = [`${result}.decision == 'deny' || size(${result}.list) > 0`]
    const body = `\${${result}.decision}`
    const rule = { expressions, actions: [{ type: 'custom-response', config: { body } }] }
    const beside = {
      on_http_request: [{ actions: [{ type: action.type, config: { a: 1 } }] }],
      on_http_response: [rule]
    }
    t.match(kit.compile(beside).problems, [{ code: 'ACTION_UNSUPPORTED' }], action.type)
    // A module of the route publishes them in its place.
    if (action.results !== undefined) continue
    const alone = kit.compile({ on_http_response: [rule] }).problems
    t.equal(alone.length, 3, action.type)
    for (const { message } of alone) t.match(message, new RegExp(`: the action ${action.type} is not supported$`))
  }
})

t.test('a part of jwt-validation that would check nothing is refused', async (t) => {
  const keys = { sources: jwt.jws.keys.sources }
  for (const [config, place] of [
    [{ ...jwt, jws: { ...jwt.jws, keys: { ...keys, identification: {} } } }, /identification\.token_claims/],
    [{ ...jwt, jws: { ...jwt.jws, keys: { ...keys, identification: { token_claims: [] } } } }, /token_claims/],
    [{ ...jwt, jws: { ...jwt.jws, keys: { ...keys, identification: [] } } }, /identification/]
  ] as const) {
    t.match(problems('jwt-validation', config), [place])
    t.match(problems('jwt-validation', config), [/^error CONFIG_INVALID/])
  }
})
