import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { asker } from '../../api/asking.js'
import { startSluice } from '../../helpers/sluice.js'

const POLICY = `on_http_request:
  - name: one each
    actions:
      - type: rate-limit
        config: { name: all, algorithm: sliding_window, capacity: 1, rate: 60s, bucket_key: [conn.client_ip] }
`

interface Explained {
  readonly explanations: readonly {
    readonly revision: number
    readonly decision: { readonly outcome: string; readonly status: number; readonly code: string | null }
    readonly route: { readonly id: string } | null
    readonly other_routes: readonly object[]
    readonly request: { readonly headers: readonly string[] }
  }[]
}

t.test('a request is explained by what serves, and counts nothing', async (t) => {
  const upstream = createServer((_request, response) => response.end())
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const sluice = await startSluice(t, { upstream: { port: (upstream.address() as AddressInfo).port }, policy: POLICY })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const { apiKey: key } = sluice
  const explain = async (body: object) => {
    const answer = await ask('/explain', { method: 'POST', body, key })
    return { status: answer.status, body: answer.json as unknown as Explained }
  }
  const url = 'http://shop.example.com/cart'
  const decisions = ({ body }: Awaited<ReturnType<typeof explain>>) =>
    body.explanations.map(({ decision }) => decision.status)

  t.same(decisions(await explain({ url, repeat: 3, every: '31s' })), [200, 429, 200], 'in a time of its own')
  t.equal((await fetch(`http://127.0.0.1:${sluice.port}/`)).status, 200, 'nothing has been counted')
  t.same(decisions(await explain({ url })), [429], 'a copy of what is counted now')
  t.same(decisions(await explain({ url, counters: 'empty' })), [200])
  t.same(decisions(await explain({ url, client_ip: '203.0.113.9' })), [200])
  const policies = [{ route: 'default', text: 'on_http_request: [{ actions: [{ type: deny }] }]' }]
  t.match(await explain({ url, policies, headers: { authorization: 'Bearer s3cret', accept: ['a', 'b'] } }), {
    status: 200,
    body: {
      explanations: [
        {
          route: { id: 'default' },
          decision: { outcome: 'answered', status: 403, code: 'POLICY_DENIED' },
          request: { headers: ['authorization', '[redacted]', 'accept', 'a', 'accept', 'b'] }
        }
      ]
    }
  })
  t.equal((await fetch(`http://127.0.0.1:${sluice.port}/`)).status, 429, 'and nothing has changed')
})

t.test('a host on another port alone has no edge at this one, and the explanation names its port', async (t) => {
  const sluice = await startSluice(t)
  const ask = asker('127.0.0.1', sluice.apiPort)
  const { apiKey: key } = sluice
  const post = (path: string, body: object) => ask(path, { method: 'POST', body, key })
  const { json: backend } = await post('/backends/http_response', { body: 'ok' })
  const { json: edge } = await post('/edges/https', { hostports: ['admin.test:9443'] })
  await post(`/edges/https/${edge.id}/routes`, { match: '/', backend: { backend_id: backend.id } })
  const explained = async (url: string) => {
    const { json } = await post('/explain', { url })
    return (json as unknown as Explained).explanations[0]
  }
  t.match(await explained('http://admin.test/'), { edge: null, other_ports: [9443], decision: { code: 'NO_ROUTE' } })
  t.match(await explained('http://admin.test:9443/'), {
    edge: { port: 9443 },
    other_ports: [],
    decision: { status: 200 }
  })
  t.match(await explained('http://none.test/'), { edge: null, other_ports: [] })
})

t.test('what is wrong with the question is said with its field', async (t) => {
  const sluice = await startSluice(t, { upstream: { port: 9 }, policy: POLICY })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const { apiKey: key } = sluice
  const url = 'http://x.test/'
  for (const [body, code, field] of [
    [{}, 'FIELD_REQUIRED', 'url'],
    [{ url: '/cart' }, 'FIELD_INVALID', 'url'],
    [{ url, headers: { 'a b': 'c' } }, 'FIELD_INVALID', 'headers.a b'],
    [{ url, headers: { a: 'b\nc: d' } }, 'FIELD_INVALID', 'headers.a'],
    [{ url, client_ip: 'here' }, 'FIELD_INVALID', 'client_ip'],
    [{ url, at: 'soon' }, 'FIELD_INVALID', 'at'],
    [{ url, repeat: 1001 }, 'FIELD_INVALID', 'repeat'],
    [{ url, every: '1 year' }, 'FIELD_INVALID', 'every'],
    [{ url, counters: 'some' }, 'FIELD_INVALID', 'counters'],
    [{ url, nothing: 1 }, 'FIELD_UNKNOWN', 'nothing'],
    [{ url, policies: [{ route: 'nowhere', text: 'on_http_request: []' }] }, 'NOT_FOUND', 'policies.route'],
    [{ url, policies: [{ route: 'default', text: 'a: 1' }] }, 'POLICY_PHASE_UNKNOWN', 'traffic_policy.value']
  ] as const) {
    const answer = await ask('/explain', { method: 'POST', body, key })
    t.match(answer.json, { error_code: `ERR_SLUICE_${code}`, details: { field } }, JSON.stringify(body))
  }
  t.equal((await ask('/explain', { method: 'POST', body: { url }, key: 'another' })).status, 401)
})

t.test('an explanation names the text of its policy, and whether it is still the one that serves', async (t) => {
  const sluice = await startSluice(t, { upstream: { port: 9 }, policy: POLICY })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const { apiKey: key } = sluice
  const explain = async (body: object = {}) => {
    const answer = await ask('/explain', { method: 'POST', body: { url: 'http://shop.example.com/', ...body }, key })
    return answer.json.explanations[0].policies
  }
  const serving = async () => (await ask('/explain/policies/default', { key })).json
  const policies = await explain()
  const first = await serving()
  t.match(first, { owner: 'default', text: POLICY, source: /policy\.yaml$/ })
  t.same(policies, [{ owner: 'default', source: first.source, digest: first.digest }])
  const text = 'on_http_request: [{ actions: [{ type: deny }] }]'
  const [tried] = await explain({ policies: [{ route: 'default', text }] })
  t.not(tried.digest, first.digest, 'another text was tried')
  await sluice.reload(text)
  t.match(await serving(), { text, digest: tried.digest })
  t.match((await ask('/explain/policies/none', { key })).json, { status_code: 404 })
})
