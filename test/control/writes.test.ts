import { join } from 'node:path'
import t from 'tap'
import type { Unit } from '../../src/runtime/plan.js'
import { StoreError } from '../../src/store/errors.js'
import type { Store, StoreTransaction } from '../../src/store/store.js'
import { folder, operation } from '../store/opened.js'
import { type Account, DENY, open, resource } from './account.js'

const accepts = () => undefined
const INVALID = '{"on_http_request":[{"expressions":["req.nothing"],"actions":[{"type":"deny"}]}]}'

/** Everything that a refused write must leave alone. */
async function state(account: Account) {
  const { store, holder, control, events } = account
  return {
    snapshot: holder.current(),
    revision: control.configuration.revision,
    stored: await store.revision(),
    history: (await store.history({ limit: 100 })).length,
    events: events.length
  }
}

t.test('a policy is live on its host when the write is answered', async (t) => {
  const account = await open(t)
  const { holder } = account
  const { edge, route } = await account.site('a.test', DENY)
  const path = { id: route, edge_id: edge }
  t.match(holder.current().route('a.test', '/x'), { id: route, edge, upstream: undefined })
  t.ok(holder.current().policy(`policy:${route}`)?.phases.on_http_request)
  t.equal(holder.current().route('b.test', '/x'), undefined)
  const backend = await account.create('static_backend', { address: '[::1]:3000', tls: { enabled: true } })
  await account.put('https_edge_route', path, 'backend', { backend_id: backend.id })
  const upstream = holder.current().route('a.test', '/x')?.upstream
  t.same(holder.current().upstream(upstream ?? ''), {
    kind: 'upstream',
    name: 'https://[::1]:3000',
    form: 'address',
    protocol: 'https',
    host: '::1',
    port: 3000
  })
  await account.put('https_edge_route', path, 'backend', { backend_id: backend.id, enabled: false })
  t.equal(holder.current().route('a.test', '/x')?.upstream, undefined)
  const group = await account.create('tunnel_group_backend', { labels: { app: 'x' } })
  await account.put('https_edge_route', path, 'backend', { backend_id: group.id })
  t.match(holder.current().route('a.test', '/x'), {
    upstream: `upstream:${group.id}`,
    modules: [{ name: 'traffic_policy' }]
  })
  t.match(holder.current().upstream(`upstream:${group.id}`), { form: 'tunnels', labels: { app: 'x' } })
  await account.put('https_edge_route', path, 'traffic_policy', { value: DENY, enabled: false })
  t.equal(holder.current().policy(`policy:${route}`), undefined)
  await account.update('https_edge', { id: edge }, { hostports: ['*.c.test:443'] })
  t.equal(holder.current().route('a.test', '/x'), undefined)
  t.equal(holder.current().route('x.c.test', '/x')?.id, route)
  const snapshot = holder.current()
  await account.update('https_edge', { id: edge }, { description: 'no traffic depends on it' })
  const after = holder.current()
  t.equal(after.tables, snapshot.tables, 'what traffic does not depend on compiles nothing')
  t.equal(after.revision, snapshot.revision + 1, 'and serves as a revision of its own')
})

t.test('a policy that is refused is the error of the write, with its place, and changes nothing', async (t) => {
  const account = await open(t)
  const { edge, route } = await account.site('a.test', DENY)
  const before = await state(account)
  const path = { id: route, edge_id: edge }
  await t.rejects(account.put('https_edge_route', path, 'traffic_policy', { value: INVALID }), {
    code: /^POLICY_EXPRESSION/,
    field: 'value',
    details: { field: 'value', line: '1', column: /^\d+$/, path: 'on_http_request[0].expressions[0]' }
  })
  await t.rejects(
    account.create('https_edge_route', { match: '/n', traffic_policy: { value: INVALID } }, { edge_id: edge }),
    {
      code: /^POLICY_EXPRESSION/,
      field: 'traffic_policy.value'
    }
  )
  t.same(await state(account), before)
})

t.test('what only the compilation of the plan finds rolls the records back', async (t) => {
  // The check of bodies lets everything through here, so that the last line of defence has to hold.
  const account = await open(t, { checkPolicy: accepts })
  const { edge, route } = await account.site('a.test', DENY)
  const before = await state(account)
  const policy = before.snapshot.policy(`policy:${route}`)
  const path = { id: route, edge_id: edge }
  const refused = {
    name: 'ControlError',
    code: /^POLICY_EXPRESSION/,
    details: { line: '1', column: /^\d+$/, path: 'on_http_request[0].expressions[0]' }
  }
  await t.rejects(account.put('https_edge_route', path, 'traffic_policy', { value: INVALID }), refused)
  const body = { match: '/new', traffic_policy: { value: INVALID } }
  await t.rejects(account.create('https_edge_route', body, { edge_id: edge }), refused)
  t.same(await state(account), before)
  t.equal(account.holder.current().policy(`policy:${route}`), policy)
  t.match(await account.get('https_edge_route', path), { traffic_policy: { value: DENY } })
  await account.create('https_edge_route', { match: '/new' }, { edge_id: edge })
  t.equal(account.control.configuration.revision, before.revision + 1, 'a refused write leaves no gap and no claim')
})

t.test('of many writers that know the same revision one wins, the others learn of it', async (t) => {
  const account = await open(t)
  const { id, revision } = await account.create('ip_policy', { description: '0' })
  const writes = Array.from({ length: 20 }, (_, n) =>
    account.update('ip_policy', { id }, { description: `w${n}` }, { ifMatch: [revision] })
  )
  const results = await Promise.allSettled(writes)
  const won = results.filter((result) => result.status === 'fulfilled')
  t.equal(won.length, 1)
  for (const result of results) {
    if (result.status === 'rejected')
      t.match(result.reason, { code: 'PRECONDITION_FAILED', details: { revision: String(revision + 1) } })
  }
  const current = won[0]?.value.revision as number
  await t.rejects(account.remove('ip_policy', { id }, { ifMatch: [revision] }), { code: 'PRECONDITION_FAILED' })
  await account.update('ip_policy', { id }, { description: 'x' }, { ifMatch: [revision, current] })
  await t.rejects(account.remove('ip_policy', { id }, { ifMatch: [] }), { code: 'PRECONDITION_FAILED' })
  await account.remove('ip_policy', { id })
})

t.test(
  'without a condition concurrent writers lose nothing: revisions, answers and events come in one order',
  async (t) => {
    const account = await open(t)
    const { edge } = await account.site('a.test')
    const start = account.control.configuration.revision
    account.events.length = 0
    const made = await Promise.all(
      Array.from({ length: 30 }, (_, n) => account.create('https_edge_route', { match: `/${n}` }, { edge_id: edge }))
    )
    t.same(
      made.map(({ committed }) => committed).sort((a, b) => a - b),
      made.map((_, n) => start + 1 + n)
    )
    t.same(
      account.events.map(({ revision }) => revision),
      made.map((_, n) => start + 1 + n)
    )
    t.equal(account.control.configuration.revision, start + 30)
    t.equal(account.holder.current().route('a.test', '/29/x')?.id, made[29]?.id)
    const paths = await Promise.allSettled(
      Array.from({ length: 5 }, () => account.create('https_edge_route', { match: '/same' }, { edge_id: edge }))
    )
    t.equal(paths.filter(({ status }) => status === 'fulfilled').length, 1)
  }
)

/** A store that does to one method of each transaction, or to the whole transaction, what the test wants. */
function failing(store: Store, transact: Store['transact']): Store {
  return new Proxy(store, {
    get: (target, name) => {
      if (name === 'transact') return transact
      const value = Reflect.get(target, name) as unknown
      return typeof value === 'function' ? value.bind(target) : value
    }
  })
}

t.test('the process reloads its own units only between writes', async (t) => {
  let prepared: () => void = () => undefined
  let release: () => void = () => undefined
  let hold = false
  const account = await open(t, {
    wrap: (store) =>
      failing(store, (operationId, work) =>
        store.transact(operationId, async (tx) => {
          const value = await work(tx)
          if (!hold) return value
          prepared()
          await new Promise<void>((resolve) => {
            release = resolve
          })
          return value
        })
      )
  })
  const ready = new Promise<void>((resolve) => {
    prepared = resolve
  })
  hold = true
  const write = account.create('https_edge', { hostports: ['a.test:443'] })
  await ready
  const own: Unit = { kind: 'upstream', form: 'address', protocol: 'http', host: '127.0.0.1', port: 1 }
  const reload = account.control.configuration.applyOwn(new Map([['upstream:default', own]]))
  release()
  const [{ id }] = await Promise.all([write, reload])
  t.same(account.holder.current().upstream('upstream:default'), own)
  t.ok(account.holder.current().plan.units.get(`edge:${id}`), 'neither loses the other')
})

t.test('a commit that fails leaves the old configuration serving, and the next write works', async (t) => {
  let broken = false
  const account = await open(t, {
    wrap: (store) =>
      failing(store, async (operationId, work) => {
        if (!broken) return await store.transact(operationId, work)
        await store.transact(operationId, async (tx: StoreTransaction) => {
          await work(tx)
          tx.abandon()
        })
        throw new StoreError('STORE_UNAVAILABLE', 'the disk is full')
      })
  })
  const { edge, route } = await account.site('a.test', DENY)
  const before = await state(account)
  broken = true
  const path = { id: route, edge_id: edge }
  await t.rejects(account.remove('https_edge', { id: edge }), { name: 'ControlError', code: 'UNAVAILABLE' })
  await t.rejects(account.update('https_edge_route', path, { match: '/b' }), { code: 'UNAVAILABLE' })
  t.same(await state(account), before)
  t.equal(account.holder.current().route('a.test', '/')?.id, route)
  broken = false
  await account.update('https_edge_route', path, { match: '/b' })
  t.equal(account.holder.current().route('a.test', '/'), undefined)
  t.equal(account.holder.current().route('a.test', '/b')?.id, route)
})

t.test('a commit whose outcome stays unknown is caught up with by the next write', async (t) => {
  let lost = false
  const account = await open(t, {
    wrap: (store) =>
      failing(store, async (operationId, work) => {
        const outcome = await store.transact(operationId, work)
        if (lost) throw new StoreError('STORE_OUTCOME_UNKNOWN', 'nobody knows')
        return outcome
      })
  })
  const { edge, route } = await account.site('a.test', DENY)
  lost = true
  await t.rejects(account.update('https_edge', { id: edge }, { hostports: ['b.test:443'] }), {
    code: 'OUTCOME_UNKNOWN'
  })
  t.equal(account.holder.current().route('b.test', '/'), undefined, 'not served while it is not known')
  lost = false
  await account.create('ip_policy', {})
  t.equal(account.holder.current().route('b.test', '/')?.id, route)
  t.equal(account.control.configuration.revision, await account.store.revision())
})

t.test('a process that missed more than the history holds reads everything again', async (t) => {
  const account = await open(t)
  const { store, control, holder } = account
  const { edge, route } = await account.site('a.test', DENY)
  const gone = await account.site('gone.test', DENY)
  const rewrite = (kind: string, id: string, change: object) =>
    store.transact(operation(), async (tx) => {
      const stored = await tx.get(kind, id)
      await tx.update(kind, id, { body: { ...(stored?.body as object), ...change } })
    })
  await rewrite('https_edge', edge, { hostports: ['b.test:443'] })
  await store.transact(operation(), async (tx) => {
    await tx.delete('https_edge_route', gone.route)
    await tx.delete('https_edge', gone.edge)
  })
  await store.forgetHistory((await store.revision()) + 1)
  await t.rejects(account.create('ip_policy', { nonsense: 1 }), { code: 'FIELD_UNKNOWN' })
  await t.rejects(account.remove('vault', { id: 'vault_none' }), { code: 'NOT_FOUND' })
  t.equal(
    control.configuration.revision,
    await store.revision(),
    'a write that fails does not count its own revision as seen'
  )
  t.equal(holder.current().route('b.test', '/')?.id, route)
  t.equal(holder.current().route('a.test', '/'), undefined)
  t.equal(holder.current().policy(`policy:${gone.route}`), undefined)
  await rewrite('https_edge', edge, { hostports: ['c.test:443'] })
  await account.create('ip_policy', {})
  t.equal(holder.current().route('c.test', '/')?.id, route)
})

t.test('the units of the process itself change beside those of the records', async (t) => {
  const account = await open(t)
  const { edge, route } = await account.site('a.test', DENY)
  const { control, holder } = account
  const own = (port: number, text = DENY) =>
    new Map<string, Unit>([
      ['upstream:default', { kind: 'upstream', form: 'address', protocol: 'http', host: '127.0.0.1', port }],
      ['policy:default', { kind: 'policy', owner: 'default', text, source: 'policy.yaml' }],
      ['edge:default', { kind: 'edge', id: 'default', hosts: 'every' }],
      [
        'route:default',
        {
          kind: 'route',
          id: 'default',
          edge: 'default',
          match: 'prefix',
          path: '/',
          upstream: 'upstream:default',
          modules: { traffic_policy: { policy: 'policy:default' } }
        }
      ]
    ])
  t.match(await control.configuration.applyOwn(own(1)), { ok: true, changed: true })
  t.match(await control.configuration.applyOwn(own(1)), { ok: true, changed: false })
  t.equal(holder.current().route('other.test', '/')?.id, 'default')
  t.equal(holder.current().route('a.test', '/')?.id, route, 'edges come before the default')
  const [, created, applied] = await Promise.all([
    account.update('https_edge', { id: edge }, { hostports: ['b.test:443'] }),
    account.site('c.test'),
    control.configuration.applyOwn(own(2))
  ])
  t.ok(applied.ok)
  t.match(holder.current().upstream('upstream:default'), { port: 2 })
  t.equal(holder.current().route('b.test', '/')?.id, route)
  t.equal(holder.current().route('c.test', '/')?.id, created.route)
  const snapshot = holder.current()
  const refused = await control.configuration.applyOwn(own(3, INVALID))
  t.equal(refused.ok, false)
  t.equal(holder.current(), snapshot)
  t.match(await control.configuration.applyOwn(new Map()), { ok: true, changed: true })
  t.equal(holder.current().route('other.test', '/'), undefined)
  t.equal(holder.current().route('b.test', '/')?.id, route)
})

t.test(
  'a start serves what the store holds; a policy that compiles no more leaves its route out and is reported',
  async (t) => {
    const at = join(await folder(t), 'sluice.db')
    const first = await open(t, { at, checkPolicy: accepts })
    const good = await first.site('good.test', DENY)
    const bad = await first.site('bad.test', DENY)
    const plain = await first.create('https_edge_route', { match: '/plain' }, { edge_id: bad.edge })
    const allow = await first.create('ip_policy', {})
    await first.create('ip_policy_rule', { ip_policy_id: allow.id, cidr: '127.0.0.0/8', action: 'allow' })
    await first.create('ip_restriction', { type: 'api', enforced: true, ip_policy_ids: [allow.id] })
    // As an earlier version, which took it, would have left it.
    await first.store.transact(operation(), async (tx) => {
      const stored = await tx.get('https_edge_route', bad.route)
      const body = { ...(stored?.body as object), traffic_policy: { enabled: true, value: INVALID } }
      await tx.update('https_edge_route', bad.route, { body })
    })
    const revision = await first.store.revision()
    await first.control.close()

    const second = await open(t, { at })
    t.equal(second.control.configuration.revision, revision)
    t.equal(second.holder.current().route('good.test', '/')?.id, good.route)
    t.equal(second.holder.current().route('bad.test', '/'), undefined, 'no traffic passes unprotected')
    t.equal(second.holder.current().route('bad.test', '/plain')?.id, plain.id)
    t.match(second.control.configuration.lastError, /routes\/edghtsrt_.*EXPRESSION/)
    t.match(await second.control.configuration.processes(), [
      { self: true, appliedRevision: revision, lastError: /EXPRESSION/ }
    ])
    t.notOk(second.control.access.admits('192.0.2.1'), 'the restriction of the API holds from the start')
    const path = { id: bad.route, edge_id: bad.edge }
    await second.put('https_edge_route', path, 'traffic_policy', { value: DENY })
    t.equal(second.control.configuration.lastError, null)
    t.equal(second.holder.current().route('bad.test', '/')?.id, bad.route)
    t.equal(second.admin.id, first.admin.id)
  }
)

t.test('a closed control plane refuses writes and lets reads fail', async (t) => {
  const account = await open(t)
  await account.control.close()
  await t.rejects(account.create('ip_policy', {}), { code: 'UNAVAILABLE' })
  await t.rejects(account.control.records.list(resource('ip_policy'), { path: {}, limit: 1 }, account.call()))
})
