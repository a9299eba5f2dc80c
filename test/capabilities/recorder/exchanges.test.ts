import { createServer, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { type Answer, asker } from '../../api/asking.js'
import { startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'

const POLICY = `on_http_request:
  - name: one each
    expressions: ["req.url.path == '/limited'"]
    actions:
      - type: rate-limit
        config: { name: all, algorithm: sliding_window, capacity: 1, rate: 60s, bucket_key: [conn.client_ip] }
  - name: closed
    expressions: ["req.url.path == '/closed'"]
    actions: [{ type: deny }]
  - name: tells
    actions:
      - type: add-headers
        config: { headers: { x-tier: gold } }
`

async function stand(t: Test, options: Readonly<Record<string, string>> = {}, policy = POLICY) {
  const seen: { readonly method: string; readonly headers: readonly string[]; readonly body: string }[] = []
  const upstream = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString()
    })
    request.on('end', () => {
      seen.push({ method: request.method ?? '', headers: request.rawHeaders, body })
      response.setHeader('Content-Type', 'application/json')
      response.setHeader('Set-Cookie', 'sid=s3cret')
      response.end('{"token":"s3cret","ok":true}')
    })
  })
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const { port } = upstream.address() as AddressInfo
  const sluice = await startSluice(t, { upstream: { port }, policy, options: { RECORDER_WHERE: 'false', ...options } })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const { apiKey: key } = sluice
  const call = (path: string, method = 'GET', body?: object) =>
    ask(path, { method, key, ...(body === undefined ? {} : { body }) })
  const url = `http://127.0.0.1:${sluice.port}`
  const recorded = async (count: number, query = '') => {
    let found: Answer['json'][] = []
    await until(async () => {
      found = (await call(`/exchanges?${query}`)).json.exchanges
      return found.length >= count
    })
    return found
  }
  return { sluice, call, url, seen, recorded, key, ask }
}

const decided = (found: readonly { readonly decided: string }[]) => found.map((one) => one.decided)

t.test('what is recorded is found by host, status, rule, client, time, text and CEL', async (t) => {
  const { call, url, recorded } = await stand(t, { RECORDER_WHERE: 'res.status_code > 0' })
  for (const [at, path] of ['/limited', '/limited', '/closed', '/open?token=s3cret'].entries()) {
    await fetch(url + path)
    // Threads record in the order in which they end what they serve, each for itself.
    await recorded(at + 1)
  }
  t.same(decided(await recorded(4)), ['forwarded', '403 deny', '429 rate-limit', 'forwarded'], 'the newest first')
  const found = async (query: string) => decided((await call(`/exchanges?${query}`)).json.exchanges)
  t.same(await found('status=4xx'), ['403 deny', '429 rate-limit'])
  t.same(await found('status=429'), ['429 rate-limit'])
  t.same(await found('status=400-404'), ['403 deny'])
  t.same(await found('rule=closed'), ['403 deny'])
  t.same(await found('action=rate-limit'), ['429 rate-limit'])
  t.same(await found('client=127.0.0.0/8&status=403'), ['403 deny'])
  t.same(await found('client=203.0.113.9'), [])
  t.same(await found('host=127.0.0.1&limit=1'), ['forwarded'])
  t.same(await found('host=*.example.com'), [])
  t.same(await found('since=2100-01-01T00:00:00Z'), [])
  t.same((await found('until=2100-01-01T00:00:00Z')).length, 4)
  t.same(await found('text=/CLOSED'), ['403 deny'])
  t.same(await found('text=s3cret'), [], 'what is not shown is not found')
  t.same(await found(`where=${encodeURIComponent("exchange.rule == 'one each' && req.method == 'GET'")}`), [
    '429 rate-limit'
  ])
  const first = (await call('/exchanges?limit=3')).json
  t.equal(first.exchanges.length, 3)
  const rest = (await call(first.next_page_uri.slice(first.uri.indexOf('/exchanges')))).json
  t.same([decided(rest.exchanges), rest.next_page_uri], [['forwarded'], null])
  for (const [query, field] of [
    ['status=many', 'status'],
    ['client=here', 'client'],
    ['since=soon', 'since'],
    ['where=req.', 'where'],
    ['where=req.method', 'where'],
    ['rule=', 'rule']
  ] as const)
    t.match((await call(`/exchanges?${query}`)).json, { error_code: 'ERR_SLUICE_QUERY_INVALID', details: { field } })
  t.equal((await call('/exchanges', 'DELETE')).status, 204)
  t.match((await call('/exchanges')).json, { exchanges: [], recorder: { exchanges: 0, bytes: 0 } })
})

t.test('an exchange is shown whole, without secrets', async (t) => {
  const options = { RECORDER_WHERE: 'true', RECORDER_EXPLAIN: "req.method == 'POST'", RECORDER_BODIES: '64KiB' }
  const { call, url, recorded } = await stand(t, options)
  await fetch(`${url}/open?api_key=s3cret`, {
    method: 'POST',
    headers: { authorization: 'Bearer s3cret', cookie: 'sid=s3cret', 'content-type': 'application/json', 'x-a': '1' },
    body: '{"password":"s3cret","amount":7}'
  })
  const [{ id }] = (await recorded(1)) as [{ id: string }]
  const { json: shown, text } = await call(`/exchanges/${id}`)
  t.notMatch(text, /s3cret/)
  t.match(shown, {
    method: 'POST',
    url: `${url}/open?api_key=[redacted]`,
    decided: 'forwarded',
    revision: Number,
    request: { body: { text: '{"password":"[redacted]","amount":7}', whole: true, bytes: 32 } },
    upstream: { backend: 'default', method: 'POST', server: String },
    response: { status: 200, body: { text: '{"token":"[redacted]","ok":true}' } },
    explanation: { decision: { outcome: 'forwarded' }, steps: [{ phases: [{ phase: 'on_http_request' }] }] }
  })
  t.ok(shown.upstream.headers.includes('gold'), 'as the policy changed it')
  t.notOk(shown.request.headers.includes('gold'), 'as it came')
  t.equal((await call('/exchanges/exch_none')).status, 404)
  const archive = JSON.parse((await call('/exchanges/har')).text)
  t.match(archive.log, { version: '1.2', entries: [{ request: { method: 'POST' }, _sluice: { id } }] })
  t.notMatch(JSON.stringify(archive), /s3cret/)
})

t.test('values of vaults are in nothing that is shown', async (t) => {
  const policy = `on_http_request:
  - actions:
      - type: add-headers
        config: { headers: { x-upstream: "\${secrets.get('keys', 'up')}" } }
on_http_response:
  - actions:
      - type: add-headers
        config: { headers: { x-back: "is \${secrets.get('keys', 'up')}" } }
`
  const { call, url, recorded, sluice, seen } = await stand(
    t,
    { RECORDER_WHERE: 'true', RECORDER_EXPLAIN: 'true' },
    'on_http_request: []'
  )
  const vault = (await call('/vaults', 'POST', { name: 'keys' })).json.id as string
  t.equal(
    (await call('/vault_secrets', 'POST', { vault_id: vault, name: 'up', value: 'very-hidden-value' })).status,
    201
  )
  await sluice.reload(policy)
  t.equal((await fetch(url)).headers.get('x-back'), 'is very-hidden-value')
  t.ok(seen[0]?.headers.includes('very-hidden-value'))
  const [{ id }] = (await recorded(1)) as [{ id: string }]
  const { text } = await call(`/exchanges/${id}`)
  t.notMatch(text, /very-hidden/)
  t.match(text, /is \[redacted\]/)
})

t.test('a key of an administrator explains the requests that show it, for its time', async (t) => {
  const { call, url, seen, recorded } = await stand(t)
  await fetch(url, { headers: { 'sluice-explain': 'guessed' } })
  const made = await call('/explain/keys', 'POST', { lasts: '1m' })
  t.match([made.status, made.headers['cache-control']], [201, 'no-store'])
  const { header, value } = made.json as { header: string; value: string }
  const answer = await fetch(`${url}/closed`, { headers: { [header]: value } })
  const id = answer.headers.get('sluice-exchange') ?? ''
  await recorded(1)
  const { json } = await call(`/exchanges/${id}`)
  t.match(json, { decided: '403 deny', explanation: { decision: { by: { rule: 'closed' } } } })
  t.notMatch(JSON.stringify(json), new RegExp(value), 'the key is still good and is not kept')
  const open = await fetch(url, { headers: { [header]: value } })
  t.ok(open.headers.get('sluice-exchange'))
  t.equal(seen.length, 2)
  t.ok(seen[0]?.headers.includes('sluice-explain'), 'it is no field of ours without a key')
  t.notOk(seen[1]?.headers.includes('sluice-explain'), 'the upstream does not get it')
  t.equal((await fetch(url, { headers: { [header]: 'guessed' } })).headers.get('sluice-exchange'), null)
  t.match((await call('/explain/keys', 'POST', { lasts: '2 days' })).json, { details: { field: 'lasts' } })
  for (let n = 1; n < 100; n++) t.equal((await call('/explain/keys', 'POST')).status, 201)
  t.match((await call('/explain/keys', 'POST')).json, { error_code: 'ERR_SLUICE_TOO_MANY_KEYS' })
})

t.test('exchanges are followed as they end, recorded or not', async (t) => {
  const { url, sluice, key, call } = await stand(t)
  const events: string[] = []
  const path = `/exchanges/stream?explain=true&where=${encodeURIComponent('res.status_code == 403')}`
  const headers = { authorization: `Bearer ${key}`, 'service-version': '2' }
  const ended = new Promise<void>((resolve) => {
    const following = get({ host: '127.0.0.1', port: sluice.apiPort, path, headers, agent: false }, (response) => {
      t.match(response.headers['content-type'], /^text\/event-stream/)
      response.on('data', (chunk: Buffer) => events.push(chunk.toString()))
      response.on('end', resolve)
    })
    t.teardown(() => void following.destroy())
  })
  await until(() => events.length > 0)
  t.equal((await call('/exchanges')).json.recorder.followers, 1)
  t.equal((await call(path, 'HEAD')).status, 200)
  await until(async () => (await call('/exchanges')).json.recorder.followers === 1)
  await fetch(url)
  await fetch(`${url}/closed`)
  await until(() => events.join('').includes('event: exchange'))
  const [, data = ''] = /event: exchange\nid: exch_\w+\ndata: (.*)\n\n/.exec(events.join('')) ?? []
  t.match(JSON.parse(data), { decided: '403 deny', explanation: { decision: { status: 403 } } })
  t.equal(events.join('').match(/event: exchange/g)?.length, 1)
  t.same(decided((await call('/exchanges')).json.exchanges), ['403 deny'], 'what is followed can be looked at')
  await sluice.stop()
  await ended
  t.match(events.join(''), /event: over/)
})

t.test('a request is sent again, as it was or changed', async (t) => {
  const { url, call, seen, recorded } = await stand(t, { RECORDER_WHERE: 'true', RECORDER_BODIES: '1KiB' })
  await fetch(`${url}/limited`, {
    method: 'POST',
    headers: { authorization: 'Bearer s3cret', 'x-a': '1' },
    body: 'one'
  })
  const [{ id }] = (await recorded(1)) as [{ id: string }]
  const again = await call(`/exchanges/${id}/replay`, 'POST')
  t.match(again.json, { replay_of: id, decided: '429 rate-limit', explanation: { decision: { status: 429 } } })
  const edits = { method: 'PUT', url: `${url}/open`, headers: { 'x-a': null, 'x-b': ['2', '3'] }, body: 'other' }
  const edited = await call(`/exchanges/${id}/replay`, 'POST', edits)
  t.match(edited.json, { replay_of: id, decided: 'forwarded', method: 'PUT', url: `${url}/open` })
  t.match(seen[1], { method: 'PUT', body: 'other' })
  const headers = seen[1]?.headers ?? []
  t.ok(headers.includes('Bearer s3cret'), 'with the secrets that it had')
  t.notOk(headers.includes('x-a'))
  t.equal(headers.filter((name) => name === 'x-b').length, 2)
  t.same(decided((await call('/exchanges')).json.exchanges), ['forwarded', '429 rate-limit', 'forwarded'])
  await fetch(`${url}/open`, { method: 'POST', body: 'x'.repeat(2_000) })
  const [{ id: long }] = (await recorded(4)) as [{ id: string }]
  t.match((await call(`/exchanges/${long}/replay`, 'POST')).json, {
    error_code: 'ERR_SLUICE_REPLAY_IMPOSSIBLE',
    details: { field: 'body' }
  })
  t.equal((await call(`/exchanges/${long}/replay`, 'POST', { body: 'y' })).json.decided, 'forwarded')
  t.equal((await call('/exchanges/exch_none/replay', 'POST')).status, 404)
})

t.test('recorded exchanges are decided by other policies, in the time in which they came', async (t) => {
  const { url, call, recorded } = await stand(t, { RECORDER_WHERE: 'true' })
  for (const path of ['/limited', '/limited', '/closed', '/open', '/open']) await fetch(url + path)
  await recorded(5)
  t.match((await call('/replay', 'POST', {})).json, {
    exchanges: 5,
    clients: 1,
    same: 5,
    changed: 0,
    not_judged: 0,
    recorded: { same: 5, other: 0 }
  })
  const text = POLICY.replace('capacity: 1', 'capacity: 2').replace("'/closed'", "'/open'")
  const { json } = await call('/replay', 'POST', {
    policies: [{ route: 'default', text }],
    capacities: { rule: 'one each', values: [1, 2] },
    examples: 1
  })
  t.match(json, { same: 1, changed: 4, refused: { old: { exchanges: 2 }, new: { exchanges: 2, clients: 1 } } })
  const cell = (from: string, to: string) =>
    json.matrix.find((one: { old: string; new: string }) => one.old === from && one.new === to)
  t.match(cell('forwarded', '403 deny'), { count: 2, clients: 1, examples: [{ new_rule: 'closed', id: /^exch_/ }] })
  t.match(cell('429 rate-limit', 'forwarded'), { count: 1 })
  t.match(cell('403 deny', 'forwarded'), { count: 1 })
  t.same(json.capacities, [
    { capacity: 1, refused: { exchanges: 3, clients: 1 } },
    { capacity: 2, refused: { exchanges: 2, clients: 1 } }
  ])
  const planned = text.replace('capacity: 2', `capacity: "req.method == 'GET' ? 2 : 1"`)
  const tried = await call('/replay', 'POST', {
    policies: [{ route: 'default', text: planned }],
    capacities: { values: [1, 2] }
  })
  t.same(tried.json.capacities, json.capacities, 'a number in the place of an expression')
  t.equal(tried.json.changed, 4)
  const asks = `on_http_request:
  - actions: [{ type: http-request, config: { url: "https://auth.example.com/" } }]
`
  const unknown = (await call('/replay', 'POST', { policies: [{ route: 'default', text: asks }], limit: 2 })).json
  t.match(unknown, { exchanges: 2, not_judged: 2, changed: 0 })
  t.match(unknown.matrix[0].examples[0], { reason: 'it asks https://auth.example.com' })
  const archive = JSON.parse((await call('/exchanges/har')).text)
  const lines = archive.log.entries.map((entry: object) => JSON.stringify(entry)).join('\n')
  t.match((await call('/replay', 'POST', { archive: lines })).json, { exchanges: 5, same: 5, recorded: { same: 5 } })
  t.match((await call('/replay', 'POST', { archive: '{' })).json, { msg: /line 1: is no JSON/ })
  t.match((await call('/replay', 'POST', { archive })).json, { exchanges: 5, same: 5, recorded: { same: 5 } })
  for (const [body, field] of [
    [{ capacities: { values: [] } }, 'capacities.values'],
    [{ capacities: { rule: 'nobody', values: [1] } }, 'capacities'],
    [{ archive: { log: {} } }, 'archive'],
    [{ exchanges: { status: 'many' } }, 'status'],
    [{ limit: 0 }, 'limit'],
    [{ policies: [{ route: 'nowhere', text: 'on_http_request: []' }] }, 'policies.route']
  ] as const)
    t.match((await call('/replay', 'POST', body)).json, { details: { field } }, JSON.stringify(body))
})

t.test('the ring is bounded in bytes; what the options say is checked', async (t) => {
  const { url, call, recorded } = await stand(t, { RECORDER_WHERE: 'true', RECORDER_MEMORY: '64KiB' })
  for (let n = 0; n < 100; n++) await fetch(`${url}/open?${'x'.repeat(1_000)}`)
  await recorded(10)
  const { recorder } = (await call('/exchanges')).json
  t.ok(recorder.bytes <= 65_536 && recorder.bytes > 50_000, `${recorder.bytes} bytes`)
  t.equal(recorder.exchanges + recorder.dropped, 100)
  for (const [name, value] of [
    ['RECORDER_WHERE', 'req.nothing == 1'],
    ['RECORDER_EXPLAIN', 'res.status_code == 1'],
    ['RECORDER_WHERE', '"text"']
  ] as const)
    await t.rejects(startSluice(t, { upstream: { port: 9 }, options: { [name]: value } }), {
      code: 'RECORDER_CONDITION'
    })
})

t.test('only administrators may look', async (t) => {
  const { call, ask } = await stand(t)
  const bot = (await call('/bot_users', 'POST', { name: 'b' })).json.id as string
  const { token } = (await call('/api_keys', 'POST', { owner_id: bot })).json as { token: string }
  for (const [path, method, body] of [
    ['/exchanges', 'GET'],
    ['/exchanges', 'DELETE'],
    ['/exchanges/har', 'GET'],
    ['/exchanges/stream', 'GET'],
    ['/exchanges/exch_1', 'GET'],
    ['/exchanges/exch_1/replay', 'POST'],
    ['/replay', 'POST', {}],
    ['/explain/keys', 'POST']
  ] as const) {
    const answer = await ask(path, { method, key: token, ...(body === undefined ? {} : { body }) })
    t.equal(answer.json.error_code, 'ERR_SLUICE_ADMIN_REQUIRED', `${method} ${path}`)
  }
})
