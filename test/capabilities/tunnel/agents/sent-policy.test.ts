import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { account, create, site, visit } from '../../../helpers/account.js'
import { until } from '../../../helpers/until.js'
import { ourAgent } from '../our-agent.js'
import { Upstream } from '../upstream.js'
import { startProduct } from './product.js'

const HOST = 'app.example.com'
type Test = Parameters<typeof startProduct>[0]
type Json = Readonly<Record<string, unknown>>

const onRequest = (...actions: Json[]) => JSON.stringify({ on_http_request: [{ actions }] })
const answering = (body: string) => ({ type: 'custom-response', config: { status_code: 200, body } })

/** A product with a secret, an internal edge, an IP policy, a key file and a private server, and an agent with the narrowest rules. */
async function running(t: Test) {
  const folder = t.testdir({ 'key.pem': 'x' })
  const product = await startProduct(t, { options: { JWT_KEY_FOLDERS: folder, OUTBOUND_ALLOW_PRIVATE: 'on' } })
  const { sluice, agents } = product
  const vault = await create(sluice, '/vaults', { name: 'main' })
  await create(sluice, '/vault_secrets', { vault_id: vault.id, name: 'key', value: 'the-secret-value' })
  await site(sluice, 'api.internal', { traffic_policy: { value: onRequest(answering('inside')) } })
  const { id: addresses } = await create(sluice, '/ip_policies', {})
  const { token } = await product.credential({ acl: [`bind:${HOST}`, 'bind:127.0.0.1:40000'] })
  const upstream = await Upstream.start(t)
  const bind = async (policy: string, endpoint: 'https' | 'tcp' = 'https') => {
    const at = endpoint === 'tcp' ? '127.0.0.1:40000' : HOST
    const agent = await ourAgent.start(agents, token, { endpoint, at, target: upstream.port, policy })
    t.teardown(() => agent.close())
    return agent
  }
  return { sluice, bind, addresses, file: join(folder, 'key.pem') }
}

t.test(
  'what belongs to the account is refused by name when an agent binds with a policy that asks for it',
  async (t) => {
    const { bind, addresses, file } = await running(t)
    const http = (url: string) => onRequest({ type: 'http-request', config: { url } })
    const jwt = {
      issuer: { allow_list: [{ value: 'https://issuer.test' }] },
      audience: { allow_list: [{ value: 'a' }] },
      http: { tokens: [{ type: 'jwt', method: 'header', name: 'Authorization', prefix: 'Bearer ' }] },
      jws: { allowed_algorithms: ['RS256'], keys: { sources: { files: [file] } } }
    }
    const refused: [policy: string, why: RegExp][] = [
      [onRequest(answering("${secrets.get('main', 'key')}")), /secrets/],
      [
        JSON.stringify({
          on_http_request: [{ expressions: ["secrets.get('main', 'key') == 'x'"], actions: [answering('')] }]
        }),
        /secrets/
      ],
      [
        onRequest({
          type: 'http-request',
          config: { url: 'https://example.com', retry_condition: "secrets.get('main', 'key') == ''" }
        }),
        /secrets/
      ],
      [
        onRequest({ type: 'forward-internal', config: { url: 'http://api.internal' } }),
        /forward-internal .*internal endpoints/
      ],
      [onRequest({ type: 'forward-internal', config: { url: 'http://${req.host}.internal' } }), /forward-internal/],
      [http('http://api.internal/'), /internal endpoints \(api\.internal\)/],
      [http('http://API.internal./x'), /internal endpoints \(api\.internal\)/],
      [http('http://api.internal${req.url.path}'), /internal endpoints/],
      [onRequest({ type: 'restrict-ips', config: { ip_policies: [addresses] } }), /does not use IP policies/],
      [onRequest({ type: 'jwt-validation', config: jwt }), /KEYS_FORBIDDEN/]
    ]
    for (const [policy, why] of refused) await t.rejects(bind(policy), why, policy)
    const tls = (config: Json) => JSON.stringify({ on_tcp_connect: [{ actions: [{ type: 'terminate-tls', config }] }] })
    await t.rejects(bind(tls({}), 'tcp'), /does not use certificates of the account/)
  }
)

t.test('what is only known later leads no agent inside either', async (t) => {
  const { sluice, bind } = await running(t)
  const server = createServer((_request, response) => response.end('private')).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const told = '${actions.service.http_request.error.code}'
  const policy = onRequest({ type: 'http-request', config: { url: '${req.headers["x-to"][0]}' } }, answering(told))
  await bind(policy)
  const asked = async (to: string) => (await visit(sluice, HOST, { headers: { 'x-to': to } })).body
  for (const to of ['http://api.internal/', 'http://api.internal./', 'http://API.INTERNAL:443/']) {
    t.equal(await asked(to), 'ENDPOINT_UNNAMED', to)
  }
  const { port } = server.address() as AddressInfo
  t.not(await asked(`http://127.0.0.1:${port}/`), '', 'private networks are opened to policies of the account alone')
})

t.test('the policies of the account keep their rights', async (t) => {
  const { sluice } = await running(t)
  const policy = onRequest(
    { type: 'http-request', config: { url: 'http://api.internal/' } },
    answering("${actions.service.http_request.res.body} ${secrets.get('main', 'key')}")
  )
  await site(sluice, 'account.example.com', { traffic_policy: { value: policy } })
  t.equal((await visit(sluice, 'account.example.com')).body, 'inside the-secret-value')
})

t.test('limits of a policy that an agent sends are shown with its endpoint, and gone with it', async (t) => {
  const { sluice, bind } = await running(t)
  const ask = account(sluice)
  const config = { name: 'sent', algorithm: 'sliding_window', capacity: 1, rate: '60s', bucket_key: ['req.method'] }
  const agent = await bind(onRequest({ type: 'rate-limit', config }))
  t.same([(await visit(sluice, HOST)).status, (await visit(sluice, HOST)).status], [200, 429])
  const [limit] = (await ask('/limits?text=sent')).json.limits
  t.match(limit, {
    owner: { kind: 'endpoint', id: `ephemeral/https/${HOST}`, name: `${HOST}/`, uri: null },
    policy: { source: `ephemeral/https/${HOST}` },
    admitted: 1,
    refused: 1
  })
  const reset = await ask(`/limits/${limit.id}/buckets?key=GET`, { method: 'DELETE' })
  t.match([reset.status, reset.json], [200, { used: 0 }])
  t.equal((await visit(sluice, HOST)).status, 200)
  await agent.close()
  await until(async () => (await ask('/limits?text=sent')).json.total === 0)
  t.equal((await ask(`/limits/${limit.id}`)).status, 404)
})

t.test('a policy of an agent with very many rules is refused before it is compiled', async (t) => {
  const { bind } = await running(t)
  const many = (count: number) => `on_http_request:\n${'  - actions: [{type: deny}]\n'.repeat(count)}`
  await t.rejects(bind(many(501)), /limited to 500 rules; this one has 501/)
  await t.rejects(bind(`on_http_request:\n${'  - actions: []\n'.repeat(8_000)}`), /limited to 500 rules/)
  await t.resolves(bind(many(500)))
})
