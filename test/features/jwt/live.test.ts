import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { account, create, site, visit } from '../../helpers/account.js'
import { startSluice } from '../../helpers/sluice.js'
import { configFor, jwkOf, keyServer, sign, signer } from './issuer.js'

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

t.test('two routes that take the keys of one server ask it once', async (t) => {
  const server = await keyServer(t, KEY)
  const sluice = await startSluice(t, { options: { OUTBOUND_ALLOW_PRIVATE: 'on' } })
  const config = configFor({ additional_jkus: [server.url] }, { algorithms: ['ES256'] })
  const traffic_policy = { value: policy(config) }
  const backend = await create(sluice, '/backends/http_response', { status_code: 200, body: 'in' })
  for (const host of [HOST, `other.${HOST}`]) {
    await site(sluice, host, { backend: { backend_id: backend.id }, traffic_policy })
    const token = await sign(KEY, { claims: { roles: ['admin'] } })
    t.equal((await visit(sluice, host, { headers: { authorization: `Bearer ${token}` } })).status, 200)
  }
  t.equal(server.requests, 1)
  const unknown = await sign(signer('ES256', 'made-up'), { claims: { roles: ['admin'] } })
  for (const host of [HOST, `other.${HOST}`]) {
    t.equal((await visit(sluice, host, { headers: { authorization: `Bearer ${unknown}` } })).status, 401)
  }
  t.equal(server.requests, 1, 'and made-up keys on both cost no more loads than on one')
})

t.test('key files: from the folders of the operator, wherever links lead', async (t) => {
  const keys = JSON.stringify({ keys: [jwkOf(KEY)] })
  const folder = t.testdir({
    allowed: { 'keys.json': keys, deeper: { 'keys.json': keys }, link: t.fixture('symlink', '../outside/keys.json') },
    allowed2: { 'keys.json': keys },
    outside: { 'keys.json': keys }
  })
  const sluice = await startSluice(t, { options: { JWT_KEY_FOLDERS: `${folder}/allowed,${folder}/absent` } })
  const backend = await create(sluice, '/backends/http_response', { status_code: 200, body: 'in' })
  const { route } = await site(sluice, HOST, { backend: { backend_id: backend.id } })
  const put = (path: string) =>
    account(sluice)(`${route}/traffic_policy`, {
      method: 'PUT',
      body: { value: policy(configFor({ files: [path] }, { algorithms: ['ES256'] })) }
    })
  const token = await sign(KEY, { claims: { roles: ['admin'] } })
  const ask = async () => {
    const { status, headers } = await visit(sluice, HOST, { headers: { authorization: `Bearer ${token}` } })
    return `${status} ${headers['sluice-error-code'] ?? ''}`.trim()
  }
  for (const path of ['allowed/keys.json', 'allowed/deeper/keys.json', 'outside/../allowed/keys.json']) {
    t.equal((await put(`${folder}/${path}`)).status, 200, path)
    t.equal(await ask(), '200', path)
  }
  for (const path of ['outside/keys.json', 'allowed/../outside/keys.json', 'allowed2/keys.json', 'allowed']) {
    const refused = await put(`${folder}/${path}`)
    t.equal(refused.status, 400, path)
    t.match(refused.json, {
      error_code: 'ERR_SLUICE_POLICY_KEYS_FORBIDDEN',
      msg: /no folder that keys may be read from \(option jwt\.key_folders\): allowed are/
    })
  }
  t.equal(await ask(), '200', 'what is refused changes nothing')
  t.equal((await put(`${folder}/allowed/link`)).status, 200)
  t.equal(await ask(), '503 JWT_KEYS_UNAVAILABLE')
  const line = await sluice.line(({ msg }) => msg === 'the keys of tokens could not be loaded')
  t.match(line, { reason: /outside the folders/ })
})
