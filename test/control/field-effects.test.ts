import 'reflect-metadata'
import { SubjectAlternativeNameExtension } from '@peculiar/x509'
import t from 'tap'
import { account, create, site } from '../helpers/account.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { issue } from '../resources/certificates.js'

const DAY = 86_400_000

async function certificate(sluice: RunningSluice, names: readonly string[], from = -DAY, until = DAY): Promise<string> {
  const { pem, key } = await issue({
    subject: 'CN=a.example.com',
    notBefore: new Date(Date.now() + from),
    notAfter: new Date(Date.now() + until),
    extensions:
      names.length === 0 ? [] : [new SubjectAlternativeNameExtension(names.map((value) => ({ type: 'dns', value })))]
  })
  return (await create(sluice, '/tls_certificates', { certificate_pem: pem, private_key_pem: key })).id
}

t.test('a domain takes only a certificate that can serve it', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const refused = async (domain: string, certificate_id: string, says: RegExp) => {
    const answer = await ask('/reserved_domains', { method: 'POST', body: { domain, certificate_id } })
    t.match(answer, {
      status: 400,
      json: { error_code: /FIELD_INVALID/, msg: says, details: { field: 'certificate_id' } }
    })
  }
  const [one, any] = [await certificate(sluice, ['A.example.com']), await certificate(sluice, ['*.example.com'])]
  await refused('b.example.com', one, /does not cover b\.example\.com: the certificate is for a\.example\.com/)
  await refused('*.example.com', one, /does not cover/)
  await refused('a.b.example.com', any, /does not cover/)
  await refused('example.com', any, /does not cover/)
  await refused('a.example.com', await certificate(sluice, []), /has no DNS names/)
  await refused('a.example.com', await certificate(sluice, ['a.example.com'], -2 * DAY, -DAY), /has expired \(/)
  await refused('a.example.com', await certificate(sluice, ['a.example.com'], DAY, 2 * DAY), /is not valid before/)
  for (const [domain, id] of [
    ['a.example.com', one],
    ['b.example.com', any],
    ['*.example.com', any]
  ] as const) {
    const made = await create(sluice, '/reserved_domains', { domain, certificate_id: id })
    t.equal(made.certificate.id, id)
    const other = { certificate_id: await certificate(sluice, ['other.test']) }
    const path = `/reserved_domains/${made.id}`
    t.match(await ask(path, { method: 'PATCH', body: other }), { status: 400, json: { msg: /does not cover/ } })
    t.equal((await ask(path, { method: 'PATCH', body: { description: 'x' } })).status, 200)
    t.equal((await ask(path)).json.certificate.id, id, 'nothing has changed')
  }
})

t.test('nothing leads plain bytes to a fixed HTTP response', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const make = async (kind: string, body: Readonly<Record<string, unknown>>): Promise<string> =>
    (await create(sluice, `/backends/${kind}`, body)).id
  const fixed = await make('http_response', { status_code: 200 })
  const server = await make('static', { address: '127.0.0.1:1' })
  const mixed = await make('weighted', { backends: { [server]: 1, [fixed]: 0 } })
  const plain = await make('weighted', { backends: { [server]: 1 } })
  const above = await make('failover', { backends: [plain, server] })
  const refusal = (field: string) => ({
    status: 400,
    json: { error_code: /CONFLICTING_FIELDS/, msg: new RegExp(`${fixed}.*plain bytes`), details: { field } }
  })
  for (const backend_id of [mixed, await make('failover', { backends: [server, mixed] })]) {
    const body = { backend: { backend_id } }
    for (const path of ['/edges/tcp', '/edges/tls'])
      t.match(await ask(path, { method: 'POST', body }), refusal('backend.backend_id'))
  }
  for (const path of ['/edges/tcp', '/edges/tls'])
    t.match(
      await ask(path, {
        method: 'POST',
        body: { backend: { backend_id: fixed }, ...(path.endsWith('s') ? { tls_termination: {} } : {}) }
      }),
      {
        status: 400,
        json: { error_code: /REF_INVALID/, msg: /static_backend/, details: { field: 'backend.backend_id' } }
      }
    )
  const edge = await create(sluice, '/edges/tcp', { backend: { backend_id: above } })
  const put = { method: 'PUT', body: { backend_id: mixed } }
  t.match(await ask(`/edges/tcp/${edge.id}/backend`, put), refusal('backend_id'))
  const mix = { method: 'PATCH', body: { backends: { [server]: 1, [fixed]: 1 } } }
  const mixing = await ask(`/backends/weighted/${plain}`, mix)
  t.match(mixing, { ...refusal('backends'), json: { msg: new RegExp(`tcp_edge ${edge.id}`) } })
  const lead = { method: 'PATCH', body: { backends: [server, mixed] } }
  t.match(await ask(`/backends/failover/${above}`, lead), refusal('backends'))
  const converter = { websocket_tcp_converter: {} }
  const { route } = await site(sluice, 'a.example.com', { backend: { backend_id: mixed } })
  t.match(await ask(`${route}/websocket_tcp_converter`, { method: 'PUT', body: {} }), { status: 400 })
  t.equal((await ask(route, { method: 'PATCH', body: { ...converter, backend: { backend_id: plain } } })).status, 200)
  t.match(await ask(`${route}/backend`, { method: 'PUT', body: { backend_id: fixed } }), refusal('backend_id'))
  t.equal((await ask(`/edges/tcp/${edge.id}`, { method: 'DELETE' })).status, 204)
  t.equal((await ask(`${route}/websocket_tcp_converter`, { method: 'DELETE' })).status, 204)
  t.equal((await ask(`/backends/weighted/${plain}`, mix)).status, 200, 'HTTP alone may be answered so')
})
