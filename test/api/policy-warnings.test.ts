import t from 'tap'
import { make, openAccount } from './account.js'

const DOUBTFUL = JSON.stringify({
  on_http_request: [
    { expressions: ["req.headers['x-token'][0] != 's3cret'"], actions: [{ type: 'deny' }] },
    {
      actions: [
        { type: 'restrict-ips', config: { allow: ['0.0.0.0/0'], ip_policies: ['ipp_nothing'] } },
        { type: 'http-request', config: { url: 'https://gate.internal/' } },
        { type: 'add-headers', config: { headers: { 'x-key': "${secrets.get('main', 'key')}" } } },
        { type: 'forward-internal', config: { url: 'https://shop.internal' } }
      ]
    }
  ]
})

t.test('a write tells the warnings of its policy and what it names that is not there', async (t) => {
  const { ask } = await openAccount(t)
  const { id } = await make(ask, '/edges/https', { hostports: ['app.test:443'] })
  const { id: route, warnings: none } = await make(ask, `/edges/https/${id}/routes`, { match: '/' })
  t.equal(none, undefined, 'nothing to tell')
  const path = `/edges/https/${id}/routes/${route}/traffic_policy`
  const put = { method: 'PUT', body: { value: DOUBTFUL } }
  const dry = await ask(`${path}?dry_run=true`, put)
  const { json, status } = await ask(path, put)
  t.equal(status, 200)
  t.same(dry.json.warnings, json.warnings)
  t.notOk('warnings' in dry.json.body)
  const place = (warning: { code: string; path: string }) => `${warning.code} ${warning.path}`
  t.same(json.warnings.map(place).sort(), [
    'RULE_FAILS_OPEN on_http_request[0].expressions[0]',
    'UNIT_MISSING on_http_request[1].actions[0].config.ip_policies[0]',
    'UNIT_MISSING on_http_request[1].actions[1].config.url',
    'UNIT_MISSING on_http_request[1].actions[2].config.headers.x-key',
    'UNIT_MISSING on_http_request[1].actions[3].config.url'
  ])
  const messages = json.warnings.map(({ message }: { message: string }) => message).join('\n')
  for (const name of ['ipp_nothing', 'gate.internal', 'shop.internal', '"key"', '"main"']) t.match(messages, name)
  for (const { line, column } of json.warnings) t.ok(line === 1 && column > 1)
  t.notOk('warnings' in (await ask(path)).json, 'they belong to the write')
})

t.test('what is there is not missed', async (t) => {
  const { ask } = await openAccount(t)
  const policy = await make(ask, '/ip_policies')
  const vault = await make(ask, '/vaults', { name: 'main' })
  await make(ask, '/vault_secrets', { name: 'key', value: 'canary', vault_id: vault.id })
  for (const host of ['gate', 'shop']) {
    const inside = await make(ask, '/edges/https', { hostports: [`${host}.internal:443`] })
    await make(ask, `/edges/https/${inside.id}/routes`, { match: '/' })
  }
  const { id } = await make(ask, '/edges/https', { hostports: ['app.test:443'] })
  const value = DOUBTFUL.replace('ipp_nothing', policy.id)
  const { warnings } = await make(ask, `/edges/https/${id}/routes`, { match: '/', traffic_policy: { value } })
  t.same(
    warnings.map(({ code }: { code: string }) => code),
    ['RULE_FAILS_OPEN']
  )
})

t.test('all errors of a document are told at once', async (t) => {
  const { ask } = await openAccount(t)
  const { id } = await make(ask, '/edges/https')
  const { id: route } = await make(ask, `/edges/https/${id}/routes`, { match: '/' })
  const value =
    'on_http_request:\n  - expressions: ["req.nothing"]\n    actions:\n      - type: denny\n      - type: deny\n        config: { status_code: 1 }\n'
  const path = `/edges/https/${id}/routes/${route}/traffic_policy`
  const { status, json } = await ask(path, { method: 'PUT', body: { value } })
  t.equal(status, 400)
  t.equal(json.error_code, 'ERR_SLUICE_POLICY_EXPRESSION_UNKNOWN')
  t.match(json.problems, [
    { error_code: 'ERR_SLUICE_POLICY_EXPRESSION_UNKNOWN', field: 'value', line: '2' },
    { error_code: 'ERR_SLUICE_POLICY_ACTION_UNKNOWN', field: 'value', line: '4', msg: /denny/ },
    { error_code: 'ERR_SLUICE_POLICY_CONFIG_INVALID', field: 'value', line: '6' }
  ])
  t.equal(json.problems.length, 3)
  t.match(json.details.also, /line 4, column 15: .*denny.*; value line 6/)
  for (const part of [json.details, ...json.problems]) for (const text of Object.values(part)) t.type(text, 'string')
  const single = await ask(path, { method: 'PUT', body: { value: 'on_http_request: 1' } })
  t.notOk('problems' in single.json)
})
