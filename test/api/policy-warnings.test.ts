import t from 'tap'
import { account } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
import { make, openAccount } from './account.js'

const DOUBTFUL = JSON.stringify({
  on_http_request: [
    { expressions: ["req.headers['x-token'][0] != 's3cret'"], actions: [{ type: 'deny' }] },
    {
      actions: [
        { type: 'restrict-ips', config: { allow: ['0.0.0.0/0'], ip_policies: ['ipp_nothing'] } },
        { type: 'http-request', config: { url: 'https://gate.internal/' } },
        { type: 'add-headers', config: { headers: { 'x-key': "${secrets.get('main', 'key')}" } } },
        { type: 'forward-internal', config: { url: 'https://shop.internal' } }
      ]
    }
  ]
})

t.test('a write tells the warnings of its policy and what it names that is not there', async (t) => {
  const { ask } = await openAccount(t)
  const { id } = await make(ask, '/edges/https', { hostports: ['app.test:443'] })
  const { id: route, warnings: none } = await make(ask, `/edges/https/${id}/routes`, { match: '/' })
  t.equal(none, undefined, 'nothing to tell')
  const path = `/edges/https/${id}/routes/${route}/traffic_policy`
  const put = { method: 'PUT', body: { value: DOUBTFUL } }
  const dry = await ask(`${path}?dry_run=true`, put)
  const { json, status } = await ask(path, put)
  t.equal(status, 200)
  t.same(dry.json.warnings, json.warnings)
  t.notOk('warnings' in dry.json.body)
  const place = (warning: { code: string; path: string }) => `${warning.code} ${warning.path}`
  t.same(json.warnings.map(place).sort(), [
    'RULE_FAILS_OPEN on_http_request[0].expressions[0]',
    'UNIT_MISSING on_http_request[1].actions[0].config.ip_policies[0]',
    'UNIT_MISSING on_http_request[1].actions[1].config.url',
    'UNIT_MISSING on_http_request[1].actions[2].config.headers.x-key',
    'UNIT_MISSING on_http_request[1].actions[3].config.url'
  ])
  const messages = json.warnings.map(({ message }: { message: string }) => message).join('\n')
  for (const name of ['ipp_nothing', 'gate.internal', 'shop.internal', '"key"', '"main"']) t.match(messages, name)
  for (const { line, column } of json.warnings) t.ok(line === 1 && column > 1)
  t.notOk('warnings' in (await ask(path)).json, 'they belong to the write')
})

t.test('what is there is not missed', async (t) => {
  const { ask } = await openAccount(t)
  const policy = await make(ask, '/ip_policies')
  const vault = await make(ask, '/vaults', { name: 'main' })
  await make(ask, '/vault_secrets', { name: 'key', value: 'canary', vault_id: vault.id })
  for (const host of ['gate', 'shop']) {
    const inside = await make(ask, '/edges/https', { hostports: [`${host}.internal:443`] })
    await make(ask, `/edges/https/${inside.id}/routes`, { match: '/' })
  }
  const { id } = await make(ask, '/edges/https', { hostports: ['app.test:443'] })
  const value = DOUBTFUL.replace('ipp_nothing', policy.id)
  const { warnings } = await make(ask, `/edges/https/${id}/routes`, { match: '/', traffic_policy: { value } })
  t.same(
    warnings.map(({ code }: { code: string }) => code),
    ['RULE_FAILS_OPEN']
  )
})

t.test('all errors of a document are told at once', async (t) => {
  const { ask } = await openAccount(t)
  const { id } = await make(ask, '/edges/https')
  const { id: route } = await make(ask, `/edges/https/${id}/routes`, { match: '/' })
  const value =
    'on_http_request:\n  - expressions: ["req.nothing"]\n    actions:\n      - type: denny\n      - type: deny\n        config: { status_code: 1 }\n'
  const path = `/edges/https/${id}/routes/${route}/traffic_policy`
  const { status, json } = await ask(path, { method: 'PUT', body: { value } })
  t.equal(status, 400)
  t.equal(json.error_code, 'ERR_SLUICE_POLICY_EXPRESSION_UNKNOWN')
  t.match(json.problems, [
    { error_code: 'ERR_SLUICE_POLICY_EXPRESSION_UNKNOWN', field: 'value', line: '2' },
    { error_code: 'ERR_SLUICE_POLICY_ACTION_UNKNOWN', field: 'value', line: '4', msg: /denny/ },
    { error_code: 'ERR_SLUICE_POLICY_CONFIG_INVALID', field: 'value', line: '6' }
  ])
  t.equal(json.problems.length, 3)
  t.match(json.details.also, /line 4, column 15: .*denny.*; value line 6/)
  for (const part of [json.details, ...json.problems]) for (const text of Object.values(part)) t.type(text, 'string')
  const single = await ask(path, { method: 'PUT', body: { value: 'on_http_request: 1' } })
  t.notOk('problems' in single.json)
})

const rule = (expressions: string[], ...actions: object[]) => ({ expressions, actions })
const DENY = { type: 'deny' }
const limit = {
  type: 'rate-limit',
  config: { name: 'api', algorithm: 'sliding_window', capacity: 1, rate: '60s', bucket_key: ['conn.client_ip'] }
}

/** A policy with each of the traps, and the codes in its order. */
const TRAPS = {
  on_http_request: [
    rule(["req.headers['x-token'][0] != 's3cret-0'"], DENY),
    rule(["req.host == 'b'", "req.host == 's3cret-1'"], DENY),
    rule(["req.host != 'a' || req.host != 's3cret-2'"], limit, limit),
    rule(["req.host == 's3cret-3'"], { type: 'redirect', config: { from: 's3cret-4', to: 's3cret-5/$1' } }),
    rule(["req.url.path.startsWith('/s3cret-6')"], DENY),
    rule(["req.url.path == '/s3cret-6/x'"], DENY, { type: 'log', config: { metadata: { a: 's3cret-7' } } }),
    rule([], DENY),
    rule([], DENY)
  ]
}
const CODES = [
  'RULE_FAILS_OPEN',
  'RULE_NEVER_MATCHES',
  'CONDITION_ALWAYS_TRUE',
  'LIMIT_NAME_REPEATED',
  'GROUP_MISSING',
  'RULE_SHADOWED',
  'ACTION_UNREACHABLE',
  'RULE_UNREACHABLE'
]

const codesOf = (warnings: readonly { code: string }[]) => warnings.map(({ code }) => code)

t.test('every write that makes a policy serve is answered with its warnings, and the dry run of it', async (t) => {
  const { ask } = await openAccount(t)
  const { id } = await make(ask, '/edges/https', { hostports: ['app.test:443'] })
  const routes = `/edges/https/${id}/routes`
  const traffic_policy = { value: JSON.stringify(TRAPS) }
  const good = { value: JSON.stringify({ on_http_request: [rule(["req.method == 'PUT'"], DENY)] }) }
  const posted = { method: 'POST', body: { match: '/', traffic_policy } }
  const dry = await ask(`${routes}?dry_run=true`, posted)
  t.same([dry.status, dry.json.status_code, codesOf(dry.json.warnings)], [200, 201, CODES])
  const created = await ask(routes, posted)
  t.same([created.status, created.json.warnings], [201, dry.json.warnings])
  const path = `${routes}/${created.json.id}`
  const patch = (body: object, query = '') => ask(`${path}${query}`, { method: 'PATCH', body })
  t.notOk('warnings' in (await patch({ description: 'another' })).json, 'the policy is the same')
  t.notOk('warnings' in (await patch({ traffic_policy: good })).json, 'nothing is doubtful')
  t.same(codesOf((await patch({ traffic_policy }, '?dry_run=true')).json.warnings), CODES)
  t.same(codesOf((await patch({ traffic_policy })).json.warnings), CODES)
  t.notOk('warnings' in (await patch({ traffic_policy })).json, 'it serves already')

  const strict = { value: JSON.stringify({ strict_expressions: true, ...TRAPS }) }
  t.same(codesOf((await patch({ traffic_policy: strict })).json.warnings), CODES.slice(1))
  t.equal((await ask(path, { method: 'DELETE' })).status, 204)
  const last = (await ask('/revisions?limit=1')).json.revisions[0].id
  const tried = await ask(`/revisions/${last}/revert?dry_run=true`, { method: 'POST' })
  t.same(codesOf(tried.json.warnings), CODES.slice(1))
  const reverted = await ask(`/revisions/${last}/revert`, { method: 'POST' })
  t.same([reverted.status, codesOf(reverted.json.warnings)], [200, CODES.slice(1)])

  const connections = { on_tcp_connect: [rule([], DENY), rule([], DENY)] }
  const tcp = { value: JSON.stringify(connections) }
  const edge = await make(ask, '/edges/tcp', { traffic_policy: tcp })
  t.same(codesOf(edge.warnings), ['RULE_UNREACHABLE'])
})

t.test('the log has each warning once, with its place and without the text of the document', async (t) => {
  const { ask, logged } = await openAccount(t)
  const { id } = await make(ask, '/edges/https', { hostports: ['app.test:443'] })
  const body = { match: '/', traffic_policy: { value: JSON.stringify(TRAPS) } }
  const before = logged.length
  await ask(`/edges/https/${id}/routes?dry_run=true`, { method: 'POST', body })
  t.equal(logged.length, before, 'what was not written is not logged')
  const { id: route } = await make(ask, `/edges/https/${id}/routes`, body)
  const lines = logged.slice(before).filter(({ message }) => message.startsWith('a policy: '))
  t.same(codesOf(lines.map(({ fields }) => fields as { code: string })), CODES)
  t.match(lines[0]?.fields, {
    source: `/edges/https/${id}/routes/${route}/traffic_policy`,
    path: 'on_http_request[0].expressions[0]',
    line: 1,
    column: Number,
    operation: /^op_/,
    revision: Number
  })
  t.match(lines[0]?.message, /^a policy: a rule that denies does not match when a value is absent/)
  t.notMatch(JSON.stringify(logged), /s3cret/)
})

t.test('the description of the API has warnings where answers have them', async (t) => {
  const { ask } = await openAccount(t)
  const { schemas } = (await ask('/openapi.json')).json.components
  const named = ['HttpsEdgeRoute', 'HttpsEdgeRouteTrafficPolicy', 'TcpEdge', 'RevisionReverted', 'DryRun']
  for (const name of named) {
    t.match(
      schemas[name].properties.warnings,
      { type: 'array', items: { $ref: '#/components/schemas/PolicyWarning' } },
      name
    )
    t.notOk(schemas[name].required?.includes('warnings'), `${name}: only with a doubt`)
  }
  t.notOk('warnings' in schemas.HttpsEdge.properties, 'it has no policy')
  t.notOk('warnings' in schemas.HttpsEdgeRouteCreate.properties, 'no request has them')
  t.same(schemas.PolicyWarning.required, ['code', 'message', 'path', 'line', 'column'])
})

t.test('a limit for each address is told where a listener takes IPv6', async (t) => {
  const text = JSON.stringify({ on_http_request: [rule([], limit)] })
  for (const [listen, codes] of [
    ['127.0.0.1:0', []],
    ['[::1]:0', []],
    ['[::]:0', ['LIMIT_KEY_IPV6']]
  ] as const) {
    const call = account(await startSluice(t, { options: { LISTEN: listen } }))
    const edge = await call('/edges/https', { method: 'POST', body: { hostports: ['app.test:443'] } })
    const body = { match: '/', traffic_policy: { value: text } }
    const { status, json } = await call(`/edges/https/${edge.json.id}/routes`, { method: 'POST', body })
    t.equal(status, 201)
    t.same(codesOf(json.warnings ?? []), codes, listen)
    if (codes.length > 0) t.match(json.warnings[0].message, /use ipPrefix\(conn\.client_ip, 32, 64\)/)
    const checked = await call('/policies/check', { method: 'POST', body: { text } })
    t.same(codesOf(checked.json.problems), codes, `${listen}, checked`)
  }
})

t.test('a rule denies nothing by a path that the form of its edge never has: refused, or right', async (t) => {
  const { ask } = await openAccount(t)
  const value = JSON.stringify({
    on_http_request: [{ expressions: ["req.url.path == '/low%2Fx'"], actions: [{ type: 'deny' }] }]
  })
  const { id } = await make(ask, '/edges/https', { hostports: ['app.test:443'] })
  const routes = `/edges/https/${id}/routes`
  const body = { match: '/', traffic_policy: { value } }
  const form = (path_form: string) => ask(`/edges/https/${id}`, { method: 'PATCH', body: { path_form } })
  for (const strict of ['listener', 'strict']) {
    await form(strict)
    const post = await ask(routes, { method: 'POST', body })
    t.match([post.status, post.text], [400, /POLICY_LITERAL_NEVER_EQUAL/], strict)
  }
  for (const lenient of ['lenient', 'exact']) {
    t.equal((await form(lenient)).status, 200)
    const { id: route, warnings } = await make(ask, routes, body)
    t.equal(warnings, undefined, `nothing is doubtful where the form is ${lenient}`)
    t.match(
      await form('strict'),
      { status: 400, text: /POLICY_LITERAL/ },
      'the edge keeps the form that its policies need'
    )
    t.equal((await ask(`${routes}/${route}`, { method: 'DELETE' })).status, 204)
  }
})
