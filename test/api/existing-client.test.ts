import { createRequire } from 'node:module'
import t, { type Test } from 'tap'
import { openAccount } from './account.js'
import { KEY } from './asking.js'

/** The published TypeScript client of this API, unmodified. It is older than some fields and resources. */
const PACKAGE = '@ngrok/ngrok-api'

type Item = Record<string, unknown> & { readonly id: string }

interface Service {
  create(body: object): Promise<Item>
  get(id: unknown): Promise<Item>
  list(beforeId?: string, limit?: string): Promise<Item[]>
  update(body: object): Promise<Item>
  replace(body: object): Promise<Item>
  delete(id: unknown): Promise<void>
}

type Services = { readonly [name: string]: Service }
type Client = Services & { readonly backends: Services; readonly edges: Services; readonly edgeModules: Services }

const require = createRequire(import.meta.url)

async function connect(t: Test): Promise<Client> {
  const { host, port } = await openAccount(t, { ownBase: true })
  const { Ngrok } = require(PACKAGE)
  return new Ngrok({ apiToken: KEY, baseUrl: `http://${host}:${port}` })
}

/** Its `delete` reads JSON from the empty body of a 204, so success looks like a SyntaxError. */
async function remove(service: Service, id: unknown): Promise<void> {
  try {
    await service.delete(id)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
}

/** Status of the error that the client throws; undefined when it throws none. */
async function statusOf(call: Promise<unknown>): Promise<unknown> {
  try {
    await call
    return undefined
  } catch (error) {
    return (error as { readonly statusCode?: unknown }).statusCode
  }
}

async function life(t: Test, service: Service | undefined, create: object, change: object) {
  if (service === undefined) return t.fail('the client does not know it')
  const made = await service.create(create)
  t.match(await service.get(made.id), { id: made.id })
  t.ok((await service.list()).some(({ id }) => id === made.id))
  t.match(await service.update({ id: made.id, ...change }), change)
  await remove(service, made.id)
  t.equal(await statusOf(service.get(made.id)), 404)
  return undefined
}

t.test('an existing client creates, reads, lists, changes and deletes', async (t) => {
  const client = await connect(t)
  const text = { description: 'changed' }
  const policy = await (client.ipPolicies as Service).create({ description: 'd' })
  const tunnels = await (client.backends.tunnelGroupBackends as Service).create({ labels: { app: 'web' } })
  await life(t, client.botUsers, { name: 'a' }, { name: 'b' })
  await life(t, client.ipPolicies, {}, text)
  await life(
    t,
    client.ipPolicyRules,
    { ipPolicyId: policy.id, cidr: '10.0.0.0/8', action: 'deny' },
    { cidr: '11.0.0.0/8' }
  )
  await life(t, client.ipRestrictions, { type: 'agent', ipPolicyIds: [policy.id] }, { enforced: true })
  await life(t, client.credentials, { acl: ['bind:*.a.test'] }, { acl: [] })
  await life(t, client.apiKeys, {}, text)
  await life(t, client.reservedDomains, { domain: 'a.test' }, text)
  await life(t, client.agentIngresses, { domain: 'b.test' }, text)
  await life(t, client.sshCertificateAuthorities, { privateKeyType: 'ed25519' }, text)
  await life(t, client.backends.tunnelGroupBackends, { labels: { app: 'web' } }, text)
  await life(t, client.backends.staticBackends, { address: 'a.test:80', tls: { enabled: false } }, text)
  await life(t, client.backends.failoverBackends, { backends: [tunnels.id] }, text)
  await life(t, client.backends.httpResponseBackends, { body: 'a', statusCode: 404 }, { body: 'b' })
  await life(t, client.edges.edgesTcp, { hostports: ['a.test:2000'], backend: { backendId: tunnels.id } }, text)
  await life(t, client.edges.edgesHttps, { hostports: ['a.test:443'] }, text)
  await life(t, client.eventSubscriptions, { sources: [{ type: 'ip_policy_created.v0' }], destinationIds: [] }, text)
})

t.test('an existing client replaces, reads and removes modules', async (t) => {
  const client = await connect(t)
  const { edgesHttps, edgesHttpsRoutes } = client.edges as Record<'edgesHttps' | 'edgesHttpsRoutes', Service>
  const edge = await edgesHttps.create({})
  const route = await edgesHttpsRoutes.create({ edgeId: edge.id, matchType: 'path_prefix', match: '/' })
  const path = { edgeId: edge.id, id: route.id }
  t.match(await edgesHttpsRoutes.update({ ...path, match: '/b' }), { match: '/b' })
  const bodies: [string, object][] = [
    [
      'edgeRouteCircuitBreakerModule',
      { trippedDuration: 5, rollingWindow: 10, numBuckets: 5, volumeThreshold: 3, errorThresholdPercentage: 0.2 }
    ],
    ['edgeRouteWebhookVerificationModule', { provider: 'github', secret: 's' }],
    ['edgeRouteCompressionModule', { enabled: false }]
  ]
  for (const [name, body] of bodies) {
    const service = client.edgeModules[name]
    if (service === undefined) return t.fail(`the client does not know ${name}`)
    t.match(await service.replace({ ...path, module: body }), body)
    t.match(await service.get(path), body)
    await remove(service, path)
    t.equal(await statusOf(service.get(path)), 404, name)
  }
  return undefined
})

t.test('an existing client follows pages to their end', async (t) => {
  const client = await connect(t)
  const service = client.ipPolicies as Service
  const ids: string[] = []
  for (let count = 0; count < 7; count++) ids.push((await service.create({})).id)
  const listed = await service.list(undefined, '3')
  t.same(
    listed.map(({ id }) => id),
    ids.reverse()
  )
})

t.test('the Python client, which sends zeros for what nobody set, creates and updates', async (t) => {
  const { ask } = await openAccount(t)
  const made = async (path: string, body: object) => {
    const answer = await ask(path, { method: 'POST', body })
    t.equal(answer.status, 201, `${path}: ${answer.text}`)
    return answer.json
  }
  const changed = async (path: string, body: object, expected: object) => {
    const answer = await ask(path, { method: 'PATCH', body })
    t.match(answer, { status: 200, json: expected }, answer.text)
  }
  const described = { description: '', metadata: '' }
  const authority = { ...described, private_key_type: '', elliptic_curve: '', key_size: 0 }
  t.match(await made('/ssh_certificate_authorities', authority), { key_type: 'ed25519' })
  t.match(await made('/ssh_certificate_authorities', { ...authority, private_key_type: 'ecdsa' }), {
    key_type: 'ecdsa'
  })
  const backend = await made('/backends/static', { ...described, address: '127.0.0.1:80', tls: {} })
  await changed(`/backends/static/${backend.id}`, { description: 'd', address: '' }, { address: '127.0.0.1:80' })
  const edge = await made('/edges/https', { ...described, hostports: ['a.test:443'] })
  const route = { match_type: '', match: '/', ...described, backend: { enabled: true, backend_id: backend.id } }
  const { id, uri } = await made(`/edges/https/${edge.id}/routes`, route)
  const path = new URL(uri).pathname
  await changed(path, { match_type: '', match: '', description: 'd' }, { id, match: '/', match_type: 'path_prefix' })
  t.match(await ask(`${path}/backend`, { method: 'PUT', body: {} }), {
    status: 400,
    json: { details: { field: 'backend_id' } }
  })
  const vault = await made('/vaults', { ...described, name: 'v' })
  const secret = { ...described, name: 's', value: 'x', vault_id: vault.id, vault_name: '' }
  const { id: secretId } = await made('/vault_secrets', secret)
  await made('/vault_secrets', { ...secret, name: 't', vault_id: '', vault_name: 'v' })
  await changed(`/vault_secrets/${secretId}`, { name: '', value: '', description: 'd' }, { name: 's' })
  const sources = [{ type: 'http_request_complete.v0', fields: ['conn.client_ip'], filter: '' }]
  const subscription = await made('/event_subscriptions', { ...described, sources, destination_ids: [] })
  const source = `/event_subscriptions/${subscription.id}/sources/${sources[0]?.type}`
  await changed(source, { type: '', fields: [], filter: '' }, { fields: ['conn.client_ip'] })
  await changed(
    `/event_subscriptions/${subscription.id}`,
    { sources: [] },
    { sources: [{ fields: ['conn.client_ip'] }] }
  )
  const bot = await made('/bot_users', { name: 'b', active: true })
  const key = await made('/api_keys', { ...described, owner_id: bot.id })
  const own = await ask('/credentials', {
    method: 'POST',
    body: { ...described, acl: [], owner_id: '' },
    key: key.token
  })
  t.match(own, { status: 201, json: { owner_id: bot.id } }, 'a member names nobody else as the owner')
  t.match(await ask('/bot_users', { method: 'POST', body: { name: '' } }), { status: 400 }, 'what is required stays so')
})
