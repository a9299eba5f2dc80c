import t from 'tap'
import { Kit, outcomeOf } from '../features/kit.js'
import { makeFlow } from '../helpers/flow.js'

const kit = new Kit()
const DENY = [{ type: 'deny' }]
const GATE = { type: 'http-request', config: { url: 'https://gate.example/' } }

function warnings(rules: readonly object[], more: object = {}): string[] {
  const { problems } = kit.compile({ ...more, on_http_request: rules })
  t.same(
    problems.filter(({ severity }) => severity === 'error'),
    []
  )
  return problems.filter(({ code }) => code === 'RULE_FAILS_OPEN').map(({ message, path }) => `${path}: ${message}`)
}

const warned = (...expressions: string[]) => warnings([{ expressions, actions: DENY }])

function outcome(expressions: string[]): string {
  const { policy } = kit.compile({ on_http_request: [{ expressions, actions: DENY }] })
  const run = policy?.phases.on_http_request
  if (run === null || run === undefined) throw new Error('no rules')
  const verdict = run.run(makeFlow())
  if (verdict instanceof Promise) throw new Error('The phase waits')
  return outcomeOf(verdict)
}

t.test('a denying rule that passes what is absent is warned of, and the form that is shown refuses', async (t) => {
  const open = [
    "req.headers['x-token'][0] != 's3cret'",
    "!(req.headers['x-token'][0] == 's3cret')",
    "!req.headers['x-token'][0].startsWith('Bearer ')",
    "!(req.headers['x-token'][0] in ['a', 'b'])",
    "(req.headers['x-token'][0] + ')') != 'a)'",
    "req.headers['x-token'][0] == ''",
    "req.headers['x-token'] == null",
    "size(req.headers['x-token']) == 0",
    "req.headers['x-token'].size() < 2",
    "!req.headers['x-roles'].exists(role, role == 'admin')",
    "getReqHeader('X-Token')[0] != 's3cret'",
    "req.url.query_params.token[0] != 's3cret'",
    "req.cookies['session'][0].value != 'a'",
    "getReqCookie('session').value != 'a'",
    "req.method == 'GET' && vars.plan != 'paid'",
    "req.method == 'GET' ? vars.plan != 'paid' : false",
    '!vars.allowed',
    '(vars.allowed == true) == false',
    "!(vars.a == 'x' || vars.b == 'y')",
    'actions.service.http_request.res.status_code != 200',
    '!(actions.ngrok.http_request.res.status_code == 200)',
    "!('admin' in actions.service.jwt_validation.tokens[0].payload.roles)",
    'req.url.port > 1024'
  ]
  for (const expression of open) {
    const found = warned(expression)
    t.equal(found.length, 1, expression)
    t.equal(outcome([expression]), 'goes on', `${expression} without the value`)
    const safe = /write (.*), or put strict_expressions/.exec(found[0] ?? '')?.[1] ?? 'none'
    const whole = safe.startsWith('(') && expression.includes(' && ') ? `req.method == 'GET' && ${safe}` : safe
    t.equal(outcome([whole]), '403 POLICY_DENIED', whole)
    t.same(warned(whole), [], whole)
    t.same(warnings([{ expressions: [expression], actions: DENY }], { strict_expressions: true }), [])
  }
})

t.test('what matches only a value that is there, or asks for it, is no matter for a warning', async (t) => {
  const closed = [
    ["req.headers['x-bad'][0] == 'evil'"],
    ["req.url.query_params['debug'][0] == 'true'"],
    ["req.headers['x-bad'][0].contains('evil')"],
    ["!(req.headers['x-bad'][0] != 'evil')"],
    ["size(req.headers['x-many']) > 5"],
    ["!('x-token' in req.headers)"],
    ["!hasReqHeader('x-token')"],
    ["!('X-Token' in req.headers) || req.headers['x-token'][0] != 's3cret'"],
    ["has(req.headers['x-token'])", "req.headers['x-token'][0] != 's3cret'"],
    ["hasReqHeader('x-token') && getReqHeader('x-token')[0] != 's3cret'"],
    ["size(getReqHeader('x')) == 0 || getReqHeader('x')[0] != 'a'"],
    ["getReqHeader('x') == [] || getReqHeader('x')[0] != 'a'"],
    ['!has(actions.service.http_request.res) || actions.service.http_request.res.status_code != 200'],
    ["!has(vars.plan) || vars.plan != 'paid'"],
    ["req.method != 'GET'"],
    ["!req.url.path.startsWith('/public')"],
    ["conn.geo.country_code != 'DE'"],
    ["!(req.user_agent.is_bot == true) && req.host != 'a'"]
  ]
  for (const expressions of closed) t.same(warned(...expressions), [], expressions.join(', '))
})

t.test('an earlier action that has left the value needs no question', async (t) => {
  const open = { expressions: ['actions.service.http_request.res.status_code != 200'], actions: DENY }
  const halting = { ...GATE, config: { ...GATE.config, on_error: 'halt' } }
  t.equal(warnings([{ actions: [GATE] }, open]).length, 1, 'a request may have no answer')
  t.same(warnings([{ actions: [halting] }, open]), [], 'one that halts has')
  const error = { expressions: ["actions.service.http_request.error.code != ''"], actions: DENY }
  t.same(warnings([{ actions: [GATE] }, error]), [])
  t.equal(warnings([{ expressions: ["req.method == 'PUT'"], actions: [halting] }, open]).length, 1, 'not always')
  const put = { ...open, expressions: ["req.method == 'PUT'", ...open.expressions] }
  t.same(warnings([{ expressions: [" req.method == 'PUT'"], actions: [halting] }, put]), [], 'whenever it matters')
  t.equal(warnings([open, { actions: [halting] }]).length, 1, 'not afterwards')
  const plan = { expressions: ["vars.plan != 'paid'"], actions: DENY }
  const set = { actions: [{ type: 'set-vars', config: { vars: [{ plan: 'free' }] } }] }
  t.same(warnings([set, plan]), [])
  const login = (more: object) => ({ actions: [{ type: 'oauth', config: { provider: 'google', ...more } }] })
  const stranger = { expressions: ["!actions.ngrok.oauth.identity.email.endsWith('@a.example')"], actions: DENY }
  t.same(warnings([login({}), stranger]), [])
  t.equal(warnings([login({ allow_cors_preflight: true }), stranger]).length, 1, 'a preflight has no identity')
})

t.test('only a rule that denies can fail open', async (t) => {
  const expressions = ["vars.plan != 'paid'"]
  const answer = (status_code: number) => ({ type: 'custom-response', config: { status_code } })
  const listed = (enforce: boolean) => ({ type: 'restrict-ips', config: { allow: ['192.0.2.1'], enforce } })
  for (const [action, count] of [
    [answer(403), 1],
    [answer(200), 0],
    [{ type: 'close-connection' }, 1],
    [{ type: 'redirect', config: { to: '/login' } }, 1],
    [listed(true), 1],
    [listed(false), 0],
    [{ type: 'log', config: { metadata: { a: 'b' } } }, 0]
  ] as const) {
    t.equal(warnings([{ expressions, actions: [action] }]).length, count, JSON.stringify(action))
  }
  const [found = ''] = warnings([{ expressions, actions: [{ type: 'close-connection' }] }])
  t.match(found, /^on_http_request\[0\]\.expressions\[0\]: when vars\.plan is absent, .* close-connection lets/)
})
