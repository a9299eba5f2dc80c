import t from 'tap'
import { makeFlow } from '../helpers/flow.js'
import { headersOf, Kit, outcomeOf } from './kit.js'

const kit = new Kit()

t.test('deny answers without a body, with the status that was asked for, and closes on TCP', async (t) => {
  t.equal(outcomeOf(kit.action('deny')(makeFlow())), '403 POLICY_DENIED')
  t.equal(outcomeOf(kit.action('deny', { status_code: 451 })(makeFlow())), '451 POLICY_DENIED')
  t.equal(outcomeOf(kit.action('deny', undefined, 'on_tcp_connect')(makeFlow({ request: false }))), 'close')
  t.match(kit.problems('deny', { status_code: 404 }, 'on_tcp_connect'), [/^warning CONFIG_UNUSED .*status_code/])
  const idle = { on_tcp_connect: [{ actions: [{ type: 'deny', config: { status_code: 404 } }] }] }
  t.match(kit.compile(idle, 'route:1', 'refuse').problems, [{ severity: 'error', code: 'CONFIG_UNUSED' }])
  for (const status_code of [399, 600, 200, 403.5]) {
    t.match(kit.problems('deny', { status_code }), [/^error CONFIG_INVALID .*config\.status_code/], `${status_code}`)
  }
  t.match(kit.problems('deny', undefined, 'on_http_response'), [/^error ACTION_PHASE/])
})

t.test('close-connection closes without an answer', async (t) => {
  t.equal(outcomeOf(kit.action('close-connection')(makeFlow())), 'close')
  t.equal(outcomeOf(kit.action('close-connection', {}, 'on_tcp_connect')(makeFlow({ request: false }))), 'close')
})

t.test('custom-response answers with status, fields and body', async (t) => {
  const verdict = kit.action('custom-response', {
    status_code: 503,
    body: 'Sorry, ${req.method} of ${req.url.path}',
    headers: { 'Retry-After': '${1 + 1}', 'x-static': 'yes' }
  })(makeFlow({ url: 'http://app.example.com/a/b' }))
  t.match(verdict, { kind: 'respond', status: 503 })
  t.equal(verdict?.kind === 'respond' && Buffer.from(verdict.body ?? []).toString(), 'Sorry, GET of /a/b')
  t.same(headersOf(verdict), { 'content-type': 'text/plain; charset=utf-8', 'retry-after': '2', 'x-static': 'yes' })
  t.equal(outcomeOf(verdict), '503 -', 'it is no refusal')
})

t.test('custom-response without a config is an empty 200', async (t) => {
  const verdict = kit.action('custom-response')(makeFlow())
  t.equal(outcomeOf(verdict), '200 -')
  t.same(headersOf(verdict), {})
  t.notOk(verdict?.kind === 'respond' && verdict.body)
})

t.test('custom-response writes the body as UTF-8 and reads the older name content', async (t) => {
  const verdict = kit.action('custom-response', { content: 'Grüße 😀' })(makeFlow())
  t.equal(verdict?.kind === 'respond' && Buffer.from(verdict.body ?? []).toString('utf8'), 'Grüße 😀')
  t.match(kit.problems('custom-response', { content: 'a', body: 'b' }), [/^error CONFIG_INVALID .*config\.content/])
})

t.test('custom-response infers the content type from what the author wrote', async (t) => {
  const flow = makeFlow({ url: 'http://app.example.com/?x=%3Chtml%3E%3Cscript%3E' })
  const cases: readonly (readonly [string, string])[] = [
    ['{"a": 1}', 'application/json'],
    [' {"ip": "${conn.client_ip}"}\n', 'application/json'],
    ['[1, 2]', 'application/json'],
    ['[maintenance]', 'text/plain; charset=utf-8'],
    ['<!DOCTYPE html><p>x</p>', 'text/html; charset=utf-8'],
    ['<html><body>${req.method}</body></html>', 'text/html; charset=utf-8'],
    ['<h1>Down</h1>', 'text/html; charset=utf-8'],
    ['<?xml version="1.0"?><a/>', 'application/xml'],
    ['<note><to>x</to></note>', 'application/xml'],
    ['User-agent: *', 'text/plain; charset=utf-8'],
    ['<3', 'text/plain; charset=utf-8'],
    ["${getQueryParam('x')[0]}", 'text/plain; charset=utf-8']
  ]
  for (const [body, type] of cases) {
    t.equal(headersOf(kit.action('custom-response', { body })(flow))['content-type'], type, body)
  }
  const given = kit.action('custom-response', { body: '{}', headers: { 'Content-Type': 'text/x' } })(flow)
  t.same(headersOf(given), { 'content-type': 'text/x' })
})

t.test(
  'custom-response refuses a body for a status that has none, and statuses that are no final answer',
  async (t) => {
    for (const status_code of [204, 205, 304]) {
      t.match(kit.problems('custom-response', { status_code, body: 'x' }), [/^error CONFIG_INVALID .*config\.body/])
      t.match(kit.problems('custom-response', { status_code, content: '${req.method}' }), [/config\.content/])
      t.same(kit.problems('custom-response', { status_code, body: '' }), [])
    }
    for (const status_code of [99, 100, 101, 199, 600]) {
      t.match(
        kit.problems('custom-response', { status_code }),
        [/^error CONFIG_INVALID .*config\.status_code/],
        `${status_code}`
      )
    }
  }
)

t.test('custom-response takes its status from an expression', async (t) => {
  const flow = makeFlow({ url: 'http://app.example.com/?s=418', response: { status: 404 } })
  const of = (status_code: string, more: object = {}) =>
    kit.action('custom-response', { status_code, ...more }, 'on_http_response')(flow)
  const given: readonly (readonly [string, number])[] = [
    ['${res.status_code == 404 ? 410 : res.status_code}', 410],
    ['res.status_code == 404 ? 410 : res.status_code', 410],
    ["${getQueryParam('s')[0]}", 418],
    ['4${res.status_code == 404 ? 1 : 2}0', 410],
    ['${uint(503)}', 503],
    ['${503.0}', 503],
    ['503', 503]
  ]
  for (const [text, status] of given) t.equal(outcomeOf(of(text, { body: 'x' })), `${status} -`, text)
  for (const text of ['${res.status_code - 300}', '${res.status_code + 200}', '${200.5}', '${req.host}'])
    t.equal(outcomeOf(of(text)), '500 POLICY_EXPRESSION', text)
  const bodiless = of('${204}', { body: 'x', headers: { 'x-a': 'b' } })
  t.same([outcomeOf(bodiless), headersOf(bodiless)], ['204 -', { 'x-a': 'b' }], 'no body, and no type of one')
  for (const text of ['${[200]}', '${true}', 'res.status_code ==', '${nothing.here}']) {
    t.match(kit.problems('custom-response', { status_code: text }), [/^error .*config\.status_code/], text)
  }
})

t.test('several cookies stay several fields, whichever action writes them', async (t) => {
  const cookies = ['a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT', 'b=2']
  const headers = ['Set-Cookie', cookies[0] as string, 'Set-Cookie', cookies[1] as string]
  const given = ["${res.headers['set-cookie']}", "${['a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT', 'b=2']}"]
  for (const value of given) {
    const config = { headers: { 'Set-Cookie': value, 'x-all': value } }
    const flow = makeFlow({ response: { headers } })
    const answer = kit.action('custom-response', config, 'on_http_response')(flow)
    const list = answer?.kind === 'respond' ? answer.headers : []
    t.same(list, ['set-cookie', cookies[0], 'set-cookie', cookies[1], 'x-all', cookies.join(',')], value)
    kit.action('add-headers', config, 'on_http_response')(flow)
    t.same(flow.response?.headers.values('set-cookie'), [...cookies, ...cookies], 'add-headers')
    t.same(kit.read("actions.service.add_headers.headers_added['set-cookie']", flow), cookies.join(','))
  }
  const led = kit.action('redirect', { to: '/x', headers: { 'set-cookie': given[1] as string } })(makeFlow())
  t.same(led?.kind === 'respond' && led.headers.slice(2), ['set-cookie', cookies[0], 'set-cookie', cookies[1]])
  const one = kit.action('custom-response', { headers: { 'set-cookie': 'a=${req.method}' } })(makeFlow())
  t.same(headersOf(one), { 'set-cookie': 'a=GET' })
  const none = kit.action('custom-response', { headers: { 'set-cookie': '${[]}' } })(makeFlow())
  t.same(headersOf(none), {})
  const cut = kit.action('custom-response', { headers: { 'set-cookie': "${['a=1', getQueryParam('x')[0]]}" } })
  t.equal(outcomeOf(cut(makeFlow({ url: 'http://a.test/?x=a%0d%0ab' }))), '500 POLICY_EXPRESSION')
})

t.test('nothing that a client sends becomes another header or another line', async (t) => {
  const run = kit.action('custom-response', { headers: { 'x-echo': "${getQueryParam('x')[0]}" } })
  const url = (text: string) => makeFlow({ url: `http://app.example.com/?x=${text}` })
  t.same(headersOf(run(url('plain'))), { 'x-echo': 'plain' })
  for (const attack of ['a%0d%0aSet-Cookie:%20x=1', 'a%0a', 'a%00b', 'a%7f', 'a%0b']) {
    t.equal(outcomeOf(run(url(attack))), '500 POLICY_EXPRESSION', attack)
  }
  t.same(headersOf(run(url('a%09b'))), { 'x-echo': 'a\tb' }, 'a tab may stand in a value')
  t.equal(
    headersOf(run(url('%C5%81%C3%B3d%C5%BA')))['x-echo'],
    Buffer.from('Łódź').toString('latin1'),
    'UTF-8 on the wire'
  )
})

t.test('fields of framing, of one hop and of the proxy itself are refused when the policy is written', async (t) => {
  const names = [
    'Content-Length',
    'transfer-encoding',
    'CONNECTION',
    'keep-alive',
    'te',
    'trailer',
    'upgrade',
    'expect'
  ]
  for (const name of [...names, 'sluice-error-code', 'Sluice_Error_Code', 'content_length', 'x y', 'x:y', '']) {
    for (const type of ['custom-response', 'add-headers']) {
      t.match(
        kit.problems(type, { headers: { [name]: 'x' } }),
        [/^error CONFIG_INVALID .*config\.headers/],
        `${type} ${name}`
      )
    }
  }
  t.match(kit.problems('custom-response', { headers: { 'x-a': 'one\ntwo' } }), [/^error CONFIG_INVALID .*x-a/])
  t.match(kit.problems('custom-response', { headers: { 'x-a': '1', 'X-A': '2' } }), [
    /^error CONFIG_INVALID .*X-A.*twice/
  ])
  const eleven = Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`x-${i}`, 'x']))
  t.match(kit.problems('custom-response', { headers: eleven }), [/at most 10/])
})
