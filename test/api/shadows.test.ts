import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { type RunningSluice, type SluiceSetup, startSluice } from '../helpers/sluice.js'
import { asker } from './asking.js'

const ALLOW = 'on_http_request: []'
const LIMIT = (capacity: number) => `on_http_request:
  - name: per client
    actions:
      - type: rate-limit
        config: { name: all, algorithm: sliding_window, capacity: ${capacity}, rate: 60s, bucket_key: [conn.client_ip] }
`

interface Decision {
  readonly decision: string
  readonly status: number | null
  readonly code: string | null
  readonly by: { readonly rule: string; readonly action: string } | null
}

interface Shadow {
  readonly id: string
  readonly uri: string
  readonly state: string
  readonly ended_reason: string | null
  readonly routes: readonly string[] | null
  readonly revision: number
  readonly counts: Readonly<Record<string, number>>
  readonly not_judged: Readonly<Record<string, number>>
  readonly work: { readonly milliseconds: number; readonly slowest: number }
  readonly matrix: readonly {
    readonly old: Decision
    readonly new: Decision
    readonly differs: readonly string[]
    readonly count: number
    readonly examples: readonly {
      readonly request: { readonly method: string; readonly host: string; readonly path: string }
      readonly explanation: { readonly request: { readonly headers: readonly string[]; readonly url: string } } | null
    }[]
  }[]
}

/** A product in front of an upstream that notes what it gets. */
async function open(t: Test, setup: SluiceSetup = {}) {
  const got: { readonly url: string; readonly headers: IncomingHttpHeaders }[] = []
  const upstream = createServer((request, response) => {
    got.push({ url: request.url ?? '', headers: request.headers })
    request.resume()
    request.on('end', () => response.setHeader('x-from', 'upstream').end('hello'))
  })
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const { port } = upstream.address() as AddressInfo
  const sluice = await startSluice(t, { policy: ALLOW, ...setup, upstream: { port } })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const { apiKey: key } = sluice
  const begin = async (body: object) => {
    const answer = await ask('/shadows', { method: 'POST', body: { budget: '50ms', ...body }, key })
    if (answer.status !== 201) throw new Error(answer.text)
    return answer.json as unknown as Shadow
  }
  const get = async ({ id }: Shadow) => (await ask(`/shadows/${id}`, { key })).json as unknown as Shadow
  return {
    sluice,
    got,
    key,
    ask,
    begin,
    seen: (shadow: Shadow) =>
      until(
        () => get(shadow),
        ({ counts }) => counts.waiting === 0
      ),
    get
  }
}

async function until<T>(read: () => Promise<T>, holds: (value: T) => boolean): Promise<T> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const value = await read()
    if (holds(value)) return value
    await new Promise((turn) => setTimeout(turn, 10))
  }
  return await read()
}

async function send({ port }: RunningSluice, path: string, init: RequestInit = {}): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { redirect: 'manual', ...init })
  await answer.arrayBuffer()
  return answer.status
}

const policies = (text: string) => ({ policies: [{ route: 'default', text }] })

t.test('a candidate decides beside what serves, and nobody notices', async (t) => {
  const { sluice, got, begin, seen, ask, key } = await open(t)
  const shadow = await begin({
    ...policies(`on_http_request:
  - name: closed
    expressions: ["req.url.path.startsWith('/admin')"]
    actions: [{ type: deny }]
  - name: moved
    expressions: ["req.url.path == '/old'"]
    actions: [{ type: redirect, config: { from: /old, to: /new } }]
  - name: marked
    expressions: ["req.url.path == '/marked'"]
    actions: [{ type: add-headers, config: { headers: { x-marked: 'yes' } } }]
on_http_response:
  - name: named
    expressions: ["req.url.path == '/named'"]
    actions: [{ type: add-headers, config: { headers: { x-named: "\${res.headers['x-from'][0]}" } } }]
`),
    name: 'stricter'
  })
  t.match(shadow, { state: 'running', routes: ['default'], name: 'stricter' })
  for (const path of ['/', '/admin', '/admin/users?token=abc', '/old', '/marked', '/named'])
    t.equal(await send(sluice, path, { headers: { authorization: 'Bearer s3cret' } }), 200)
  const { counts, matrix, work } = await seen(shadow)
  t.match(counts, { seen: 6, judged: 6, same: 1, changed: 5, not_judged: 0, over_budget: 0, dropped: 0, waiting: 0 })
  const cells = matrix.map(({ old, new: is, differs, count }) => [
    old.decision,
    is.decision,
    is.by?.rule,
    differs,
    count
  ])
  t.strictSame(cells[0], ['forwarded', 'denied', 'closed', ['decision'], 2])
  t.strictSame(
    new Set(cells.slice(1).map((cell) => JSON.stringify(cell))),
    new Set(
      [
        ['forwarded', 'redirected', 'moved', ['decision'], 1],
        ['forwarded', 'forwarded', undefined, ['request'], 1],
        ['forwarded', 'forwarded', undefined, ['response'], 1],
        ['forwarded', 'forwarded', undefined, [], 1]
      ].map((cell) => JSON.stringify(cell))
    )
  )
  const [, example] = matrix[0]?.examples ?? []
  t.match(example, {
    request: { method: 'GET', path: '/admin/users' },
    old: { decision: 'forwarded', status: null },
    new: { decision: 'denied', status: 403, code: 'POLICY_DENIED' },
    explanation: { decision: { by: { rule: 'closed' } } }
  })
  const text = JSON.stringify(matrix)
  t.notMatch(text, /s3cret|token=abc/, 'what sounds like a secret is redacted')
  t.ok(work.milliseconds > 0 && work.slowest > 0)
  t.same(got.length, 6, 'the upstream has seen each request once')
  t.ok(got.every(({ headers }) => headers['x-marked'] === undefined))
  const metrics = (await ask('/metrics', { key })).text
  t.match(metrics, /sluice_shadow_total\{old="forwarded",new="denied"\} 2/)
  t.match(metrics, /sluice_shadow_total\{old="forwarded",new="rewritten"\} 2/)
  t.notMatch(metrics, /sluice_policy_decisions_total\{[^}]*closed/, 'what it decides is in no other metric')
  t.equal((await ask(`/shadows/${shadow.id}`, { method: 'DELETE', key })).status, 204)
  t.equal((await ask(`/shadows/${shadow.id}`, { key })).status, 404)
})

t.test('limits of a candidate are its own, and go on from what is counted', async (t) => {
  const { sluice, begin, seen } = await open(t, { policy: LIMIT(3) })
  t.equal(await send(sluice, '/'), 200)
  const [same, stricter, empty] = [
    await begin(policies(LIMIT(3))),
    await begin(policies(LIMIT(2))),
    await begin({ ...policies(LIMIT(3)), counters: 'empty' })
  ]
  t.same(
    [await send(sluice, '/'), await send(sluice, '/'), await send(sluice, '/'), await send(sluice, '/')],
    [200, 200, 429, 429]
  )
  t.match((await seen(same)).counts, { judged: 4, same: 4, changed: 0 }, 'the policy that serves differs in nothing')
  const { matrix, counts } = await seen(stricter)
  t.match(counts, { judged: 4, same: 3, changed: 1 })
  t.match(matrix[0], {
    old: { decision: 'forwarded' },
    new: { decision: 'limited', status: 429, code: 'RATE_LIMITED' },
    count: 1
  })
  t.match((await seen(empty)).counts, { judged: 4, same: 3, changed: 1 }, 'it has not seen the first one')
})
