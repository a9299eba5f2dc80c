import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { account, create, site, visit } from '../../helpers/account.js'
import { startSluice } from '../../helpers/sluice.js'
import { configFor, keyServer, sign, signer } from './issuer.js'

const KEY = signer('ES256', 'live')
const HOST = 'api.example.com'

interface Test {
  teardown(run: () => void): void
}

interface Seen {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** An upstream that remembers what reached it. */
async function upstream(t: Test): Promise<{ port: number; seen: Seen[] }> {
  const seen: Seen[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += String(chunk)
    seen.push({ headers: request.headers, body })
    response.end('hello')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port, seen }
}

function policy(config: object): string {
  return JSON.stringify({
    on_http_request: [
      {
        actions: [
          { type: 'jwt-validation', config },
          {
            type: 'add-headers',
            config: { headers: { 'x-user': '${actions.ngrok.jwt_validation.tokens[0].payload.sub}' } }
          }
        ]
      },
      {
        expressions: ["!('admin' in actions.service.jwt_validation.tokens[0].payload.roles)"],
        actions: [{ type: 'deny', config: { status_code: 403 } }]
      }
    ]
  })
}

t.test('through the whole product', async (t) => {
  const server = await keyServer(t, KEY)
  const origin = await upstream(t)
  const config = configFor({ additional_jkus: [server.url] }, { algorithms: ['ES256'] })
  const sluice = await startSluice(t, {
    upstream: { port: origin.port },
    policy: policy(config),
    options: { OUTBOUND_ALLOW_PRIVATE: 'on' }
  })
  const ask = (headers: Record<string, string>, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${sluice.port}/`, { ...init, headers })
  const bearer = async (claims: object) => ({ authorization: `Bearer ${await sign(KEY, { claims })}` })

  const admin = await bearer({ sub: 'ann', roles: ['admin'] })
  const welcome = await ask(admin)
  t.equal(welcome.status, 200)
  t.equal(await welcome.text(), 'hello')
  t.equal(origin.seen[0]?.headers['x-user'], 'ann')
  t.equal(origin.seen[0]?.headers.authorization, admin.authorization, 'the upstream gets the token')
  t.equal((await ask(await bearer({ sub: 'bob', roles: [] }))).status, 403)

  const refused = await ask({})
  t.equal(refused.status, 401)
  t.equal(refused.headers.get('sluice-error-code'), 'JWT_MISSING')
  t.equal(refused.headers.get('www-authenticate'), 'Bearer realm="sluice"')
  const expired = await ask(await bearer({ sub: 'secret-subject', exp: 1 }))
  t.equal(expired.status, 401)
  t.equal(expired.headers.get('sluice-error-code'), 'JWT_EXPIRED')
  t.match(expired.headers.get('www-authenticate'), /error="invalid_token", error_description="the token has expired"/)
  t.equal(origin.seen.length, 1, 'nothing else was forwarded')

  t.equal((await sluice.reload(policy({ ...config, leeway: '5s' }))).ok, true)
  t.equal((await ask(admin)).status, 200)
  t.equal(server.requests, 1, 'keys outlive a change of the configuration')
  t.notMatch(JSON.stringify(sluice.log), /eyJ|secret-subject/, 'nothing logs a token')
  const metrics = await fetch(`http://127.0.0.1:${sluice.apiPort}/metrics`, {
    headers: { authorization: `Bearer ${sluice.apiKey}` }
  })
  const counted = (await metrics.text()).split('\n').filter((line) => line.includes('jwt_validation'))
  for (const [decision, count] of [
    ['allow', 3],
    ['deny', 2]
  ]) {
    t.ok(
      counted.some((line) => line.includes(`"${decision}"`) && line.endsWith(` ${count}`)),
      counted.join('\n')
    )
  }
})

t.test('a token in a body; the body passes on as it came', async (t) => {
  const server = await keyServer(t, KEY)
  const origin = await upstream(t)
  const sluice = await startSluice(t, {
    upstream: { port: origin.port },
    policy: JSON.stringify({
      on_http_request: [
        {
          actions: [
            {
              type: 'jwt-validation',
              config: configFor(
                { additional_jkus: [server.url] },
                { algorithms: ['ES256'], http: { tokens: [{ type: 'jwt', method: 'body', name: 'token' }] } }
              )
            }
          ]
        }
      ]
    }),
    options: { OUTBOUND_ALLOW_PRIVATE: 'on', LIMITS_BUFFERED_BODY: '64KiB' }
  })
  const post = (body: string) =>
    fetch(`http://127.0.0.1:${sluice.port}/`, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
  const body = `{ "note": "ü",\n "token": "${await sign(KEY)}" }`
  t.equal((await post(body)).status, 200)
  t.equal(origin.seen[0]?.body, body)
  t.equal((await post('{}')).headers.get('sluice-error-code'), 'JWT_MISSING')
  const large = await post(body.replace('ü', 'x'.repeat(70_000)))
  t.equal(large.status, 413)
  t.equal(large.headers.get('sluice-error-code'), 'BODY_TOO_LARGE')
  t.equal(origin.seen.length, 1)
})

t.test('a shared secret of a vault, changed live', async (t) => {
  const first = signer('HS256')
  const second = signer('HS512')
  const text = (key: typeof first) => key.privateKey.export().toString('base64')
  const sluice = await startSluice(t)
  const call = account(sluice)
  const vault = await create(sluice, '/vaults', { name: 'main' })
  const secret = await create(sluice, '/vault_secrets', { vault_id: vault.id, name: 'jwt', value: text(first) })
  const sources = { shared_secrets: [{ value: "${secrets.get('main', 'jwt')}", encoding: 'base64' }] }
  const actions = [
    { type: 'jwt-validation', config: configFor(sources, { algorithms: ['HS256', 'HS512'] }) },
    { type: 'custom-response', config: { body: 'welcome' } }
  ]
  await site(sluice, HOST, { traffic_policy: { value: JSON.stringify({ on_http_request: [{ actions }] }) } })
  const status = async (key: typeof first) =>
    (await visit(sluice, HOST, { headers: { authorization: `Bearer ${await sign(key)}` } })).status
  t.equal(await status(first), 200)
  t.equal(await status(second), 401)
  t.equal((await call(`/vault_secrets/${secret.id}`, { method: 'PATCH', body: { value: text(second) } })).status, 200)
  t.equal(await status(second), 200)
  t.equal(await status(first), 401)
  t.notMatch(JSON.stringify(sluice.log), new RegExp(`eyJ|${text(first).slice(0, 12)}`))
})
