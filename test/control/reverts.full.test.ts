import t, { type Test } from 'tap'
import { account, create } from '../helpers/account.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { startPostgres } from '../store/postgres-server.js'

const POLICY = { value: 'on_http_request: [{ actions: [{ type: deny }] }]' }

interface Setup {
  readonly sluice: RunningSluice
  readonly ask: ReturnType<typeof account>
  /** Reverts a revision, the last one unless it is named. */
  revert(revision?: number, query?: string): ReturnType<ReturnType<typeof account>>
  last(): Promise<number>
}

async function setup(t: Test, options: Readonly<Record<string, string>>): Promise<Setup> {
  const sluice = await startSluice(t, { options })
  const ask = account(sluice)
  const last = async () => Number((await ask('/revisions?limit=1')).json.revisions[0].id)
  return {
    sluice,
    ask,
    last,
    revert: async (revision, query = '') =>
      ask(`/revisions/${revision ?? (await last())}/revert${query}`, { method: 'POST' })
  }
}

function cases(t: Test, optionsOf: () => Promise<Readonly<Record<string, string>>>): void {
  t.test('what was updated is what it was, by the write before or by one long ago', async (t) => {
    const { ask, sluice, revert, last } = await setup(t, await optionsOf())
    const backend = await create(sluice, '/backends/static', { address: '127.0.0.1:9' })
    const edge = await create(sluice, '/edges/https', { hostports: ['a.example.com:443'], description: 'first' })
    const path = `/edges/https/${edge.id}/routes`
    const route = await create(sluice, path, { match: '/', backend: { backend_id: backend.id } })
    const before = (await ask(`${path}/${route.id}`)).json
    await ask(`${path}/${route.id}`, { method: 'PATCH', body: { match: '/other', traffic_policy: POLICY } })
    const changed = await last()
    await ask(`/edges/https/${edge.id}`, { method: 'PATCH', body: { description: 'second' } })
    const dry = await revert(changed, '?dry_run=true')
    t.match(dry, { status: 200 })
    t.match((await ask(`${path}/${route.id}`)).json, { match: '/other' }, 'a dry run changes nothing')
    const reverted = await revert(changed)
    t.match(reverted, {
      status: 200,
      json: {
        reverts: { id: changed },
        revision: { id: changed + 2 },
        changes: [{ resource: 'https_edge_route', change: 'updated' }]
      }
    })
    const now = (await ask(`${path}/${route.id}`)).json
    t.same({ ...now, updated_at: '' }, { ...before, updated_at: '' })
    t.match((await ask(`/edges/https/${edge.id}`)).json, { description: 'second' }, 'other changes stay')
    t.match((await ask(`/revisions/${changed + 2}`)).json, { reverts: { id: changed } })
    await revert(changed + 2)
    t.match(
      (await ask(`${path}/${route.id}`)).json,
      { match: '/other', traffic_policy: { value: POLICY.value } },
      'and back'
    )
  })

  t.test('what was deleted comes back with its id and all that went with it; what was made goes', async (t) => {
    const { ask, sluice, revert } = await setup(t, await optionsOf())
    const backend = await create(sluice, '/backends/static', { address: '127.0.0.1:9' })
    const edge = await create(sluice, '/edges/https', { hostports: ['a.example.com:443'] })
    const path = `/edges/https/${edge.id}/routes`
    const route = await create(sluice, path, {
      match: '/',
      backend: { backend_id: backend.id },
      traffic_policy: POLICY
    })
    const before = [(await ask(`/edges/https/${edge.id}`)).json, (await ask(`${path}/${route.id}`)).json]
    t.equal((await ask(`/edges/https/${edge.id}`, { method: 'DELETE' })).status, 204)
    t.equal((await ask(`${path}/${route.id}`)).status, 404)
    t.match(await revert(), { status: 200 })
    const after = [(await ask(`/edges/https/${edge.id}`)).json, (await ask(`${path}/${route.id}`)).json]
    const timeless = (all: object[]) =>
      all.map((one) => JSON.stringify(one).replace(/"(created|updated)_at":"[^"]*"/g, ''))
    t.same(timeless(after), timeless(before))
    t.match(await revert(), { status: 200 }, 'the revert is reverted')
    t.equal((await ask(`/edges/https/${edge.id}`)).status, 404)
    const made = await create(sluice, '/ip_policies', { description: 'new' })
    t.match(await revert(), {
      status: 200,
      json: { changes: [{ resource: 'ip_policy', id: made.id, change: 'deleted' }] }
    })
    t.equal((await ask(`/ip_policies/${made.id}`)).status, 404)
  })

  t.test('later writes that stand in the way are named, and nothing changes', async (t) => {
    const { ask, sluice, revert, last } = await setup(t, await optionsOf())
    const policy = await create(sluice, '/ip_policies', { description: 'one' })
    const made = await last()
    await ask(`/ip_policies/${policy.id}`, { method: 'PATCH', body: { description: 'two' } })
    const second = await last()
    await ask(`/ip_policies/${policy.id}`, { method: 'PATCH', body: { description: 'three' } })
    const conflict = await revert(second)
    t.match(conflict, {
      status: 409,
      json: { error_code: 'ERR_SLUICE_REVERT_CONFLICT', msg: /description has changed since/ }
    })
    await create(sluice, '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '10.0.0.0/8', action: 'allow' })
    t.match(await revert(made), { status: 409, json: { msg: /ip_policy_rule .*made later/ } })
    t.equal((await ask(`/ip_policies/${policy.id}`)).json.description, 'three')
    const edge = await create(sluice, '/edges/https', { hostports: ['a.example.com:443'] })
    await ask(`/edges/https/${edge.id}`, { method: 'DELETE' })
    const deleted = await last()
    await create(sluice, '/edges/https', { hostports: ['a.example.com:443'] })
    t.match(await revert(deleted), { status: 409, json: { error_code: 'ERR_SLUICE_ALREADY_EXISTS' } })
    t.match(await revert(9999), { status: 404 })
  })

  t.test('what the history does not keep cannot come back: secrets, and hashes of keys', async (t) => {
    const { ask, sluice, revert } = await setup(t, await optionsOf())
    const vault = await create(sluice, '/vaults', { name: 'keys' })
    const secret = await create(sluice, '/vault_secrets', { vault_id: vault.id, name: 'a', value: 's3cret' })
    await ask(`/vault_secrets/${secret.id}`, { method: 'DELETE' })
    const refused = await revert()
    t.match(refused, { status: 409, json: { error_code: 'ERR_SLUICE_REVERT_IMPOSSIBLE', msg: /value is not kept/ } })
    const key = await create(sluice, '/api_keys', { description: 'x' })
    await ask(`/api_keys/${key.id}`, { method: 'DELETE' })
    t.match(await revert(), {
      status: 409,
      json: { error_code: 'ERR_SLUICE_REVERT_IMPOSSIBLE', msg: /token is not kept/ }
    })
    t.notMatch(JSON.stringify((await ask('/revisions')).json), /s3cret/)
  })

  t.test('a member needs the rights of each change', async (t) => {
    const { ask, sluice, last } = await setup(t, await optionsOf())
    await create(sluice, '/vaults', { name: 'keys' })
    const revision = await last()
    const bot = await create(sluice, '/bot_users', { name: 'robot' })
    const { token } = await create(sluice, '/api_keys', { owner_id: bot.id })
    const answer = await ask(`/revisions/${revision}/revert`, { method: 'POST', key: token })
    t.match(answer, { status: 403, json: { error_code: 'ERR_SLUICE_ADMIN_REQUIRED' } })
  })
}

t.test('SQLite', async (t) => cases(t, async () => ({})))

t.test('PostgreSQL', async (t) => {
  const server = await startPostgres(t)
  cases(t, async () => ({ STORE: await server.database() }))
})
