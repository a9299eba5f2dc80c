import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { hashOf } from '../../src/lib/seal.js'
import {
  entriesOf,
  entryOf,
  present,
  presentPart,
  presentParts,
  readAddition,
  withoutEntry
} from '../../src/resources/present.js'
import { clearField, createRecord, readCreate, readUpdate, updateRecord } from '../../src/resources/read.js'
import { resources } from '../../src/resources/registry.js'
import { adminFields, claimsOf, linksOf, newLinks, type Resource } from '../../src/resources/resource.js'
import { FORMS, type FormName } from '../../src/schema/formats.js'
import { clock, context, created, EDGE, idOf, input, makers, options, problemsOf, updated } from './bench.js'
import { bodies } from './bodies.js'
import { authority, issue, x509 } from './certificates.js'

const resourceOf = (name: string): Resource => resources.find((resource) => resource.name === name)!
const full = (name: string) => bodies[name]!.full
const codes = (name: string, body: unknown) => problemsOf(readCreate(resourceOf(name), body, options))

t.test('forms of texts', async (t) => {
  const table: Partial<Record<FormName, readonly (readonly [string, string | false])[]>> = {
    cidr: [
      ['192.0.2.0/24', '192.0.2.0/24'],
      ['0.0.0.0/0', '0.0.0.0/0'],
      ['192.0.2.1/32', '192.0.2.1/32'],
      ['2001:DB8::/32', '2001:db8::/32'],
      [' ::/0 ', '::/0'],
      ['192.0.2.1', '192.0.2.1/32'],
      ['2001:DB8::1', '2001:db8::1/128'],
      ['192.0.2.1/24', false],
      ['2001:db8::1/64', false],
      ['192.0.2.0/33', false],
      ['010.0.0.0/8', false],
      ['10.0.0.0/08', false],
      ['example.com/8', false],
      ['', false]
    ],
    domain: [
      ['App.Example.COM.', 'app.example.com'],
      ['*.example.com', '*.example.com'],
      ['app.test', 'app.test'],
      ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
      [`${'a'.repeat(63)}.example.com`, `${'a'.repeat(63)}.example.com`],
      [`${'a'.repeat(64)}.example.com`, false],
      [`${'a.'.repeat(126)}ab`, false],
      ['localhost', false],
      ['A_b.example.com', 'a_b.example.com'],
      ['_a.b_.example.com', '_a.b_.example.com'],
      ['a..example.com', false],
      ['-a.example.com', false],
      ['a-.example.com', false],
      ['ab--c.example.com', false],
      ['*', false],
      ['*.com', false],
      ['a.*.example.com', false],
      ['a*.example.com', false],
      ['192.0.2.1', false],
      ['bücher.example', false],
      ['', false]
    ],
    hostport: [
      ['Example.com:443', 'example.com:443'],
      ['localhost:80', 'localhost:80'],
      ['stack_web:3000', 'stack_web:3000'],
      ['192.0.2.1:65535', '192.0.2.1:65535'],
      ['[2001:DB8:0::1]:1', '[2001:db8::1]:1'],
      ['*.example.com:443', '*.example.com:443'],
      ['*:443', '*:443'],
      ['API.*.example.com:443', 'api.*.example.com:443'],
      ['*.*.example.com:443', false],
      ['a.*.com:443', false],
      ['a.*:443', false],
      ['api-*.example.com:443', false],
      ['Bücher.example:443', 'xn--bcher-kva.example:443'],
      ['*.bücher.example:443', '*.xn--bcher-kva.example:443'],
      ['a：b.example:443', false],
      ['example.com', false],
      ['example.com:0', false],
      ['example.com:65536', false],
      ['example.com:080', false],
      ['2001:db8::1:80', false],
      ['[192.0.2.1]:80', false],
      [':80', false],
      ['a b:80', false],
      ['http://example.com:80', false]
    ],
    address: [
      ['Example.com:443', 'example.com:443'],
      ['[2001:DB8:0::1]:1', '[2001:db8::1]:1'],
      ['*.wild.example.com:5000', false],
      ['*:5000', false],
      ['a.*.example.com:5000', false],
      ['example.com', false]
    ],
    acl_rule: [
      ['*', '*'],
      ['bind:*.Test', 'bind:*.test'],
      ['bind:*.internals', 'bind:*.internals'],
      ['bind:[2001:DB8:0::1]:5000', 'bind:[2001:db8::1]:5000'],
      ['bind:192.0.2.1:1024', 'bind:192.0.2.1:1024'],
      ['bind:app=we*', false],
      ['bind:*pp=web', false],
      ['bind:app=**', false],
      ['bind: app=web', false],
      ['bind:app= web', false],
      ['bind:*.example.com:5000', false],
      ['bind:example.com:443', false],
      ['bind:192.0.2.1', false],
      ['bind:*.*.example.com', false],
      ['bind:a.*.example.com', false],
      ['bind:we*.example.com', false],
      ['bind:*.', false],
      ['bind:*.1', false],
      ['bind:app.internal', false],
      ['bind:*.internal', false],
      ['bind:*.app.internal', false],
      ['bind:db.internal:5000', false],
      ['bind:localhost', false],
      ['bind:Example.com', 'bind:example.com'],
      ['bind:*.example.com', 'bind:*.example.com'],
      ['bind:tcp.example.com:20000', 'bind:tcp.example.com:20000'],
      ['bind:app=web', 'bind:app=web'],
      ['bind:*=*', 'bind:*=*'],
      ['bind:a=*', 'bind:a=*'],
      ['bind:*', false],
      ['bind:', false],
      ['bind:=x', false],
      ['bind:a=', false],
      ['bind:a=b=c', false],
      ['allow:example.com', false],
      ['', false]
    ],
    timestamp: [
      ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05Z'],
      ['2026-01-02t03:04:05.999z', '2026-01-02T03:04:05Z'],
      ['2026-01-02T03:04:05+01:30', '2026-01-02T01:34:05Z'],
      ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00Z'],
      ['2026-02-29T00:00:00Z', false],
      ['2026-01-02 03:04:05Z', false],
      ['2026-01-02T24:00:00Z', false],
      ['2026-01-02T03:04:05', false],
      ['tomorrow', false]
    ],
    header_name: [
      ['X-Front', 'x-front'],
      ['', false],
      ['a b', false],
      ['a:', false]
    ],
    header_value: [
      ['', ''],
      ['a\tb', 'a\tb'],
      ['a\r\nb', false],
      [' a', false],
      ['a ', false]
    ],
    regex: [
      ['(?i)curl/.*', '(?i)curl/.*'],
      ['(', false],
      ['(?=a)', false]
    ],
    path: [
      ['/', '/'],
      ['a', false]
    ],
    email: [
      ['ann@example.com', 'ann@example.com'],
      ['Ann@example.com', false],
      ['ann', false]
    ],
    email_domain: [
      ['example.com', 'example.com'],
      ['Example.com', false],
      ['@example.com', false]
    ],
    team: [
      ['org/team', 'org/team'],
      ['123', '123'],
      ['org', false],
      ['a/b/c', false]
    ],
    name: [
      ['db-password/a_b.c', 'db-password/a_b.c'],
      ['a b', false]
    ],
    cookie_prefix: [
      ['sluice.', 'sluice.'],
      ['', ''],
      ['a;b', false]
    ]
  }
  for (const [form, cases] of Object.entries(table)) {
    for (const [text, expected] of cases) {
      const read = FORMS[form as FormName](text)
      t.equal(read.ok ? read.text : false, expected, `${form} ${JSON.stringify(text.slice(0, 40))}`)
    }
  }
  const slip = FORMS.cidr('192.0.2.7/24')
  t.match(slip, { refused: /did you mean 192\.0\.2\.0\/24/ })
})

t.test('tokens are shown once and kept as a hash that is unique', async (t) => {
  for (const name of ['credential', 'api_key']) {
    const resource = resourceOf(name)
    const { record, once } = await created(resource, {})
    const token = once.token as string
    t.match(token, /^[0-9A-Za-z]{27}_[0-9a-f]{64}$/)
    t.ok(token.startsWith(record.id.slice(record.id.indexOf('_') + 1)))
    t.equal(present(resource, record, context, once).token, token)
    t.equal(present(resource, record, context).token, null)
    t.match(claimsOf(resource, record), [{ space: `${name}_token`, value: hashOf(token), field: 'token' }])
    t.equal(JSON.stringify(record).includes(token), false)
    t.equal(record.body.owner_id, makers.principal, 'who asks owns it')
    t.same(adminFields(resource, { owner_id: idOf('bot') }), ['owner_id'])
    t.same(adminFields(resource, { description: '' }), [])
    const other = await created(resource, { owner_id: idOf('bot') })
    t.same(linksOf(resource, other.record), [
      { field: 'owner_id', position: 0, kind: 'bot_user', id: idOf('bot'), onTargetDelete: 'cascade' }
    ])
    t.same(codes(name, { owner_id: idOf('cr') }), ['owner_id REF_INVALID'])
  }
})

t.test('ids of the wrong kind are told from ids that may exist', async (t) => {
  for (const id of ['ipp', 'ipp_', 'ipp_a b', 'ipx_1', 'cert_1', `ipp_${'1'.repeat(65)}`, 'ipp_1/../x']) {
    t.same(codes('ip_policy_rule', { ...full('ip_policy_rule'), ip_policy_id: id }), ['ip_policy_id REF_INVALID'], id)
  }
  const twice = { ...full('ip_restriction'), ip_policy_ids: [idOf('ipp'), idOf('ipp')] }
  t.same(codes('ip_restriction', twice), ['ip_policy_ids FIELD_INVALID'])
  t.same(codes('ip_restriction', { ...full('ip_restriction'), ip_policy_ids: [] }), ['ip_policy_ids FIELD_INVALID'])
  const mixed = { ...full('ip_restriction'), ip_policy_ids: [idOf('ipp'), 'x', 7] }
  t.same(codes('ip_restriction', mixed), ['ip_policy_ids[1] REF_INVALID', 'ip_policy_ids[2] FIELD_INVALID'])
})

t.test('what must be unique is claimed', async (t) => {
  const claims = async (name: string) =>
    claimsOf(resourceOf(name), (await created(resourceOf(name), full(name))).record).map(
      ({ space, value, field }) => `${space} ${value} ${field}`
    )
  t.same(await claims('reserved_domain'), ['domain app.example.com domain'])
  t.same(await claims('ip_restriction'), ['ip_restriction_type agent type'])
  t.same(await claims('https_edge'), ['hostport app.example.com:443 hostports', 'hostport *.example.com:443 hostports'])
  t.same(await claims('tcp_edge'), ['hostport tcp.example.com:20000 hostports'], 'one space for all edges')
  t.same(await claims('vault_secret'), [`vault_secret_name ["${idOf('vault')}","db-password"] name`])
  t.same(await claims('ip_policy_rule'), [`ip_policy_rule_cidr ["${idOf('ipp')}","192.0.2.0/24"] cidr`])
  t.same(await claims('https_edge_route'), [`https_edge_route_match ["${EDGE}","exact_path","/a"] match`])
})

t.test('references say what a deletion of their target means', async (t) => {
  const { record } = await created(resourceOf('ip_restriction'), full('ip_restriction'))
  t.match(linksOf(resourceOf('ip_restriction'), record), [{ field: 'ip_policies', onTargetDelete: 'keep' }])
  const rule = await created(resourceOf('ip_policy_rule'), full('ip_policy_rule'))
  t.match(linksOf(resourceOf('ip_policy_rule'), rule.record), [{ kind: 'ip_policy', onTargetDelete: 'cascade' }])
  const route = await created(resourceOf('https_edge_route'), full('https_edge_route'))
  t.same(
    linksOf(resourceOf('https_edge_route'), route.record).map(
      ({ field, position, kind, onTargetDelete }) => `${field} ${position} ${kind} ${onTargetDelete}`
    ),
    [
      'edge_id 0 https_edge cascade',
      'backend.backend 0 static_backend refuse',
      'ip_restriction.ip_policies 0 ip_policy keep',
      'ip_restriction.ip_policies 1 ip_policy keep'
    ]
  )
  const after = await updated(resourceOf('ip_restriction'), record, { ip_policy_ids: [idOf('ipp'), idOf('ipp', 9)] })
  t.match(newLinks(resourceOf('ip_restriction'), record, after), [{ id: idOf('ipp', 9) }], 'only a new one must exist')
  t.equal(newLinks(resourceOf('ip_restriction'), undefined, after).length, 2)
})

t.test('a domain has an uploaded certificate, a managed one, or none', async (t) => {
  const resource = resourceOf('reserved_domain')
  const managed = { certificate_management_policy: { authority: 'letsencrypt' } }
  const uploaded = { certificate_id: idOf('cert') }
  t.same(codes('reserved_domain', { domain: 'a.test', ...managed, ...uploaded }), ['certificate_id CONFLICTING_FIELDS'])
  const { record } = await created(resource, { domain: 'a.test', ...managed })
  t.same(record.body.certificate_management_policy, { authority: 'letsencrypt', private_key_type: 'ecdsa' })
  const status = { renews_at: null, provisioning_job: null }
  const running = { ...record, body: { ...record.body, certificate_management_status: status } }
  const kept = await updated(resource, running, { description: 'x' })
  t.same(kept.body.certificate_management_status, status, 'an update of something else leaves the status alone')
  const replaced = await updated(resource, running, uploaded)
  t.match(replaced.body, {
    certificate: idOf('cert'),
    certificate_management_policy: null,
    certificate_management_status: null
  })
  t.equal((await updated(resource, replaced, managed)).body.certificate, null)
  const cleared = clearField(resource, running, 'certificate_management_policy')
  t.match(cleared.ok && present(resource, cleared.record, context), {
    certificate_management_policy: null,
    certificate_management_status: null
  })
  const automatic = { ...running, body: { ...running.body, certificate: idOf('cert') } }
  t.same(problemsOf(clearField(resource, automatic, 'certificate')), ['certificate CONFLICTING_FIELDS'])
  t.same(codes('reserved_domain', { domain: 'a.test', certificate_management_policy: { authority: 'other' } }), [
    'certificate_management_policy.authority FIELD_INVALID'
  ])
  t.same(codes('reserved_domain', { domain: 'a.test', region: 'mars' }), ['region FIELD_INVALID'])
  t.equal((await created(resource, { domain: 'a.test', region: 'eu' })).record.body.region, 'eu')
  t.equal(present(resource, record, context).region, '')
})

t.test('an edge speaks no TLS that is broken', async (t) => {
  for (const version of ['1.0', '1.1']) {
    const body = { tls_termination: { min_version: version } }
    t.same(codes('https_edge', body), ['tls_termination.min_version FIELD_INVALID'], version)
  }
  for (const version of ['1.2', '1.3']) t.same(codes('https_edge', { tls_termination: { min_version: version } }), [])
})

t.test('names that the service makes for a domain', async (t) => {
  const resource = resourceOf('reserved_domain')
  const one = present(resource, (await created(resource, { domain: 'a.example.com' })).record, context)
  const two = present(resource, (await created(resource, { domain: '*.example.com' })).record, context)
  const ours = present(resource, (await created(resource, { domain: 'a.sluice.localhost' })).record, context)
  t.match(one.cname_target, /^[0-9a-f]{20}\.[0-9a-f]{20}\.cname\.sluice\.localhost$/)
  t.not(one.cname_target, two.cname_target)
  t.equal(one.acme_challenge_cname_target, null)
  t.match(two.acme_challenge_cname_target, /\.acme\.sluice\.localhost$/)
  t.match(ours, { cname_target: null, acme_challenge_cname_target: null })
  const body = { domain: 'b.sluice.localhost', certificate_management_policy: { authority: 'letsencrypt' } }
  const refused = await createRecord(resource, input(readCreate(resource, body, options)), makers)
  t.same(problemsOf(refused), ['certificate_management_policy FIELD_INVALID'])
  for (const key of ['http_endpoint_configuration_id', 'https_endpoint_configuration_id']) {
    const { record } = await created(resource, { domain: 'a.example.com' })
    t.same(problemsOf(readUpdate(resource, record, { [key]: 'ec_1' }, options)), [`${key} REF_NOT_FOUND`])
    t.same(codes('reserved_domain', { domain: 'a.example.com', [key]: '' }), [`${key} FIELD_UNKNOWN`])
  }
})

t.test('an agent ingress', async (t) => {
  const resource = resourceOf('agent_ingress')
  const body = { domain: 'connect.example.com', certificate_management_policy: { authority: 'letsencrypt' } }
  const { record } = await created(resource, body)
  t.match(present(resource, record, context), {
    uri: `/agent_ingresses/${record.id}`,
    ns_targets: ['ns1.sluice.localhost.', 'ns2.sluice.localhost.'],
    region_domains: ['tunnel.global.connect.example.com', 'tunnel.eu.connect.example.com'],
    certificate_management_policy: { private_key_type: 'rsa' }
  })
  t.same(codes('agent_ingress', { domain: '*.example.com' }), ['domain FIELD_INVALID'])
  const ours = await createRecord(
    resource,
    input(readCreate(resource, { domain: 'x.sluice.localhost' }, options)),
    makers
  )
  t.same(problemsOf(ours), ['domain FIELD_INVALID'])
})

t.test('a TLS certificate is described by its leaf', async (t) => {
  const root = await authority('CN=Issuer')
  const leaf = await issue({
    subject: 'CN=app.example.com, O=Org, C=DE',
    issuer: root,
    serialNumber: '0a0b',
    extensions: [
      new x509.SubjectAlternativeNameExtension([{ type: 'dns', value: 'app.example.com' }]),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature)
    ]
  })
  const resource = resourceOf('tls_certificate')
  const { record } = await created(resource, { certificate_pem: leaf.pem, private_key_pem: leaf.key })
  const {
    id: _,
    uri: __,
    created_at: ___,
    ...rest
  } = present(resource, record, { ...context, showSecrets: () => true })
  t.same(rest, {
    description: '',
    metadata: '',
    certificate_pem: leaf.pem,
    subject_common_name: 'app.example.com',
    subject_alternative_names: { dns_names: ['app.example.com'], ips: [] },
    issued_at: null,
    not_before: '2026-01-01T00:00:00Z',
    not_after: '2027-01-01T00:00:00Z',
    key_usages: ['digitalSignature'],
    extended_key_usages: [],
    private_key_type: 'ecdsa',
    issuer_common_name: 'Issuer',
    serial_number: '0a0b',
    subject_organization: 'Org',
    subject_organizational_unit: '',
    subject_locality: '',
    subject_province: '',
    subject_country: 'DE'
  })
  t.same(record.secrets, { private_key_pem: leaf.key })
  const refusal = (certificate_pem: string, private_key_pem: string) => {
    const read = readCreate(resource, { certificate_pem, private_key_pem }, options)
    return read.ok ? [] : read.problems.map(({ field, code, details }) => `${field} ${code} ${details?.reason}`)
  }
  t.same(refusal(leaf.pem, root.key), ['private_key_pem FIELD_INVALID KEY_MISMATCH'])
  t.same(refusal(leaf.key, leaf.pem), ['certificate_pem FIELD_INVALID CERTIFICATE_IS_KEY'])
  t.same(refusal(root.pem + leaf.pem, root.key), ['certificate_pem FIELD_INVALID CHAIN_ORDER'])
  const own = { ...full('certificate_authority'), ca_pem: leaf.pem }
  t.same(codes('certificate_authority', own), ['ca_pem FIELD_INVALID'], 'a leaf is no authority')
  t.same(codes('certificate_authority', { ca_pem: root.pem + root.pem }), ['ca_pem FIELD_INVALID'], 'one certificate')
  const ca = await created(resourceOf('certificate_authority'), { ca_pem: root.pem })
  t.match(present(resourceOf('certificate_authority'), ca.record, context), {
    subject_common_name: 'Issuer',
    ca_pem: root.pem
  })
})

t.test('an SSH authority makes its key, and signs certificates that ssh-keygen reads', async (t) => {
  const resource = resourceOf('ssh_certificate_authority')
  for (const [body, algorithm, type] of [
    [{}, 'ssh-ed25519', 'ed25519'],
    [{ private_key_type: 'ecdsa' }, 'ecdsa-sha2-nistp256', 'ecdsa'],
    [{ private_key_type: 'ecdsa', elliptic_curve: 'p521' }, 'ecdsa-sha2-nistp521', 'ecdsa'],
    [{ private_key_type: 'rsa', key_size: 2048 }, 'ssh-rsa', 'rsa']
  ] as const) {
    const { record } = await created(resource, body)
    const shown = present(resource, record, { ...context, showSecrets: () => true })
    t.match(shown.public_key, new RegExp(`^${algorithm} [A-Za-z0-9+/=]+$`))
    t.equal(shown.key_type, type)
    t.match(record.secrets.private_key, /PRIVATE KEY/)
    t.same(Object.keys(shown).includes('private_key_type'), false)
    const later = await updated(resource, record, { description: 'x' })
    t.equal(later.body.public_key, record.body.public_key, 'an update makes no other key')
    t.same(later.secrets, record.secrets)
  }
  for (const [body, problem] of [
    [{ key_size: 2048 }, 'key_size CONFLICTING_FIELDS'],
    [{ private_key_type: 'ecdsa', key_size: 2048 }, 'key_size CONFLICTING_FIELDS'],
    [{ private_key_type: 'rsa', elliptic_curve: 'p256' }, 'elliptic_curve CONFLICTING_FIELDS'],
    [{ private_key_type: 'rsa', key_size: 1024 }, 'key_size FIELD_INVALID'],
    [{ private_key_type: 'ecdsa', elliptic_curve: 'P-256' }, 'elliptic_curve FIELD_INVALID']
  ] as const) {
    t.same(codes('ssh_certificate_authority', body), [problem])
  }
  const user = { public_key: full('ssh_user_certificate').public_key, ssh_certificate_authority_id: idOf('sshca') }
  const { record } = await created(resourceOf('ssh_user_certificate'), user)
  t.same(record.body.extensions, { 'permit-pty': '', 'permit-user-rc': '' })
  t.equal(
    Date.parse(record.body.valid_until as string) - Date.parse(record.body.valid_after as string),
    24 * 3600 * 1000
  )
  const host = await created(resourceOf('ssh_host_certificate'), full('ssh_host_certificate'))
  t.match(host.record.body, {
    valid_after: '2026-01-01T00:00:00Z',
    valid_until: '2026-02-01T00:00:00Z',
    key_type: 'ed25519'
  })
  const backwards = { ...full('ssh_host_certificate'), valid_until: '2025-01-01T00:00:00Z' }
  t.same(codes('ssh_host_certificate', backwards), ['valid_until FIELD_INVALID'])
  t.same(codes('ssh_host_certificate', { ...full('ssh_host_certificate'), public_key: 'x' }), [
    'public_key FIELD_INVALID'
  ])
  const lost = { ...makers, find: async () => undefined }
  const read = input(readCreate(resourceOf('ssh_user_certificate'), user, options))
  t.same(problemsOf(await createRecord(resourceOf('ssh_user_certificate'), read, lost)), [
    'ssh_certificate_authority_id REF_NOT_FOUND'
  ])
  const skip = spawnSync('ssh-keygen', ['-?']).error === undefined ? false : 'ssh-keygen is not installed'
  await t.test('ssh-keygen reads them', { skip }, async (t) => {
    const file = join(t.testdir(), 'id-cert.pub')
    for (const [made, text] of [
      [record, /user certificate[\s\S]*permit-user-rc/],
      [host.record, /host certificate[\s\S]*Principals:\s+one\s+two/]
    ] as const) {
      writeFileSync(file, `${made.body.certificate}\n`)
      const { stdout } = spawnSync('ssh-keygen', ['-L', '-f', file], { encoding: 'utf8' })
      t.match(stdout, text)
      t.match(stdout, new RegExp(`Key ID: "${made.id}"`))
    }
  })
})

t.test('who wrote a secret or a vault, and when', async (t) => {
  for (const name of ['vault', 'vault_secret']) {
    const resource = resourceOf(name)
    const { record } = await created(resource, full(name))
    clock.advance(60_000)
    const other = { ...makers, principal: idOf('bot', 7) }
    const read = input(readUpdate(resource, record, { description: 'x' }, options))
    const result = await updateRecord(resource, record, read, other)
    if (!result.ok) throw new Error('refused')
    const shown = present(resource, result.record, context)
    const by = (id: string) => (name === 'vault' ? id : { id, uri: '' })
    t.same(shown.created_by, by(makers.principal))
    t.same(shown.last_updated_by, by(idOf('bot', 7)))
    t.equal(Date.parse(shown.updated_at as string) - Date.parse(shown.created_at as string), 60_000)
  }
  const { record } = await created(resourceOf('vault_secret'), full('vault_secret'))
  const moved = await updated(resourceOf('vault_secret'), record, { value: 'new' })
  t.same([record.secrets.value === 'new', moved.secrets.value], [false, 'new'])
  t.equal(
    Object.hasOwn(present(resourceOf('vault_secret'), record, { ...context, showSecrets: () => true }), 'value'),
    false
  )
})

t.test('an event destination has one target, of one kind for ever', async (t) => {
  const resource = resourceOf('event_destination')
  const aws = { role: { role_arn: 'arn:aws:iam::123456789012:role/x' } }
  const stream_arn = 'arn:aws:kinesis:us-east-1:123456789012:stream/x'
  t.same(codes('event_destination', { target: {} }), ['target FIELD_REQUIRED'])
  t.same(codes('event_destination', {}), ['target FIELD_REQUIRED'])
  t.same(codes('event_destination', { target: { stdout: {}, file: { path: '/a' } } }), ['target CONFLICTING_FIELDS'])
  t.same(codes('event_destination', { target: { other: {} } }), ['target.other FIELD_UNKNOWN'])
  t.same(codes('event_destination', { target: { file: { path: 'a' } } }), ['target.file.path FIELD_INVALID'])
  t.same(codes('event_destination', { target: { kinesis: { auth: { ...aws, creds: {} }, stream_arn } } }), [
    'target.kinesis.auth CONFLICTING_FIELDS'
  ])
  t.same(codes('event_destination', { target: { stdout: {} }, format: 'xml' }), ['format FIELD_INVALID'])
  const creds = { aws_access_key_id: 'AKIA', aws_secret_access_key: 'sealed' }
  const { record } = await created(resource, { target: { kinesis: { auth: { creds }, stream_arn } }, format: 'JSON' })
  t.same(record.secrets, { 'target.kinesis.auth.creds.aws_secret_access_key': 'sealed' })
  const shown = present(resource, record, { ...context, showSecrets: () => true }) as {
    target: Record<string, unknown>
    format: string
  }
  t.equal(shown.format, 'JSON')
  t.equal(shown.target.datadog, null)
  t.same(shown.target.kinesis, {
    auth: { role: null, creds: { aws_access_key_id: 'AKIA', aws_secret_access_key: null } },
    stream_arn
  })
  t.same(problemsOf(readUpdate(resource, record, { target: { stdout: {} } }, options)), ['target IMMUTABLE'])
  const after = await updated(resource, record, { target: { kinesis: { auth: aws, stream_arn } } })
  t.same(after.secrets, {}, 'the replaced secret is gone')
})

t.test('sources of an event subscription have URLs of their own', async (t) => {
  const resource = resourceOf('event_subscription')
  const part = resource.parts[0]!
  const { record } = await created(resource, { sources: [{ type: 'ip_policy_created.v0' }] })
  const uri = `https://api.example.com/event_subscriptions/${record.id}/sources`
  const source = { type: 'ip_policy_created.v0', uri: `${uri}/ip_policy_created.v0` }
  t.same(presentParts(resource, part, record, context), { sources: [source], uri })
  t.same(presentPart(resource, part, record, 'ip_policy_created.v0', context), source)
  t.equal(presentPart(resource, part, record, 'vault_created.v0', context), undefined)
  const path = { subscription_id: record.id }
  const add = (body: unknown) => readAddition(resource, part, record, body, { ...options, path })
  const added = add({ type: 'vault_created.v0', subscription_id: record.id })
  t.match(input(added).body.sources, [{ type: 'ip_policy_created.v0' }, { type: 'vault_created.v0' }])
  t.same(problemsOf(add({ type: 'ip_policy_created.v0' })), ['type FIELD_INVALID'], 'one is enough')
  t.same(problemsOf(add({ type: 'nothing.v0' })), ['type FIELD_INVALID'])
  t.same(problemsOf(add({})), ['type FIELD_REQUIRED'])
  t.same(problemsOf(add({ type: 'vault_created.v0', other: 1 })), ['other FIELD_UNKNOWN'])
  const less = withoutEntry(part, record, 'ip_policy_created.v0')
  t.same([entriesOf(part, less), entryOf(part, record, 'ip_policy_created.v0')], [[], { type: 'ip_policy_created.v0' }])
  t.same(codes('event_subscription', { sources: [] }), ['sources FIELD_INVALID'])
})

t.test('labels, headers and members of backends', async (t) => {
  const labels = (value: unknown) => codes('tunnel_group_backend', { labels: value })
  t.same(labels({}), ['labels FIELD_INVALID'])
  t.same(labels({ 'a=b': 'c' }), ['labels.a=b FIELD_INVALID'])
  t.same(labels({ a: 'b=c' }), ['labels.a FIELD_INVALID'])
  t.same(labels({ a: '' }), ['labels.a FIELD_INVALID'])
  t.same(labels({ ['k'.repeat(255)]: 'v'.repeat(255) }), [])
  t.equal(labels({ ['k'.repeat(256)]: 'v' }).length, 1)
  t.same(labels({ a: 'v'.repeat(256) }), ['labels.a TOO_LONG'])
  const odd = await created(resourceOf('tunnel_group_backend'), JSON.parse('{"labels": {"__proto__": "x"}}'))
  t.equal(JSON.stringify(odd.record.body.labels), '{"__proto__":"x"}', 'a label may have any name')
  const group = present(resourceOf('tunnel_group_backend'), odd.record, context)
  t.same(group.tunnels, [{ id: idOf('tn'), uri: `https://api.example.com/tunnels/${idOf('tn')}` }])
  t.same(
    codes('http_response_backend', { headers: { A: '1', a: '2' } }),
    ['headers FIELD_INVALID'],
    'twice the same name'
  )
  t.same(codes('http_response_backend', { headers: { 'a b': '1', c: 'x\n' } }), [
    'headers.a b FIELD_INVALID',
    'headers.c FIELD_INVALID'
  ])
  const weights = (value: unknown) => codes('weighted_backend', { backends: value })
  t.same(weights({ [idOf('bkdsc')]: 10_001 }), [`backends.${idOf('bkdsc')} FIELD_INVALID`])
  t.same(weights({ [idOf('bkdwd')]: 1 }), ['backends[0] REF_INVALID'], 'no weighted one in a weighted one')
  t.same(weights({}), ['backends FIELD_INVALID'])
  t.same(weights({ [idOf('bkdsc')]: 0, [idOf('bkdhr')]: 0 }), ['backends FIELD_INVALID'], 'nobody would get traffic')
  t.same(weights({ [idOf('bkdsc')]: 0, [idOf('bkdhr')]: 1 }), [])
  const failover = (...backends: string[]) => codes('failover_backend', { backends })
  t.same(failover(idOf('bkdhr'), idOf('bkdsc')), ['backends CONFLICTING_FIELDS'], 'the second would never be asked')
  t.same(failover(idOf('bkdsc'), idOf('bkdhr')), [])
  for (const status_code of [204, 205, 304]) {
    t.same(codes('http_response_backend', { status_code, body: 'x' }), ['body CONFLICTING_FIELDS'])
    t.same(codes('http_response_backend', { status_code }), [])
  }
  t.same(codes('failover_backend', { backends: [idOf('bkdfo')] }), ['backends[0] REF_INVALID'])
})

t.test('official clients repeat ids of the path and wrap the body', async (t) => {
  const resource = resourceOf('ip_policy')
  const { record } = await created(resource, {})
  const path = { id: record.id }
  const read = (body: unknown) => problemsOf(readUpdate(resource, record, body, { ...options, path }))
  t.same(read({ id: record.id, description: 'x' }), [])
  t.same(read({ id: record.id }), [])
  t.same(read({ id: idOf('ipp', 9) }), ['id FIELD_INVALID'])
  t.same(read({ id: record.id, module: { description: 'x' } }), [])
  t.same(read({ module: { description: 'x' }, description: 'y' }), ['module FIELD_UNKNOWN'])
  t.same(codes('ip_policy', { id: record.id }), ['id FIELD_UNKNOWN'], 'a creation has no id')
})

t.test('a route belongs to the edge of its path', async (t) => {
  const resource = resourceOf('https_edge_route')
  const { record } = await created(resource, { match: '/a', edge_id: EDGE })
  t.equal(record.body.edge_id, EDGE)
  t.equal(present(resource, record, context).uri, `https://api.example.com/edges/https/${EDGE}/routes/${record.id}`)
  t.same(codes('https_edge_route', { match: '/a', edge_id: idOf('edghts', 9) }), ['edge_id FIELD_INVALID'])
  const edge = await created(resourceOf('https_edge'), {})
  const shown = present(resourceOf('https_edge'), edge.record, { ...context, children: () => [record] })
  t.match(shown.routes, [{ id: record.id, match: '/a', oauth: null }])
  t.match(present(resourceOf('https_edge'), edge.record, context), { routes: [], hostports: [], mutual_tls: null })
})

t.test('all problems are found at once, with their fields', async (t) => {
  const body = { description: 'x'.repeat(300), metadata: 7, cidr: '10.0.0.1/8', action: 'maybe', extra: 1 }
  t.same(codes('ip_policy_rule', body).sort(), [
    'action FIELD_INVALID',
    'cidr FIELD_INVALID',
    'description TOO_LONG',
    'extra FIELD_UNKNOWN',
    'ip_policy_id FIELD_REQUIRED',
    'metadata FIELD_INVALID'
  ])
})
