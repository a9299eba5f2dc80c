import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { reservedDomain } from '../../src/resources/domains.js'
import { readUpdate } from '../../src/resources/read.js'
import { created, idOf, options, problemsOf } from '../resources/bench.js'
import { bodies } from '../resources/bodies.js'
import { openAccount } from './account.js'
import { type NgrokAsk, ngrokClient } from './ngrok-client.js'
import { filled, memberOf, missing, runSteps, type Step } from './tool-scripts.js'

type Attributes = Readonly<Record<string, unknown>>

/** A resource of the provider: what a configuration says, and how the provider makes a state of an answer. */
interface Row {
  /** Name in configurations, after `ngrok_`. */
  readonly name: string
  readonly path: string
  /** Further collections that it needs. */
  readonly needs?: readonly string[]
  /** Requests that make what it refers to. */
  readonly before?: readonly Step[]
  /** Body of the creation: the attributes of the configuration; unset ones are left out. */
  readonly config: Attributes
  /** Attributes that a later configuration changes. */
  readonly change: Attributes
  /** Members of answers that attributes are read from, where they have other names. A list of references gives the list of their ids. */
  readonly from?: Readonly<Record<string, string>>
  /** Attributes of which the provider keeps what was written: no answer repeats them. */
  readonly hidden?: readonly string[]
  /** Attribute by which its data source looks it up, with a filter. */
  readonly lookup?: string
}

const texts = { description: 'what it is', metadata: '{"a":1}' }
const POLICY = '{"on_http_request":[{"actions":[{"type":"deny"}]}]}'
const OTHER = '{"on_http_request":[{"actions":[{"type":"deny","config":{"status_code":404}}]}]}'
const { certificate_pem, private_key_pem } = bodies.tls_certificate?.full ?? {}
const { ca_pem } = bodies.certificate_authority?.full ?? {}
const policy: Step = { method: 'POST', path: '/ip_policies', body: {}, as: 'policy' }
const destination: Step = {
  method: 'POST',
  path: '/event_destinations',
  body: { format: 'json', target: { datadog: { api_key: 'k', ddtags: 'a:b', service: 's', ddsite: 'datadoghq.com' } } },
  as: 'destination'
}

const ROWS: readonly Row[] = [
  { name: 'api_key', path: '/api_keys', config: texts, change: { description: 'new' }, hidden: ['token'] },
  {
    name: 'credential',
    path: '/credentials',
    config: { ...texts, acl: ['bind:*.example.com'] },
    change: { acl: ['bind:a.test', 'bind:b.test'] },
    hidden: ['token']
  },
  {
    name: 'domain',
    path: '/reserved_domains',
    config: { ...texts, domain: 'app.example.com', resolves_to: [{ value: 'global' }] },
    change: { description: 'new' },
    from: { certificate_id: 'certificate.id' },
    lookup: 'domain'
  },
  { name: 'tcp_address', path: '/reserved_addrs', config: texts, change: { description: 'new' }, lookup: 'addr' },
  {
    name: 'cloud_endpoint',
    path: '/endpoints',
    config: {
      ...texts,
      url: 'https://cloud.example.com',
      traffic_policy: POLICY,
      bindings: ['public'],
      pooling_enabled: false
    },
    change: { traffic_policy: OTHER },
    lookup: 'url'
  },
  { name: 'ip_policy', path: '/ip_policies', config: texts, change: { metadata: 'new' }, lookup: 'description' },
  {
    name: 'ip_policy_rule',
    path: '/ip_policy_rules',
    before: [policy],
    config: { ...texts, cidr: '192.0.2.0/24', ip_policy_id: '$policy', action: 'deny' },
    change: { cidr: '198.51.100.0/24' },
    from: { ip_policy_id: 'ip_policy.id' }
  },
  {
    name: 'ip_restriction',
    path: '/ip_restrictions',
    before: [policy],
    config: { ...texts, type: 'agent', ip_policy_ids: ['$policy'], enforced: false },
    change: { enforced: true },
    from: { ip_policy_ids: 'ip_policies' }
  },
  {
    name: 'certificate_authority',
    path: '/certificate_authorities',
    config: { ...texts, ca_pem },
    change: { description: 'new' }
  },
  {
    name: 'tls_certificate',
    path: '/tls_certificates',
    config: { ...texts, certificate_pem, private_key_pem },
    change: { description: 'new' },
    hidden: ['private_key_pem']
  },
  { name: 'service_user', path: '/service_users', config: { name: 'ci', active: true }, change: { active: false } },
  {
    name: 'agent_ingress',
    path: '/agent_ingresses',
    config: { ...texts, domain: 'connect.example.com' },
    change: { description: 'new' },
    lookup: 'domain'
  },
  {
    name: 'event_destination',
    path: '/event_destinations',
    config: {
      ...texts,
      format: 'json',
      target: {
        cloudwatch_logs: {
          log_group_arn: 'arn:aws:logs:us-east-1:123456789012:log-group:a',
          auth: { creds: { aws_access_key_id: 'AKIAIOSFODNN7EXAMPLE', aws_secret_access_key: 'k' } }
        }
      }
    },
    change: { description: 'new' },
    hidden: ['target']
  },
  {
    name: 'event_subscription',
    path: '/event_subscriptions',
    before: [destination],
    config: { ...texts, sources: [{ type: 'ip_policy_created.v0' }], destination_ids: ['$destination'] },
    change: { sources: [{ type: 'ip_policy_created.v0' }, { type: 'ip_policy_deleted.v0' }] },
    from: { destination_ids: 'destinations' }
  },
  {
    name: 'vault',
    path: '/vaults',
    config: { ...texts, name: 'production' },
    change: { description: 'new' },
    lookup: 'name'
  },
  {
    name: 'secret',
    path: '/vault_secrets',
    before: [{ method: 'POST', path: '/vaults', body: { name: 'v' }, as: 'vault' }],
    config: { ...texts, name: 'key', value: 'hidden', vault_id: '$vault' },
    change: { value: 'other' },
    from: { vault_id: 'vault.id' },
    hidden: ['value'],
    lookup: 'name'
  },
  {
    name: 'ssh_certificate_authority',
    path: '/ssh_certificate_authorities',
    config: { ...texts, private_key_type: 'ed25519' },
    change: { description: 'new' },
    from: { private_key_type: 'key_type' }
  },
  {
    name: 'ssh_credential',
    path: '/ssh_credentials',
    config: {
      ...texts,
      acl: ['bind:a.test'],
      public_key: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKL12HPVHSPC32vPW/OtqDp4JvMdtNbAyYLGImDzAYgz ann@laptop'
    },
    change: { acl: ['bind:b.test'] }
  }
]

/** Attributes that changes of a configuration replace instead of updating. */
const REPLACING = [
  'domain',
  'url',
  'ip_policy_id',
  'action',
  'type',
  'ca_pem',
  'certificate_pem',
  'private_key_pem',
  'private_key_type',
  'public_key',
  'vault_id'
]

/** The state that the provider makes of an answer: the computed attributes, and those of the configuration. */
function stateOf({ from = {}, hidden = [] }: Row, config: Attributes, answer: Attributes): Attributes {
  const names = [...Object.keys(config).filter((name) => !hidden.includes(name)), 'id', 'uri', 'created_at']
  return Object.fromEntries(
    names.map((name) => {
      const value = memberOf(answer, from[name] ?? name)
      const isRefs = Array.isArray(value) && value.every((one) => typeof one === 'object' && 'id' in one)
      if (isRefs) return [name, value.map(({ id }) => id)]
      // Texts that lack in an answer are empty for the provider.
      return [name, name === 'sources' ? (value as Attributes[]).map(({ type }) => ({ type })) : (value ?? '')]
    })
  )
}

/** Fails if an answer differs from the configuration, which is an error of the provider, or if a read would plan a change. */
function agrees(t: Test, row: Row, config: Attributes, state: Attributes, what: string) {
  for (const [name, value] of Object.entries(config)) {
    if (row.hidden?.includes(name) === true) continue
    const given = typeof value === 'string' ? value.trim() : value
    const read = typeof state[name] === 'string' ? String(state[name]).trim() : state[name]
    t.ok(
      isDeepStrictEqual(read, given),
      `${what}: ${name} is ${JSON.stringify(read)}, and the configuration says ${JSON.stringify(given)}`
    )
  }
}

async function life(t: Test, ask: NgrokAsk, row: Row) {
  const saved = await runSteps(t, ask, row.before ?? [])
  const config = filled(row.config, saved)
  const created = await ask(row.path, { method: 'POST', body: config })
  t.equal(created.status, 201, JSON.stringify(created.json))
  const item = `${row.path}/${created.json.id}`
  const state = stateOf(row, config, created.json)
  agrees(t, row, config, state, 'create')
  t.same(stateOf(row, config, (await ask(item)).json), state, 'a plan after the creation has no difference')
  const changed = { ...config, ...filled(row.change, saved) }
  const body = Object.fromEntries(Object.entries(changed).filter(([name]) => !REPLACING.includes(name)))
  const updated = await ask(item, { method: 'PATCH', body: { id: created.json.id, ...body } })
  t.equal(updated.status, 200, JSON.stringify(updated.json))
  const after = stateOf(row, changed, updated.json)
  agrees(t, row, changed, after, 'update')
  const read = (await ask(item)).json
  t.same(stateOf(row, changed, read), after, 'a plan after the update has no difference')
  t.same(stateOf(row, {}, read).id, created.json.id, 'an import reads it by its id')
  agrees(t, row, changed, stateOf(row, changed, read), 'import')
  await looksUp(t, ask, row, read)
  t.equal((await ask(item, { method: 'DELETE' })).status, 204)
  t.match(await ask(item), { status: 404, json: { status_code: 404 } }, 'a read removes it from the state')
  t.match(
    await ask(item, { method: 'DELETE' }),
    { status: 404, json: { status_code: 404 } },
    'a second deletion is done'
  )
}

/** The data source asks for a list with a filter, and needs exactly one object. */
async function looksUp(t: Test, ask: NgrokAsk, { path, lookup }: Row, read: Attributes) {
  if (lookup === undefined) return
  const query = new URLSearchParams({ filter: `obj.${lookup} == ${JSON.stringify(read[lookup])}` })
  const { status, json } = await ask(`${path}?${query}`)
  const list = Object.values<unknown>(json).find(Array.isArray) as readonly Attributes[]
  t.equal(status, 200)
  t.same(
    list.map(({ id }) => id),
    [read.id]
  )
  t.equal(json.next_page_uri, null)
}

for (const row of ROWS) {
  const waits = missing([row.path, ...(row.needs ?? [])])
  t.test(`ngrok_${row.name}`, waits.length > 0 ? { skip: `waits for ${waits.join(', ')}` } : {}, async (t) => {
    const { host, port, faults } = await openAccount(t, { ownBase: true })
    await life(t, ngrokClient(host, port), row)
    t.same(faults, [])
  })
}

t.test('a certificate that the service manages stays when an update names it beside its policy', async (t) => {
  const { host, port } = await openAccount(t)
  const ask = ngrokClient(host, port)
  const policy = { authority: 'letsencrypt', private_key_type: 'ecdsa' }
  const body = { domain: 'managed.example.com', certificate_management_policy: policy }
  const { json: made } = await ask('/reserved_domains', { method: 'POST', body })
  const update = { id: made.id, description: 'new', certificate_id: '', certificate_management_policy: policy }
  const updated = await ask(`/reserved_domains/${made.id}`, { method: 'PATCH', body: update })
  t.match(updated, { status: 200, json: { description: 'new', certificate_management_policy: policy } })
})

t.test('the automatic certificate beside its policy is no uploaded one', async (t) => {
  const issued = idOf('cert')
  const policy = { authority: 'letsencrypt', private_key_type: 'ecdsa' }
  const { record } = await created(reservedDomain, { domain: 'a.example.com', certificate_management_policy: policy })
  const before = { ...record, body: { ...record.body, certificate: issued } }
  const update = (certificate: string) =>
    readUpdate(reservedDomain, before, { certificate_id: certificate, certificate_management_policy: policy }, options)
  const same = update(issued)
  t.same(same.ok && [same.input.body.certificate, same.input.body.certificate_management_policy], [issued, policy])
  t.same(problemsOf(update(idOf('cert', 2))), ['certificate_id CONFLICTING_FIELDS'])
})
