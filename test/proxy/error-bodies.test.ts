import { once } from 'node:events'
import { connect } from 'node:http2'
import t from 'tap'
import { clientAnswer, preferredForm } from '../../src/proxy/error-body.js'
import { failureResponse } from '../../src/proxy/response.js'
import { rawClient } from '../helpers/raw-client.js'
import { engines, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8'

t.test('the form follows Accept, and its length is bounded', (t) => {
  const cases: [accept: string | undefined, form: string][] = [
    [undefined, 'text'],
    ['*/*', 'text'],
    [BROWSER, 'html'],
    ['application/json', 'json'],
    ['application/problem+json, text/html;q=0.5', 'json'],
    ['text/html;q=0.1, application/json;q=0.2', 'json'],
    ['text/html;q=0, */*', 'text'],
    ['image/png', 'text'],
    ['text/html;q=x', 'text'],
    [`${'a/b,'.repeat(400)}text/html`, 'text']
  ]
  for (const [accept, form] of cases)
    t.equal(preferredForm(accept === undefined ? [] : ['Accept', accept]), form, accept?.slice(0, 60) ?? 'none')
  t.equal(preferredForm(['accept', 'text/plain;q=0.5', 'ACCEPT', 'application/json']), 'json', 'fields are joined')
  t.end()
})

t.test('what a client writes into its request id stays text', (t) => {
  const response = failureResponse({ status: 404, code: 'NO_ROUTE' })
  const id = '<script>"&\r\nx: y'
  const html = clientAnswer(response, ['accept', 'text/html'], id, true)
  t.notMatch(String(html.body), '<script>')
  t.match(String(html.body), '&lt;script&gt;&quot;&amp;')
  t.notOk(html.headers.list.some((one) => one.includes('script')))
  const json = clientAnswer(response, ['accept', 'application/json'], id.repeat(100), true)
  t.equal(JSON.parse(String(json.body)).request_id.length, 200)
  t.equal(clientAnswer(response, [], id, false), response, 'the option leaves the answer empty')
  const grpc = clientAnswer(response, ['content-type', 'application/grpc', 'accept', 'text/html'], id, true)
  t.match([grpc.status, grpc.body, grpc.headers.get('grpc-message')], [200, undefined, 'NO_ROUTE'])
  t.end()
})

for (const engine of engines) {
  t.test(`${engine}: errors of Sluice have a body for people and for programs`, async (t) => {
    const policy = `on_http_request:
  - expressions: ["req.url.path == '/denied'"]
    actions: [{ type: deny }]
  - expressions: ["req.url.path == '/own'"]
    actions: [{ type: custom-response, config: { status_code: 404, body: mine } }]
`
    const sluice = await startSluice(t, { engine, policy, upstream: { port: 1 } })
    const url = `http://127.0.0.1:${sluice.port}`
    const get = (path: string, accept: string, method = 'GET') => fetch(url + path, { method, headers: { accept } })

    const json = await get('/denied', 'application/json')
    t.equal(json.headers.get('content-type'), 'application/json')
    t.match(await json.json(), {
      status: 403,
      title: 'Forbidden',
      code: 'POLICY_DENIED',
      request_id: json.headers.get('x-request-id')
    })
    const page = await get('/denied', BROWSER)
    t.match([page.status, page.headers.get('content-type')], [403, 'text/html; charset=utf-8'])
    t.match(await page.text(), /<h1>403 Forbidden<\/h1>[\s\S]*POLICY_DENIED/)
    const text = await get('/', '*/*')
    t.equal(text.status, 502)
    t.equal(
      await text.text(),
      `502 Bad Gateway\ncode: UPSTREAM_REFUSED\nrequest: ${text.headers.get('x-request-id')}\n`
    )
    t.equal(await (await get('/own', BROWSER)).text(), 'mine', 'what a policy answers stays')

    const head = await get('/denied', 'application/json', 'HEAD')
    t.match([head.status, head.headers.get('content-type'), await head.text()], [403, 'application/json', ''])
    const old = await rawClient(sluice.port)
    old.send('GET /denied HTTP/1.0\r\nHost: x.test\r\nAccept: text/plain\r\n\r\n')
    await until(() => old.ended)
    t.match(
      old.text,
      /^HTTP\/1\.[01] 403 [\s\S]*content-length: \d+\r\n[\s\S]*\r\n\r\n403 Forbidden\ncode: POLICY_DENIED\n/i
    )
    const kept = await rawClient(sluice.port)
    kept.send(
      'HEAD /denied HTTP/1.1\r\nHost: x.test\r\n\r\nGET /own HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n\r\n'
    )
    await until(() => kept.ended)
    t.match(kept.text, /^HTTP\/1\.1 403 [\s\S]*?\r\n\r\nHTTP\/1\.1 404 [\s\S]*mine$/, 'no byte of a body follows HEAD')

    const session = connect(url)
    t.teardown(() => session.destroy())
    const stream = session.request({ ':path': '/denied', accept: 'application/json' })
    const [fields] = await once(stream, 'response')
    let body = ''
    for await (const piece of stream.setEncoding('utf8')) body += piece
    t.equal(fields[':status'], 403)
    t.match(JSON.parse(body), { code: 'POLICY_DENIED' })
  })

  t.test(`${engine}: by option they are empty`, async (t) => {
    const sluice = await startSluice(t, { engine, options: { ERROR_BODIES: 'off' } })
    const answer = await fetch(`http://127.0.0.1:${sluice.port}/`, { headers: { accept: BROWSER } })
    t.match([answer.status, answer.headers.get('content-length'), await answer.text()], [404, '0', ''])
    t.equal(answer.headers.get('sluice-error-code'), 'NO_ROUTE')
  })
}
