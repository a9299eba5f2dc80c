import { bodies } from '../resources/bodies.js'
import type { Answer, Asked, Serving } from './build.js'
import { EVENT_TYPES, resources } from './product.js'

/** Every value of one series of requests, by what was asked. */
export type Recording = Map<string, string>

/** The policy of the traffic here: a rule for each kind of action, chosen by the first part of the path. */
export function policyOf(issuer: string): string {
  const rule = (path: string, ...actions: readonly string[]) =>
    [
      `  - name: ${path}`,
      `    expressions: ["req.url.path.startsWith('/${path}')"]`,
      '    actions:',
      ...actions.map((action) => `      - ${action}`)
    ].join('\n')
  return [
    'on_http_request:',
    rule('headers', '{ type: add-headers, config: { headers: { x-added: "${req.method} ${req.url.path}" } } }'),
    rule('gone', '{ type: remove-headers, config: { headers: [x-gone] } }'),
    rule('deny', '{ type: log, config: { metadata: { why: deny, password: x } } }', '{ type: deny }'),
    rule('teapot', '{ type: custom-response, config: { status_code: 418, content: "${req.url.query}" } }'),
    rule('redirect', '{ type: redirect, config: { to: "https://example.com/there", status_code: 307 } }'),
    rule('rewrite', '{ type: url-rewrite, config: { from: "/rewrite/(.*)", to: "/rewritten/$1" } }'),
    rule(
      'limited',
      '{ type: rate-limit, config: { name: few, algorithm: sliding_window, capacity: 2, rate: 60s, bucket_key: ["req.host"] } }'
    ),
    rule('basic', '{ type: basic-auth, config: { credentials: ["ann:secret-word"] } }'),
    rule('addresses', '{ type: restrict-ips, config: { deny: ["127.0.0.1/32"] } }'),
    rule(
      'vars',
      '{ type: set-vars, config: { vars: [{ a: "${req.headers[\'x-a\'][0]}" }] } }',
      '{ type: custom-response, config: { status_code: 200, content: "a is ${vars.a}" } }'
    ),
    rule('absent', '{ type: custom-response, config: { status_code: 200, content: "${req.headers[\'x-none\'][0]}" } }'),
    rule('webhook', '{ type: verify-webhook, config: { provider: github, secret: hush } }'),
    rule(
      'jwt',
      '{ type: jwt-validation, config: { issuer: { allow_list: [{ value: me }] }, audience: { allow_list: [{ value: you }] }, http: { tokens: [{ type: jwt, method: header, name: Authorization, prefix: "Bearer " }] }, jws: { allowed_algorithms: [ES256], keys: { sources: { additional_jkus: ["http://127.0.0.1:9/keys"] } } } } }'
    ),
    rule('internal', '{ type: forward-internal, config: { url: "https://none.internal" } }'),
    rule('breaker', '{ type: circuit-breaker, config: { error_threshold: 0.5 } }'),
    rule('body', '{ type: request-body-find-replace, config: { replacements: [{ from: secret, to: public }] } }'),
    rule('close', '{ type: close-connection }'),
    '  - name: login',
    "    expressions: [\"req.url.path.startsWith('/login') || req.url.path.startsWith('/.sluice')\"]",
    '    actions:',
    `      - { type: openid-connect, config: { issuer_url: "${issuer}", client_id: sluice-client, client_secret: "sluice secret/+%", auth_id: home } }`,
    'on_http_response:',
    rule('packed', '{ type: compress-response, config: { algorithms: [gzip] } }'),
    rule('answer', '{ type: response-body-find-replace, config: { replacements: [{ from: GET, to: GOT }] } }'),
    rule('marked', '{ type: add-headers, config: { headers: { x-status: "${res.status_code}" } } }')
  ].join('\n')
}

const TRAFFIC: readonly (readonly [string, Asked?])[] = [
  ...['headers', 'deny', 'teapot?a=1', 'redirect', 'rewrite/x?y', 'addresses', 'absent', 'vars', 'internal'],
  ...['limited', 'limited', 'limited', 'basic', 'webhook', 'jwt', 'breaker', 'close', 'packed', 'answer', 'marked'],
  ...['plain', 'login', '.sluice/callback?state=none', '.sluice/logout', 'a//b', 'a%2Fb', 'a/../c', 'a%zz', 'a%00']
].map((path) => [`/${path}`] as const)

const MORE_TRAFFIC: readonly (readonly [string, Asked])[] = [
  ['/gone', { headers: { 'x-gone': 'yes', 'x-stays': 'yes' } }],
  ['/vars', { headers: { 'x-a': 'one' } }],
  ['/basic', { headers: { authorization: 'Basic YW5uOnNlY3JldC13b3Jk' } }],
  ['/jwt', { headers: { authorization: 'Bearer e30.e30.e30' } }],
  ['/webhook', { method: 'POST', body: '{}', headers: { 'x-hub-signature-256': 'sha256=00' } }],
  ['/body', { method: 'POST', body: 'a secret', headers: { 'content-type': 'text/plain' } }],
  ['/packed', { headers: { 'accept-encoding': 'gzip' } }],
  ['/plain', { method: 'TRACE' }],
  ['/plain', { method: 'DELETE', headers: { host: 'other.example.com', 'x-forwarded-for': '192.0.2.1' } }]
]

export async function traffic(serving: Serving, found: Recording): Promise<void> {
  for (const [index, [path, asked = {}]] of [...TRAFFIC, ...MORE_TRAFFIC].entries()) {
    const headers = { host: 'app.example.com', accept: 'text/html', ...asked.headers }
    const answer = await serving.send(path, { ...asked, headers }).catch(({ message }: Error) => message)
    found.set(`traffic ${index} ${asked.method ?? 'GET'} ${path}`, typeof answer === 'string' ? answer : shown(answer))
  }
}

/** Creates, reads, lists, changes and deletes a record of each resource, and asks what must be refused. */
export async function api(serving: Serving, found: Recording, { events }: { events: string }): Promise<void> {
  const ids = new Map<string, string>()
  const call = async (path: string, asked: Asked = {}) => {
    const answer = await serving.call(path, asked)
    found.set(
      `api ${found.size} ${asked.method ?? 'GET'} ${path}`,
      shown(answer).replace(/^content-length: .*$/m, 'content-length')
    )
    return answer
  }
  await call('/event_destinations', { method: 'POST', body: { format: 'json', target: { file: { path: events } } } })
  const [, written = ''] = /"id":"(ed_[^"]*)"/.exec([...found.values()].at(-1) ?? '') ?? []
  const sources = EVENT_TYPES.map((type) => ({ type }))
  await call('/event_subscriptions', { method: 'POST', body: { sources, destination_ids: [written] } })
  for (const { name, idPrefix, path: template, operations } of resources) {
    const path = template.replace(/\{\w+\}/g, () => ids.get('edghts') ?? 'none')
    await call(path)
    await call(`${path}/${idPrefix}_none`)
    await call(`${path}?limit=0`)
    await call(`${path}?nonsense=1`)
    if (!operations.includes('create')) continue
    await call(path, { method: 'POST', body: { nonsense: 1 } })
    await call(path, { method: 'POST', body: 'nothing' })
    const { full, change } = bodies[name] ?? { full: {}, change: {} }
    const created = await call(path, { method: 'POST', body: named(full, ids) })
    const { id } = JSON.parse(created.text) as { id?: string }
    if (id === undefined) continue
    ids.set(idPrefix, id)
    await call(path, { method: 'POST', body: named(full, ids) })
    await call(`${path}/${id}`)
    await call(`${path}/${id}`, { method: 'PATCH', body: named(change, ids) })
    await call(`${path}/${id}`, { method: 'PATCH', body: { nonsense: 1 } })
    await call(`${path}/${id}`, { method: 'PATCH', body: {}, headers: { 'if-match': '"none"' } })
    await call(path)
    const other = await call(path, { method: 'POST', body: {} })
    const spare = (JSON.parse(other.text) as { id?: string }).id
    if (spare !== undefined) await call(`${path}/${spare}`, { method: 'DELETE' })
    await call(`${path}/${idPrefix}_none`, { method: 'DELETE' })
  }
  for (const path of ['/account', '/revisions', '/openapi.json', '/nothing', '/docs', '/healthz', '/readyz'])
    await call(path)
  await call('/vaults', { headers: { authorization: 'Bearer wrong' } })
  await call('/vaults', { headers: { 'service-version': '1' } })
  await call('/vaults', { headers: { host: 'evil.example.com' } })
  await call(`/vaults/${ids.get('vault')}`, { method: 'DELETE' })
  await call(`/ip_policies/${ids.get('ipp')}`, { method: 'DELETE' })
}

/**
 * A body with the ids of records that are there in the place of the made-up ones. It leads nowhere but to this machine, and
 * asks for no managed certificate: what becomes of that is written when it is known, between any two calls.
 */
function named(body: Readonly<Record<string, unknown>>, ids: ReadonlyMap<string, string>): string {
  const { certificate_management_policy: _, ...wanted } = body
  const text = JSON.stringify(wanted).replace(/https?:\/\/example\.com/g, 'http://127.0.0.1:9')
  return text.replace(/\b([a-z]+)_0{20,}\d+\b/g, (made, prefix: string) => ids.get(prefix) ?? made)
}

/** All that a client sees of an answer. */
function shown({ status, headers, text }: Answer): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${[value].flat().join(' | ')}`)
  return [status, ...lines.sort(), '', text].join('\n')
}
