import 'reflect-metadata'
import t from 'tap'
import { account, create } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
import { authority as newAuthority } from '../proxy/tls-client.js'

const ENDING =
  'on_tcp_connect:\n  - name: own\n    actions:\n      - type: log\n        config: { metadata: { a: b } }\n      - type: terminate-tls\n'
const REFUSAL = /terminate-tls cannot run, because the edge ends TLS before its policy/
const PLACE = { path: 'on_tcp_connect[0].actions[1].type', line: '6', column: '15' }

t.test('a policy that ends TLS is refused at every write that puts it on an edge that ended it', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  let hosts = 0
  const edge = async (body: Readonly<Record<string, unknown>>) => {
    const made = await create(sluice, '/edges/tls', { hostports: [`h${++hosts}.example.com:443`], ...body })
    return `/edges/tls/${made.id}`
  }
  const refused = async (method: string, path: string, body: object, field: string) => {
    const answer = await ask(path, { method, body })
    const json = { error_code: 'ERR_SLUICE_POLICY_ACTION_PHASE', msg: REFUSAL, details: { field, ...PLACE } }
    t.match(answer, { status: 400, json }, `${method} ${path.replace(/_\w+/, '')} ${JSON.stringify(body)}`)
  }
  const policy = { value: ENDING }
  const authority = await create(sluice, '/certificate_authorities', { ca_pem: (await newAuthority('Clients')).pem })
  const clients = { certificate_authority_ids: [authority.id] }

  await refused('POST', '/edges/tls', { traffic_policy: policy, tls_termination: {} }, 'traffic_policy')
  await refused('POST', '/edges/tls', { traffic_policy: policy, mutual_tls: clients }, 'traffic_policy')

  const ended = await edge({ tls_termination: {} })
  await refused('PATCH', ended, { traffic_policy: policy }, 'traffic_policy')
  await refused('PUT', `${ended}/traffic_policy`, policy, '')
  t.equal((await ask(`${ended}/traffic_policy`, { method: 'PUT', body: { ...policy, enabled: false } })).status, 200)
  await refused('PATCH', ended, { traffic_policy: { ...policy, enabled: true } }, 'traffic_policy')

  const open = await edge({ traffic_policy: policy })
  await refused('PATCH', open, { tls_termination: {} }, 'tls_termination')
  await refused('PUT', `${open}/tls_termination`, {}, '')
  await refused('PUT', `${open}/mutual_tls`, clients, '')
  for (const body of [{ terminate_at: 'upstream' }, { terminate_at: 'edge', enabled: false }])
    t.equal((await ask(`${open}/tls_termination`, { method: 'PUT', body })).status, 200)
  t.match((await ask(open)).json, { traffic_policy: { value: ENDING }, mutual_tls: null })
})

const document = (...rules: readonly object[]) => JSON.stringify({ on_tcp_connect: rules })
const END = { type: 'terminate-tls' }
const RULE = { expressions: ["conn.client_ip == '127.0.0.1'"] }

t.test('TLS that an earlier action has ended for sure is not ended again', async (t) => {
  const sluice = await startSluice(t)
  const put = async (value: string) => {
    const { status, json } = await account(sluice)('/edges/tcp', {
      method: 'POST',
      body: { traffic_policy: { value } }
    })
    return status === 201 ? [] : [json.details.path, json.msg]
  }
  const refusal = /terminate-tls cannot run, because the action in line 1 has ended TLS before/
  for (const [value, path] of [
    [document({ actions: [END] }, { actions: [END] }), 'on_tcp_connect[1].actions[0].type'],
    [document({ actions: [END] }, { ...RULE, actions: [END] }), 'on_tcp_connect[1].actions[0].type'],
    [document({ ...RULE, actions: [END, END] }), 'on_tcp_connect[0].actions[1].type']
  ] as const)
    t.match(await put(value), [path, refusal], value)
  for (const value of [
    document({ ...RULE, actions: [END] }, { actions: [END] }),
    document({ ...RULE, actions: [END] }, { ...RULE, actions: [END] })
  ])
    t.same(await put(value), [], `${value} may work`)
})

t.test('the policy of listeners for HTTP has no action that only edges can run', async (t) => {
  const sluice = await startSluice(t, { upstream: { port: 9 }, policy: document({ actions: [{ type: 'deny' }] }) })
  const forward = { type: 'forward-internal', config: { url: 'tcp://db.internal:5432' } }
  for (const action of [END, forward]) {
    const applied = await sluice.reload(document({ ...RULE, actions: [action] }))
    t.match(applied, {
      ok: false,
      problems: [{ problems: [{ code: 'ACTION_PHASE', message: /cannot run on connections of a listener for HTTP/ }] }]
    })
    t.match(
      await account(sluice)('/edges/tcp', {
        method: 'POST',
        body: { traffic_policy: { value: document({ actions: [action] }) } }
      }),
      {
        status: 201
      }
    )
  }
  t.equal((await sluice.reload(document({ actions: [{ type: 'close-connection' }] }))).ok, true)
})

t.test('an authority that does not exist is told at the write of the policy', async (t) => {
  const sluice = await startSluice(t)
  const { id } = await create(sluice, '/certificate_authorities', { ca_pem: (await newAuthority('Clients')).pem })
  const edge = await create(sluice, '/edges/tcp', {})
  const put = async (authority: string) => {
    const config = { mutual_tls_certificate_authorities: [authority] }
    const body = { value: document({ actions: [{ ...END, config }] }) }
    const answer = await account(sluice)(`/edges/tcp/${edge.id}/traffic_policy`, { method: 'PUT', body })
    return [answer.status, answer.json.warnings ?? answer.json]
  }
  const missing = `ca_${'x'.repeat(27)}`
  t.match(await put(missing), [
    200,
    [{ code: 'UNIT_MISSING', message: new RegExp(`no certificate authority ${missing} yet`) }]
  ])
  t.notMatch(JSON.stringify(await put(id)), /UNIT_MISSING/)
})
