import { createPublicKey, webcrypto, X509Certificate } from 'node:crypto'
import t from 'tap'
import { isBoundBy, kubernetesOperator } from '../../src/resources/kubernetes-operators.js'
import { present } from '../../src/resources/present.js'
import { createRecord, readCreate, readUpdate, updateRecord } from '../../src/resources/read.js'
import type { ResourceRecord } from '../../src/schema/field.js'
import { openAccount } from '../api/account.js'
import { clock, context, created, input, makers, options, problemsOf, written } from './bench.js'
import { authority, requestCertificate } from './certificates.js'

const YEAR = 365 * 86_400_000

async function publicKeyOf({ publicKey }: webcrypto.CryptoKeyPair) {
  return createPublicKey({
    key: Buffer.from(await webcrypto.subtle.exportKey('spki', publicKey)),
    format: 'der',
    type: 'spki'
  })
}

t.test('a request gets a certificate for its key and nothing else of it', async (t) => {
  for (const algorithm of ['ec', 'rsa', 'ed25519'] as const) {
    const { pem, keys } = await requestCertificate(algorithm)
    const { record } = await created(kubernetesOperator, { binding: { csr: pem } })
    const { cert, not_before: from, not_after: until } = certificateOf(record)
    const certificate = new X509Certificate(cert)
    t.ok(certificate.publicKey.equals(await publicKeyOf(keys)), algorithm)
    t.match(certificate.subject, `CN=${record.id}`)
    t.notMatch(certificate.subject, 'someone else')
    t.same(certificate.keyUsage, ['1.3.6.1.5.5.7.3.2'], 'for TLS clients')
    t.notOk(certificate.ca)
    t.equal(Date.parse(until) - Date.parse(from), YEAR)
    t.ok(Math.abs(Date.parse(from) - clock.wall()) < 1000)
    const signer = new X509Certificate(record.secrets.authority ?? '')
    t.ok(signer.ca)
    t.ok(certificate.checkIssued(signer))
    t.ok(certificate.verify(signer.publicKey))
    t.notMatch(JSON.stringify(record.body), /CERTIFICATE REQUEST|PRIVATE KEY/)
    t.notMatch(JSON.stringify(present(kubernetesOperator, record, context)), /csr|PRIVATE KEY/)
  }
})

// biome-ignore lint/suspicious/noExplicitAny: answers are looked at member by member.
function certificateOf(record: ResourceRecord): any {
  return (present(kubernetesOperator, record, context) as { binding: { cert: object } }).binding.cert
}

t.test('a request that is not good gets no certificate', async (t) => {
  const { pem } = await requestCertificate('ec')
  const der = Buffer.from(pem.replace(/-----[^-]+-----|\s/g, ''), 'base64')
  const inPem = (bytes: Buffer, label = 'CERTIFICATE REQUEST') =>
    `-----BEGIN ${label}-----\n${bytes.toString('base64')}\n-----END ${label}-----\n`
  const flipped = Buffer.from(der)
  const name = flipped.indexOf('someone else')
  flipped.write('someone evil', name)
  const refused: Readonly<Record<string, readonly [csr: string, message: RegExp]>> = {
    'no PEM': ['csr', /in PEM format/],
    'a certificate': [(await authority('CN=a')).pem, /one CERTIFICATE REQUEST block/],
    'two requests': [pem + pem, /one CERTIFICATE REQUEST block/],
    'half of the bytes': [inPem(der.subarray(0, der.length / 2)), /cannot be read/],
    'no DER': [inPem(Buffer.from('nothing of that kind')), /cannot be read/],
    'another name than the signed one': [inPem(flipped), /not signed by the key/],
    'a weak key': [(await requestCertificate('rsa', 1024)).pem, /at least 2048 bits/],
    'a broken block': [pem.replace('-----END', '---END'), /must end|no line/]
  }
  for (const [what, [csr, message]] of Object.entries(refused)) {
    const read = input(readCreate(kubernetesOperator, { binding: { csr } }, options))
    const answer = await createRecord(kubernetesOperator, read, makers)
    t.match(
      answer,
      {
        ok: false,
        problems: [{ field: 'binding.csr', code: 'FIELD_INVALID', message, details: { reason: /^[A-Z_]+$/ } }]
      },
      what
    )
  }
  const long = readCreate(kubernetesOperator, { binding: { csr: 'x'.repeat(16 * 1024 + 1) } }, options)
  t.same(problemsOf(long), ['binding.csr TOO_LONG'])
  t.equal(
    (await created(kubernetesOperator, { binding: { csr: inPem(der, 'NEW CERTIFICATE REQUEST') } })).record.kind,
    'kubernetes_operator'
  )
})

t.test('an update changes only what it has, and a new request only the certificate', async (t) => {
  const { ask, faults } = await openAccount(t, { ownBase: true })
  const deployment = { name: 'operator', namespace: 'ngrok', version: '1', cluster_name: 'one' }
  const binding = {
    endpoint_selectors: ['true'],
    ingress_endpoint: 'a.test:443',
    csr: (await requestCertificate('ec')).pem
  }
  const made = await ask('/kubernetes_operators', {
    method: 'POST',
    body: { enabled_features: ['Ingress', 'bindings', 'BINDINGS'], deployment, binding }
  })
  t.match(made, { status: 201, json: { region: 'global', enabled_features: ['ingress', 'bindings'], deployment } })
  const path = `/kubernetes_operators/${made.json.id}`
  const patch = async (body: object) => (await ask(path, { method: 'PATCH', body })).json
  t.match(await patch({ deployment: { name: 'new', version: '2' } }), {
    deployment: { ...deployment, name: 'new', version: '2' },
    binding: made.json.binding
  })
  const selected = await patch({ binding: { endpoint_selectors: ['false'] } })
  t.same(selected.binding, { ...made.json.binding, endpoint_selectors: ['false'] })
  const later = await patch({ binding: { csr: (await requestCertificate('ec')).pem } })
  t.match(later.binding, { endpoint_selectors: ['false'], ingress_endpoint: 'a.test:443' })
  const [first, second] = [made, { json: later }].map(({ json }) => new X509Certificate(json.binding.cert.cert))
  t.not(second?.fingerprint256, first?.fingerprint256)
  t.equal(second?.issuer, first?.issuer)
  t.match(await patch({ binding: { ingress_endpoint: '' } }), {
    binding: { endpoint_selectors: ['false'], ingress_endpoint: '', cert: later.binding.cert }
  })
  const cleared = await patch({ binding: null })
  t.same(cleared.binding, {
    endpoint_selectors: [],
    ingress_endpoint: '',
    cert: { cert: '', not_before: '0001-01-01T00:00:00Z', not_after: '0001-01-01T00:00:00Z' }
  })
  t.same(faults, [])
})

t.test('renewals are signed by the same authority while it lasts', async (t) => {
  const csr = async () => ({ binding: { csr: (await requestCertificate('ec')).pem } })
  const { record } = await created(kubernetesOperator, await csr())
  const find = async () => record
  const again = await renewed(record, await csr(), find)
  t.equal(again.secrets.authority, record.secrets.authority)
  clock.advance(9.5 * YEAR)
  const late = await renewed(record, await csr(), find)
  t.not(late.secrets.authority, record.secrets.authority, 'one that outlasts the certificate')
  t.ok(
    new X509Certificate(certificateOf(late).cert).verify(new X509Certificate(late.secrets.authority ?? '').publicKey)
  )
})

async function renewed(record: ResourceRecord, body: object, find: typeof makers.find) {
  const read = input(readUpdate(kubernetesOperator, record, body, options))
  return written(await updateRecord(kubernetesOperator, record, read, { ...makers, find })).record
}

t.test('selectors are checked when they are written', async (t) => {
  const codes = (selector: string) =>
    problemsOf(readCreate(kubernetesOperator, { binding: { endpoint_selectors: ['true', selector] } }, options))
  for (const selector of ['endpoint.host ==', 'endpoint.nothing == 1', 'endpoint.host', 'obj.host == ""']) {
    t.same(codes(selector), ['binding.endpoint_selectors[1] FIELD_INVALID'], selector)
  }
  t.same(codes('endpoint.metadata.contains("team") && endpoint.port in [80, 8080]'), [])
  t.same(problemsOf(readCreate(kubernetesOperator, { enabled_features: ['ingress', 'other'] }, options)), [
    'enabled_features[1] FIELD_INVALID'
  ])
})

t.test('an operator selects endpoints with the binding kubernetes', async (t) => {
  const isBound = (selectors: readonly string[], shown: object) =>
    isBoundBy({ binding: { endpoint_selectors: selectors } })({ host: 'app.prod', port: 80, edge: null, ...shown })
  const bound = { bindings: ['kubernetes'] }
  t.ok(isBound(['true'], bound))
  t.notOk(isBound(['true'], { bindings: ['public'] }))
  t.notOk(isBound([], bound))
  t.ok(isBound(['endpoint.host.endsWith(".prod")'], bound))
  t.notOk(isBound(['endpoint.host.endsWith(".staging")'], bound))
  t.ok(isBound(['endpoint.port == 1', 'endpoint.port == 80'], bound), 'one of several')
  t.notOk(isBound(['endpoint.edge.id == "a"'], bound), 'a selector that fails selects nothing')
})

t.test('bound endpoints are listed below the operator', async (t) => {
  const { ask } = await openAccount(t, { ownBase: true })
  const { json } = await ask('/kubernetes_operators', {
    method: 'POST',
    body: { binding: { endpoint_selectors: ['true'] } }
  })
  const policy = '{"on_http_request":[{"actions":[{"type":"deny"}]}]}'
  await ask('/reserved_domains', { method: 'POST', body: { domain: 'app.test' } })
  const body = { type: 'cloud', url: 'https://app.test', traffic_policy: policy }
  t.equal((await ask('/endpoints', { method: 'POST', body })).status, 201)
  t.equal((await ask('/endpoints', { method: 'POST', body: { ...body, bindings: ['kubernetes'] } })).status, 400)
  t.match(await ask(`/kubernetes_operators/${json.id}/bound_endpoints`), {
    status: 200,
    json: { endpoints: [], uri: `${json.uri}/bound_endpoints`, next_page_uri: null }
  })
  t.equal((await ask('/kubernetes_operators/k8sop_1/bound_endpoints')).status, 404)
})
