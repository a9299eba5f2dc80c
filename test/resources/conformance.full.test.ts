import t, { type Test } from 'tap'
import type { TSchema } from 'typebox'
import Schema from 'typebox/schema'
import { present, presentList } from '../../src/resources/present.js'
import { readCreate, readUpdate } from '../../src/resources/read.js'
import { resources } from '../../src/resources/registry.js'
import { claimsOf, EVENT_NOUNS, linksOf, type Resource } from '../../src/resources/resource.js'
import type { Field } from '../../src/schema/field.js'
import { createSchema, listSchema, responseSchema, updateSchema } from '../../src/schema/json-schema.js'
import type { Schema as Declared } from '../../src/schema/schema.js'
import { clock, context, created, EDGE, idOf, options, problemsOf, updated } from './bench.js'
import { type Bodies, bodies, MARK } from './bodies.js'

const writable = resources.filter(({ operations }) => operations.includes('create'))
const fieldsOf = (resource: Resource) => Object.entries<Field>(resource.fields)
const propertiesOf = (schema: TSchema) => (schema as unknown as { properties: Record<string, TSchema> }).properties
const fits = (schema: TSchema, value: unknown) => Schema.Check(schema as never, value as never)
const given = (body: object) => Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null))

/** Values of every JSON type. */
const JSON_VALUES = [true, 7.5, -1, 'text that fits nothing \u0001', [], [7.5], [[]], {}, { surely_unknown: 1 }]

for (const resource of writable) {
  const sample = bodies[resource.name]
  t.test(resource.name, async (t) => {
    if (sample === undefined) return t.fail('there are no bodies for it')
    await t.test('the sample bodies give every field', async (t) => {
      t.same(Object.keys(sample.full).sort(), Object.keys(propertiesOf(createSchema(resource))).sort())
      t.same(Object.keys(sample.change).sort(), Object.keys(propertiesOf(updateSchema(resource))).sort())
    })
    await t.test('creation', (t) => creation(t, resource, sample))
    await t.test('what a creation refuses', (t) => refusals(t, resource, sample))
    await t.test('bounds of texts, numbers, lists and maps', (t) => bounds(t, resource, sample))
    await t.test('update', (t) => update(t, resource, sample))
    await t.test('answers', (t) => answers(t, resource, sample))
    await t.test('secrets are kept apart', (t) => secrets(t, resource, sample))
    return undefined
  })
}

async function creation(t: Test, resource: Resource, { full }: Bodies) {
  const schema = createSchema(resource)
  t.ok(fits(schema, given(full)), 'the schema takes the full body')
  t.match(readCreate(resource, full, options), { ok: true })
  const required = requiredOf(resource)
  const least = Object.fromEntries(required.map((key) => [key, full[key]]))
  t.ok(fits(schema, least), 'the schema takes the required fields alone')
  const { record } = await created(resource, least)
  t.ok(record.id.startsWith(`${resource.idPrefix}_`))
  t.equal(record.kind, resource.name)
  t.match(record.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  for (const [name, field] of fieldsOf(resource)) {
    const written = Object.hasOwn(least, field.requestName(name)) || field.settable === 'never'
    if (!written && field.onCreate === undefined && field.kept && field.settable !== 'path') {
      if (name !== 'extensions' && name !== 'addr' && !name.startsWith('valid_'))
        t.same(record.body[name], field.initial, name)
    }
    if (!field.kept) t.notOk(Object.hasOwn(record.body, name), `${name} is not stored`)
  }
  for (const key of required) {
    const { [key]: _, ...rest } = full
    t.same(problemsOf(readCreate(resource, rest, options)), [`${key} FIELD_REQUIRED`])
    t.same(problemsOf(readCreate(resource, { ...full, [key]: null }, options)), [`${key} FIELD_REQUIRED`])
    t.notOk(fits(schema, rest), `the schema requires ${key}`)
  }
  const nulls = Object.fromEntries(Object.keys(full).map((key) => [key, required.includes(key) ? full[key] : null]))
  t.match(readCreate(resource, nulls, options), { ok: true }, 'null is as good as nothing')
}

function requiredOf(resource: Resource): string[] {
  return fieldsOf(resource)
    .filter(([, { required, settable }]) => required && settable !== 'path')
    .map(([name, { requestName }]) => requestName(name))
}

async function refusals(t: Test, resource: Resource, { full }: Bodies) {
  for (const body of [undefined, null, 1, 'x', [], [full]]) {
    t.same(problemsOf(readCreate(resource, body, options)), [' FIELD_INVALID'])
  }
  const strange = ['surely_unknown', 'uri', 'created_at', '__proto__', 'constructor', 'toString']
  const made = fieldsOf(resource)
    .filter(([name, { settable, requestName }]) => settable === 'never' && requestName(name) === name)
    .map(([name]) => name)
  for (const key of [...strange, ...made]) {
    const body = JSON.parse(`{${JSON.stringify(key)}: 1}`)
    const read = readCreate(
      resource,
      Object.defineProperties({ ...full }, Object.getOwnPropertyDescriptors(body)),
      options
    )
    t.same(problemsOf(read), [`${key} FIELD_UNKNOWN`])
  }
  t.equal(Object.getPrototypeOf({}), Object.prototype)
  for (const [name, field] of fieldsOf(resource)) {
    if (field.request === undefined || field.settable === 'update') continue
    const key = field.requestName(name)
    for (const value of JSON_VALUES) {
      if (fits(field.request, value)) continue
      const problems = problemsOf(readCreate(resource, { ...full, [key]: value }, options))
      t.ok(problems.length > 0, `${key} must not be ${JSON.stringify(value)}`)
      t.ok(
        problems.every((problem) => problem.startsWith(key)),
        `${problems} is about ${key}`
      )
    }
  }
  const unknowns = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`u${index}`, index]))
  t.equal(problemsOf(readCreate(resource, unknowns, options)).length, 50, 'all problems at once, up to a bound')
}

async function bounds(t: Test, resource: Resource, { full }: Bodies) {
  for (const [name, field] of fieldsOf(resource)) {
    if (field.request === undefined || field.settable === 'update') continue
    const key = field.requestName(name)
    const codes = (value: unknown) => problemsOf(readCreate(resource, { ...full, [key]: value }, options))
    const schema = field.request as Declared
    if (schema.type === 'string' && schema.maxLength !== undefined) {
      const [most, bytes] = [schema.maxLength, schema['x-max-bytes']]
      t.same(codes('x'.repeat(most + 1)), [`${key} TOO_LONG`])
      if (bytes !== undefined) t.same(codes('é'.repeat(Math.floor(bytes / 2) + 1)), [`${key} TOO_LONG`], 'bytes count')
      t.same(codes('a\ud800b'), [`${key} FIELD_INVALID`], 'half a character')
      t.same(codes('a\0b'), [`${key} FIELD_INVALID`], 'NUL')
      const free = schema['x-form'] === undefined && !/pem|public_key|hash_key|traffic_policy/.test(key)
      if (free) t.same(codes('x'.repeat(most)), [])
      if (free && bytes === undefined) t.same(codes('🙂'.repeat(most)), [], 'characters count')
      if (free && bytes !== undefined) t.same(codes('é'.repeat(Math.floor(bytes / 2))), [])
    }
    if (schema.type === 'string' && schema.minLength === 1) t.equal(codes('').length, 1, `${key} must not be empty`)
    if (schema.type === 'integer' && schema.minimum !== undefined && schema.maximum !== undefined) {
      for (const value of [schema.minimum, schema.maximum]) t.same(codes(value), [])
      for (const value of [schema.minimum - 1, schema.maximum + 1, schema.minimum + 0.5, String(schema.minimum)]) {
        t.same(codes(value), [`${key} FIELD_INVALID`])
      }
    }
    if (schema.enum !== undefined)
      for (const value of ['', 'other', 0, 'ED25519']) if (value !== 0) t.equal(codes(value).length, 1)
    if (schema.type === 'array' && schema.maxItems !== undefined) {
      const [first] = full[key] as unknown[]
      t.same(codes(Array.from({ length: schema.maxItems + 1 }, () => first)), [`${key} TOO_MANY`])
    }
    if (
      schema.maxProperties !== undefined &&
      schema.additionalProperties !== undefined &&
      typeof schema.additionalProperties === 'object'
    ) {
      const many = Object.fromEntries(
        Array.from({ length: schema.maxProperties + 1 }, (_, index) => [`k${index}`, 'v'])
      )
      t.ok(codes(many).includes(`${key} TOO_MANY`))
    }
  }
}

async function update(t: Test, resource: Resource, { full, change }: Bodies) {
  const schema = updateSchema(resource)
  const { record } = await created(resource, full)
  t.ok(fits(schema, change), 'the schema takes every change')
  t.ok(fits(schema, {}))
  clock.advance(5000)
  const untouched = await updated(resource, record, {})
  for (const [name, field] of fieldsOf(resource)) {
    if (field.onUpdate === undefined) t.same(untouched.body[name], record.body[name], `${name} stays`)
  }
  t.same(untouched.secrets, record.secrets)
  t.equal(untouched.id, record.id)
  t.equal(untouched.createdAt, record.createdAt)
  for (const [name, field] of fieldsOf(resource)) {
    const key = field.requestName(name)
    if (field.settable === 'create') {
      t.same(problemsOf(readUpdate(resource, record, { [key]: full[key] }, options)), [`${key} IMMUTABLE`])
      t.notOk(fits(schema, { [key]: full[key] }))
    }
    if (!Object.hasOwn(change, key)) continue
    const after = await updated(resource, record, { [key]: change[key] })
    t.same(after.body[name], (await updated(resource, record, change)).body[name], `${name} alone`)
    for (const [other, { settable }] of fieldsOf(resource)) {
      // A certificate is uploaded or managed: one of the two ends the other.
      if (other === name || other.startsWith('certificate') || settable === 'never') continue
      t.same(after.body[other], record.body[other], `${other} stays when ${name} changes`)
    }
    const nulled = readUpdate(resource, record, { [key]: null }, options)
    // A balance by hash and its key need each other.
    if (key === 'balance' || key === 'hash_key') {
      t.notOk(nulled.ok, `${key} is not cleared alone`)
      continue
    }
    if (field.onNull === 'unchanged') t.same(nulled.ok && nulled.input.body[name], record.body[name])
    else if (field.onNull === 'refused') t.same(problemsOf(nulled), [`${key} FIELD_INVALID`])
    else if (field.required) t.same(problemsOf(nulled), [`${key} FIELD_REQUIRED`])
    else t.same(nulled.ok && nulled.input.body[name], field.initial, `null clears ${key}`)
    t.equal(fits(schema, { [key]: null }), nulled.ok, `the schema agrees about null for ${key}`)
  }
  t.same(problemsOf(readUpdate(resource, record, { surely_unknown: 1 }, options)), ['surely_unknown FIELD_UNKNOWN'])
}

async function answers(t: Test, resource: Resource, { full, change }: Bodies) {
  const schema = responseSchema(resource)
  const keys = (schema as unknown as { required: string[] }).required
  const least = Object.fromEntries(requiredOf(resource).map((key) => [key, full[key]]))
  const first = await created(resource, full)
  const records = [first.record, (await created(resource, least)).record, await updated(resource, first.record, change)]
  // A record that an older version stored, before the optional fields existed.
  const before = Object.entries(first.record.body).filter(([name]) => resource.fields[name]?.required === true)
  const old = { ...first.record, body: Object.fromEntries(before) }
  for (const record of [...records, old]) {
    const answer = JSON.parse(JSON.stringify(present(resource, record, context)))
    t.same(Object.keys(answer), keys, 'every documented key and no other')
    t.ok(fits(schema, answer), JSON.stringify([...Schema.Errors(schema as never, answer as never)[1]].slice(0, 2)))
  }
  const path = resource.path.replace('{edge_id}', EDGE)
  const answer = present(resource, first.record, context, first.once)
  const base = resource.relativeUri === true ? '' : context.baseUrl
  t.equal(answer.uri, `${base}${path}/${first.record.id}`)
  const item = responseSchema(resource)
  const parents = { edge_id: EDGE }
  const page = presentList(resource, records, { limit: 3, next: first.record.id, parents }, context)
  t.ok(fits(listSchema(resource, item), JSON.parse(JSON.stringify(page))))
  t.equal((page[resource.listKey] as unknown[]).length, 3)
  t.equal(page.uri, `${context.baseUrl}${path}`)
  t.equal(page.next_page_uri, `${context.baseUrl}${path}?before_id=${first.record.id}&limit=3`)
  t.equal(presentList(resource, [], { limit: 100, parents }, context).next_page_uri, null)
  const text = JSON.stringify(answer)
  for (const link of linksOf(resource, first.record)) {
    const target = resources.find(({ name }) => name === link.kind)
    t.ok(target !== undefined && link.id.startsWith(`${target.idPrefix}_`), `${link.field} links to a record`)
    const uri = `${context.baseUrl}${target?.path}/${link.id}`
    const plain = !text.includes(`"id":"${link.id}"`)
    t.ok(plain || text.includes(uri), `${link.id} comes with its uri`)
    if (target?.name !== 'https_edge') {
      t.ok(resources.indexOf(target!) < resources.indexOf(resource), `${link.kind} stands before ${resource.name}`)
    }
  }
  for (const { space, value } of claimsOf(resource, first.record)) t.ok(space !== '' && value !== '')
}

async function secrets(t: Test, resource: Resource, { full, change }: Bodies) {
  const { record, once } = await created(resource, full)
  const sent = Object.values(record.secrets)
  const marks = [...sent, ...Object.values(once), MARK].map(String)
  const shown = JSON.stringify(present(resource, record, context))
  const stored = JSON.stringify(record.body)
  for (const mark of marks) {
    t.notOk(shown.includes(JSON.stringify(mark).slice(1, -1)), 'no secret is shown')
    t.notOk(stored.includes(JSON.stringify(mark).slice(1, -1)), 'no secret is stored in the open')
  }
  t.equal(JSON.stringify(full).split(MARK).length - 1, sent.filter((text) => text.includes(MARK)).length)
  const list = presentList(resource, [record], { limit: 1 }, { ...context, showSecrets: () => true })
  t.notOk(JSON.stringify(list).includes(MARK), 'no list shows a secret, whoever asks')
  for (const problem of [
    readCreate(resource, { ...full, surely_unknown: MARK }, options),
    readUpdate(resource, record, { ...change, surely_unknown: MARK }, options)
  ]) {
    t.notOk(JSON.stringify(problem).includes(MARK), 'no problem repeats what was sent')
  }
}

t.test('the registry', async (t) => {
  const unique = (values: readonly string[]) => t.same(values, [...new Set(values)])
  unique(resources.map(({ name }) => name))
  unique(resources.map(({ path }) => path))
  unique(resources.map(({ idPrefix }) => idPrefix))
  const nouns = [...new Set(resources.flatMap(({ events }) => events ?? []))]
  const others = EVENT_NOUNS.filter((noun) => noun !== 'site_file')
  t.same(nouns.sort(), [...others].sort(), 'every event noun but that of the site file has a resource')
  const expected = {
    '/credentials': ['credentials', 'cr'],
    '/ip_policies': ['ip_policies', 'ipp'],
    '/ip_policy_rules': ['ip_policy_rules', 'ipr'],
    '/ip_restrictions': ['ip_restrictions', 'ipx'],
    '/reserved_domains': ['reserved_domains', 'rd'],
    '/agent_ingresses': ['ingresses', 'agin'],
    '/edges/tcp': ['tcp_edges', 'edgtcp'],
    '/edges/tls': ['tls_edges', 'edgtls'],
    '/edges/https': ['https_edges', 'edghts'],
    '/edges/https/{edge_id}/routes': ['routes', 'edghtsrt'],
    '/backends/tunnel_group': ['backends', 'bkdtg'],
    '/backends/static': ['backends', 'bkdsc'],
    '/backends/http_response': ['backends', 'bkdhr'],
    '/backends/file': ['backends', 'bkdfl'],
    '/backends/weighted': ['backends', 'bkdwd'],
    '/backends/failover': ['backends', 'bkdfo'],
    '/tls_certificates': ['tls_certificates', 'cert'],
    '/certificate_authorities': ['certificate_authorities', 'ca'],
    '/ssh_certificate_authorities': ['ssh_certificate_authorities', 'sshca'],
    '/ssh_host_certificates': ['ssh_host_certificates', 'shcrt'],
    '/ssh_user_certificates': ['ssh_user_certificates', 'sucrt'],
    '/vault_secrets': ['secrets', 'secret'],
    '/vaults': ['vaults', 'vault'],
    '/bot_users': ['bot_users', 'bot'],
    '/api_keys': ['keys', 'ak'],
    '/event_subscriptions': ['event_subscriptions', 'esb'],
    '/event_destinations': ['event_destinations', 'ed'],
    '/tunnel_sessions': ['tunnel_sessions', 'ts'],
    '/tunnels': ['tunnels', 'tn'],
    '/endpoints': ['endpoints', 'ep'],
    '/app/users': ['application_users', 'au'],
    '/app/sessions': ['application_sessions', 'as'],
    '/ssh_credentials': ['ssh_credentials', 'sshcr'],
    '/reserved_addrs': ['reserved_addrs', 'ra'],
    '/abuse_reports': ['abuse_reports', 'abrp'],
    '/kubernetes_operators': ['operators', 'k8sop']
  }
  t.same(Object.fromEntries(resources.map(({ path, listKey, idPrefix }) => [path, [listKey, idPrefix]])), expected)
  for (const resource of resources.filter((one) => !writable.includes(one))) {
    const record = {
      kind: resource.name,
      id: idOf(resource.idPrefix),
      createdAt: '2026-01-01T00:00:00Z',
      body: {},
      secrets: {}
    }
    const answer = JSON.parse(JSON.stringify(present(resource, record, context)))
    t.ok(fits(responseSchema(resource), answer), `${resource.name} can be shown`)
    t.same(resource.operations, resource.path.startsWith('/app/') ? ['get', 'list', 'delete'] : ['get', 'list'])
    t.same(propertiesOf(createSchema(resource)), {})
  }
})

t.test('answers have the documented keys', async (t) => {
  const described = 'id uri created_at description metadata'
  const management = 'certificate_management_policy certificate_management_status'
  const modules = 'backend ip_restriction traffic_policy'
  const subject = 'organization organizational_unit locality province country'.replace(/\w+/g, 'subject_$&')
  const facts = 'subject_common_name not_before not_after key_usages extended_key_usages'
  const documented: Readonly<Record<string, string>> = {
    credential: `${described} token acl owner_id`,
    ip_policy: described,
    ip_policy_rule: `${described} cidr action ip_policy`,
    ip_restriction: `${described} enforced type ip_policies`,
    reserved_domain: `${described} domain region resolves_to cname_target certificate ${management} acme_challenge_cname_target error_redirect_url http_endpoint_configuration https_endpoint_configuration is_dev`,
    agent_ingress: `${described} domain ns_targets region_domains ${management}`,
    tcp_edge: `${described} hostports tls ${modules} policy_tests policy`,
    tls_edge: `${described} hostports ${modules} mutual_tls tls_termination policy_tests policy`,
    tunnel_group_backend: `${described} balance hash_key labels states sticky tunnels`,
    tls_certificate: `${described} certificate_pem ${facts} subject_alternative_names issued_at private_key_type issuer_common_name serial_number ${subject}`,
    certificate_authority: `${described} ca_pem ${facts} crl_pem revoked_serial_numbers crl_next_update`,
    ssh_certificate_authority: `${described} public_key key_type`,
    vault_secret: `${described} updated_at name created_by last_updated_by vault`,
    bot_user: 'id uri created_at name active',
    event_subscription: `${described} sources destinations`,
    https_edge: `${described} hostports mutual_tls tls_termination on_http hsts path_form routes`,
    https_edge_route: `${described} owner_id edge_id match_type match ${modules} error_pages circuit_breaker compression request_headers response_headers webhook_verification oauth saml oidc websocket_tcp_converter user_agent_filter cors grpc_web policy_tests policy`,
    vault: `${described} updated_at name usable_by created_by last_updated_by`,
    api_key: `${described} token owner_id`,
    event_destination: `${described} format target delivery`,
    ssh_host_certificate: `${described} public_key key_type ssh_certificate_authority_id principals valid_after valid_until certificate`,
    endpoint: `${described} updated_at source type proto scheme url public_url hostport host port region upstream_url upstream_protocol name principal edge domain tcp_addr tunnel tunnel_session traffic_policy bindings pooling_enabled`,
    ssh_user_certificate: `${described} public_key key_type ssh_certificate_authority_id principals critical_options extensions valid_after valid_until certificate`
  }
  for (const [name, keys] of Object.entries(documented)) {
    const resource = resources.find((one) => one.name === name)!
    t.same(Object.keys(propertiesOf(responseSchema(resource))).sort(), keys.split(' ').sort(), name)
  }
})

t.test('no body makes a reader throw, and what it takes the schema takes', async (t) => {
  let state = 42
  const random = (below: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return (state >>> 8) % below
  }
  const pool: unknown[] = [null, true, 0, -1, 1e300, '', 'x', '*', idOf('ipp'), idOf('ca'), [], {}, '\ud800']
  const value = (depth: number): unknown => {
    const kind = random(depth > 3 ? 10 : 14)
    if (kind < 10) return pool[random(pool.length)]
    if (kind < 12) return Array.from({ length: random(4) }, () => value(depth + 1))
    return Object.fromEntries(
      Array.from({ length: random(4) }, () => [
        ['enabled', 'value', 'backend_id', '__proto__', 'github'][random(5)],
        value(depth + 1)
      ])
    )
  }
  let taken = 0
  for (const resource of writable) {
    const { full } = bodies[resource.name]!
    const keys = [...Object.keys(full), 'id', 'module', '__proto__']
    for (let round = 0; round < 150; round++) {
      const body: Record<string, unknown> = { ...full }
      for (let i = 0; i <= random(3); i++) body[keys[random(keys.length)]!] = value(0)
      const read = readCreate(resource, body, options)
      if (!read.ok) {
        t.ok(read.problems.length > 0 && read.problems.every(({ code, message }) => code !== '' && message !== ''))
        continue
      }
      taken++
      const sent = JSON.parse(JSON.stringify(given(body)), (_key, inner) => (inner === null ? undefined : inner))
      if (!fits(createSchema(resource), sent)) t.fail(`${resource.name} takes ${JSON.stringify(sent).slice(0, 2000)}`)
    }
  }
  t.ok(taken > 100, `${taken} bodies were taken`)
})
