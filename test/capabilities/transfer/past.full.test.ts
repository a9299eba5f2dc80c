import t, { type Test } from 'tap'
import { account, create } from '../../helpers/account.js'
import { type RunningSluice, startSluice } from '../../helpers/sluice.js'
import { startPostgres } from '../../store/postgres-server.js'

const POLICY = `on_http_request:
  - name: own
    expressions: ["conn.client_ip == '203.0.113.9'"]
    actions: [{ type: deny }]
  - actions: [{ type: custom-response, config: { status_code: 200 } }]
`

interface Entry {
  readonly id: string
  readonly created_at?: string
}

/** Records of a kind by their ids; of those that are gone the time is known to the second. */
function comparable({ users, records }: { users: unknown; records: Record<string, Entry[]> }) {
  const byId = (all: readonly Entry[]) => [...all].sort((a, b) => (a.id < b.id ? -1 : 1)).map(toTheSecond)
  return { users, records: Object.fromEntries(Object.entries(records).map(([kind, all]) => [kind, byId(all)])) }
}

function toTheSecond({ created_at = '', ...entry }: Entry): object {
  return { ...entry, created_at: created_at.replace(/\.\d+Z$/, 'Z') }
}

async function exportOf(sluice: RunningSluice, revision: number) {
  const { status, json, text } = await account(sluice)(`/revisions/${revision}/export`)
  if (status !== 200) throw new Error(text)
  return json
}

function cases(t: Test, optionsOf: () => Promise<Readonly<Record<string, string>>>): void {
  t.test('the export at a revision is what the export was when it was the last', async (t) => {
    const sluice = await startSluice(t, { options: await optionsOf() })
    const ask = account(sluice)
    const then = new Map<number, unknown>()
    const keep = async () => {
      const revision = Number((await ask('/revisions?limit=1')).json.revisions[0].id)
      then.set(revision, comparable(await exportOf(sluice, revision)))
      return revision
    }
    await keep()
    const vault = await create(sluice, '/vaults', { name: 'keys' })
    const secret = await create(sluice, '/vault_secrets', { vault_id: vault.id, name: 'a', value: 'first-value' })
    await keep()
    const backend = await create(sluice, '/backends/static', { address: '127.0.0.1:9' })
    const edge = await create(sluice, '/edges/https', { hostports: ['a.example.com:443'], description: 'first' })
    const path = `/edges/https/${edge.id}/routes`
    const route = await create(sluice, path, { match: '/', backend: { backend_id: backend.id } })
    await keep()
    await ask(`${path}/${route.id}`, { method: 'PATCH', body: { match: '/b', traffic_policy: { value: POLICY } } })
    const webhook = { provider: 'github', secret: 'hook-secret' }
    await ask(`${path}/${route.id}/webhook_verification`, { method: 'PUT', body: webhook })
    const changed = await keep()
    await ask(`/vault_secrets/${secret.id}`, { method: 'PATCH', body: { value: 'second-value' } })
    await ask(`/edges/https/${edge.id}`, {
      method: 'PATCH',
      body: { description: 'second', hostports: ['b.example.com:443'] }
    })
    await ask(`${path}/${route.id}/webhook_verification`, { method: 'DELETE' })
    await create(sluice, '/api_keys', { description: 'of later' })
    await keep()
    await ask(`/edges/https/${edge.id}`, { method: 'DELETE' })
    await ask(`/vault_secrets/${secret.id}`, { method: 'DELETE' })
    const bot = await create(sluice, '/bot_users', { name: 'robot' })
    const gone = await keep()
    await ask(`/bot_users/${bot.id}`, { method: 'PATCH', body: { active: false } })
    for (const [revision, exported] of then) {
      t.same(comparable(await exportOf(sluice, revision)), exported, `revision ${revision}`)
    }
    const whole = await exportOf(sluice, changed)
    t.match(whole.records, {
      https_edge: [{ id: edge.id, fields: { description: 'first' } }],
      https_edge_route: [
        {
          id: route.id,
          fields: { match: '/b', traffic_policy: { value: POLICY } },
          withheld: ['webhook_verification.secret']
        }
      ],
      vault_secret: [{ id: secret.id, withheld: ['value'] }]
    })
    t.notMatch(JSON.stringify(whole), /first-value|second-value|hook-secret/)
    t.notOk((await exportOf(sluice, gone)).records.https_edge)
  })

  t.test('a record that was undone and is back is what it was', async (t) => {
    const sluice = await startSluice(t, { options: await optionsOf() })
    const ask = account(sluice)
    const last = async () => Number((await ask('/revisions?limit=1')).json.revisions[0].id)
    const edge = await create(sluice, '/edges/https', { hostports: ['a.example.com:443'], description: 'first' })
    const made = await last()
    const then = comparable(await exportOf(sluice, made))
    await ask(`/edges/https/${edge.id}`, { method: 'PATCH', body: { description: 'second' } })
    await ask(`/edges/https/${edge.id}`, { method: 'DELETE' })
    t.equal((await ask(`/revisions/${await last()}/revert`, { method: 'POST' })).status, 200)
    t.equal((await ask(`/edges/https/${edge.id}`, { method: 'PATCH', body: { description: 'third' } })).status, 200)
    t.same(comparable(await exportOf(sluice, made)), then)
    t.match((await exportOf(sluice, made + 1)).records.https_edge, [{ fields: { description: 'second' } }])
    t.notOk((await exportOf(sluice, made + 2)).records.https_edge)
    const net = (await ask(`/revisions/${await last()}/diff?from=${made}`)).json.changes
    t.match(net, [
      {
        id: edge.id,
        change: 'updated',
        fields: { description: { before: 'first', after: 'third' } },
        description: 'third'
      }
    ])
    t.equal(net.length, 1)
    t.same((await ask(`/revisions/${made + 1}/diff?from=${made + 3}`)).json.changes, [], 'what a revert has undone')
  })

  t.test('two revisions differ by the net of what lies between, and the other way round', async (t) => {
    const sluice = await startSluice(t, { options: await optionsOf() })
    const ask = account(sluice)
    const last = async () => Number((await ask('/revisions?limit=1')).json.revisions[0].id)
    const backend = await create(sluice, '/backends/static', { address: '127.0.0.1:9' })
    const other = await create(sluice, '/backends/static', { address: '127.0.0.1:8' })
    const edge = await create(sluice, '/edges/https', { hostports: ['a.example.com:443'], description: 'shop' })
    const path = `/edges/https/${edge.id}/routes`
    const policy = { value: POLICY }
    const route = await create(sluice, path, {
      match: '/',
      backend: { backend_id: backend.id },
      traffic_policy: policy
    })
    const start = await last()
    const temporary = await create(sluice, '/ip_policies', { description: 'temporary' })
    const next = POLICY.replace('203.0.113.9', '203.0.113.10')
    await ask(`${path}/${route.id}`, { method: 'PATCH', body: { traffic_policy: { value: next } } })
    await ask(`${path}/${route.id}`, { method: 'PATCH', body: { backend: { backend_id: other.id } } })
    await ask(`/ip_policies/${temporary.id}`, { method: 'DELETE' })
    const end = await last()
    const forth = (await ask(`/revisions/${end}/diff?from=${start}`)).json
    t.match(forth, { id: end, from: { id: start } })
    t.same(
      forth.changes.map(({ id }: { id: string }) => id),
      [route.id]
    )
    const by = (field: string) => forth.changes[0].differences.find((one: { field: string }) => one.field === field)
    t.same(by('backend.backend.id'), { field: 'backend.backend.id', before: backend.id, after: other.id })
    t.notOk(by('backend.backend.uri'), 'the URL follows from the id')
    t.equal(
      by('traffic_policy.value').text_diff,
      [
        '@@ -1,5 +1,5 @@',
        ' on_http_request:',
        '   - name: own',
        `-    expressions: ["conn.client_ip == '203.0.113.9'"]`,
        `+    expressions: ["conn.client_ip == '203.0.113.10'"]`,
        '     actions: [{ type: deny }]',
        '   - actions: [{ type: custom-response, config: { status_code: 200 } }]'
      ].join('\n')
    )
    const back = (await ask(`/revisions/${start}/diff?from=${end}`)).json.changes[0]
    t.match(back, {
      change: 'updated',
      fields: { backend: { before: { backend: { id: other.id } }, after: { backend: { id: backend.id } } } }
    })
    const whole = await ask(`/revisions/${end}/diff?from=0`)
    t.same(
      whole.json.changes.filter(({ change }: { change: string }) => change !== 'created'),
      []
    )
    t.match(whole.json, { from: { id: 0, uri: null } })
    t.same((await ask(`/revisions/${end}/diff?from=${end}`)).json.changes, [])
    t.match(await ask(`/revisions/${end}/diff?from=9999`), { status: 404, json: { msg: /revision 9999/ } })
    t.match(await ask(`/revisions/${end}/diff?from=x`), {
      status: 400,
      json: { error_code: 'ERR_SLUICE_QUERY_INVALID' }
    })
  })

  t.test('text for people by Accept; a policy in one line of JSON is shown in several', async (t) => {
    const sluice = await startSluice(t, { options: await optionsOf() })
    const ask = account(sluice)
    const edge = await create(sluice, '/edges/https', { description: 'shop \u001b[31m' })
    const path = `/edges/https/${edge.id}/routes`
    const policy = (status: number) => {
      const config = { status_code: status }
      return { value: JSON.stringify({ on_http_request: [{ actions: [{ type: 'custom-response', config }] }] }) }
    }
    const webhook_verification = { provider: 'github', secret: 'hook-secret' }
    const route = await create(sluice, path, { match: '/', traffic_policy: policy(200), webhook_verification })
    const changed = await ask(`${path}/${route.id}`, {
      method: 'PATCH',
      body: { traffic_policy: policy(404), webhook_verification: { provider: 'github', secret: 'other-secret' } }
    })
    const revision = Number(changed.headers['service-revision'])
    const text = await ask(`/revisions/${revision}/diff`, { headers: { accept: 'text/plain' } })
    t.match(text.headers['content-type'], /^text\/plain/)
    t.match(text.text, new RegExp(`^revision ${revision} of \\d{4}-.*Z by administrator \\(usr_`))
    t.match(text.text, `~ https_edge_route ${route.id}\n`)
    t.match(text.text, '      -            "status_code": 200\n      +            "status_code": 404\n')
    t.match(text.text, '    webhook_verification.secret: changed (secret)\n')
    t.notMatch(text.text, /hook-secret|other-secret/)
    const made = await ask(`/revisions/${revision - 2}/diff`, { headers: { accept: 'text/plain, */*' } })
    t.match(made.text, `+ https_edge ${edge.id} "shop \\u001b[31m"`)
    t.match((await ask(`/revisions/${revision}/diff`, { headers: { accept: '*/*' } })).json.id, revision)
    t.match((await ask(`/revisions/${revision}/diff`, { headers: { accept: 'text/plain;q=0' } })).json.id, revision)
  })

  t.test('members see the fields of what they may read, and export nothing', async (t) => {
    const sluice = await startSluice(t, { options: await optionsOf() })
    const ask = account(sluice)
    const bot = await create(sluice, '/bot_users', { name: 'robot' })
    const { token } = await create(sluice, '/api_keys', { owner_id: bot.id })
    const key = await create(sluice, '/api_keys', { description: 'for-administrators' })
    const revision = Number((await ask('/revisions?limit=1')).json.revisions[0].id)
    const seen = await ask(`/revisions/${revision}/diff`, { key: token })
    t.match(seen.json.changes, [{ id: key.id, description: null, fields: null, differences: null }])
    const text = await ask(`/revisions/${revision}/diff?from=1`, { key: token, headers: { accept: 'text/plain' } })
    t.match(text.text, '(the history does not show its fields)')
    t.notMatch(text.text, 'for-administrators')
    t.match(await ask(`/revisions/${revision}/export`, { key: token }), {
      status: 403,
      json: { error_code: 'ERR_SLUICE_ADMIN_REQUIRED', msg: /export or import/ }
    })
    t.match(await ask('/revisions/9999/export'), {
      status: 404,
      json: { msg: /no such revision 9999; the last one is/ }
    })
  })
}

t.test('SQLite', async (t) => cases(t, async () => ({})))

t.test('PostgreSQL', async (t) => {
  const server = await startPostgres(t)
  cases(t, async () => ({ STORE: await server.database() }))
})
