import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { makeAuthority, makeServerCertificate } from '../../../src/lib/self-signed.js'
import { call, DENY_ADMIN, freePort, get, sluice, started, stopped, upstream } from './site-kit.js'

t.test('what the API has made becomes a file that takes its place without a gap', async (t) => {
  const [web, other] = await Promise.all([upstream(t, 'web'), upstream(t, 'other')])
  const pair = await makeServerCertificate('CN=shop.test', ['shop.test'], { now: Date.now(), life: 86_400_000 * 9 })
  const cwd = t.testdir({})
  const { process, traffic, api } = await started(t, cwd)
  const make = async (path: string, body: object) => {
    const made = await call(api, 'POST', path, body)
    t.equal(made.status, 201, `${path} ${JSON.stringify(made.body)}`)
    return made.body
  }
  const [one, two] = [
    await make('/backends/static', {
      address: web,
      lenient: true,
      max_connections: 500,
      queue: { length: 7 },
      upgrades: ['tcp', 'spdy/3.1'],
      proxy_protocol: 'off'
    }),
    await make('/backends/static', { address: other })
  ]
  const both = await make('/backends/weighted', {
    backends: { [one.id]: 3, [two.id]: 1 },
    description: 'Both of them',
    balance: 'hash',
    hash_key: "req.headers['x-user'][0]"
  })
  const over = await make('/backends/failover', { backends: [both.id, two.id] })
  const policy = await make('/ip_policies', { description: 'Office' })
  await make('/ip_policy_rules', { ip_policy_id: policy.id, cidr: '127.0.0.0/8', action: 'allow' })
  const vault = await make('/vaults', { name: 'keys' })
  await make('/vault_secrets', { vault_id: vault.id, name: 'one', value: 'a secret of the API' })
  await make('/tls_certificates', { certificate_pem: pair.cert, private_key_pem: pair.key })
  const edge = await make('/edges/https', { hostports: ['shop.test:443', 'www.shop.test:443'], description: 'Shop' })
  const restrict = `on_http_request:\n  - actions:\n      - type: restrict-ips\n        config: {enforce: true, ip_policies: [${policy.id}]}\n`
  await make(`/edges/https/${edge.id}/routes`, {
    match: '/',
    backend: { backend_id: over.id },
    traffic_policy: { value: DENY_ADMIN },
    compression: {}
  })
  await make(`/edges/https/${edge.id}/routes`, {
    match: '/other',
    match_type: 'exact_path',
    backend: { backend_id: two.id },
    traffic_policy: { value: restrict },
    ip_restriction: { ip_policy_ids: [policy.id] },
    webhook_verification: { provider: 'github', secret: 'a secret of a route', enabled: true }
  })
  const port = await freePort()
  await make('/edges/tcp', { hostports: [`127.0.0.1:${port}`], backend: { backend_id: one.id }, metadata: 'tcp' })
  const fixed = await make('/backends/http_response', { status_code: 418, body: 'tea', headers: { 'x-tea': 'green' } })
  const sticky = { cookie: 'at', ttl: 60 }
  await make('/backends/tunnel_group', { labels: { app: 'web' }, balance: 'least_requests', sticky })
  await make('/ip_restrictions', { type: 'endpoints', enforced: true, ip_policy_ids: [policy.id] })
  const { cert } = await makeAuthority('CN=clients', { now: Date.now(), life: 86_400_000 * 9 })
  const authority = await make('/certificate_authorities', { ca_pem: cert })
  const tea = await make('/edges/https', {
    hostports: ['tea.test:443'],
    mutual_tls: { certificate_authority_ids: [authority.id], enabled: true },
    tls_termination: { min_version: '1.3', enabled: true },
    hsts: { max_age: 600, enabled: true },
    path_form: 'lenient'
  })
  await make(`/edges/https/${tea.id}/routes`, { match: '/tea', backend: { backend_id: fixed.id } })
  const open = await make('/vaults', { name: 'open', usable_by: ['members'] })
  const kept = await make('/edges/https', { hostports: ['kept.test:443'], on_http: 'refuse' })
  await make(`/edges/https/${kept.id}/routes`, { match: '/', backend: { backend_id: one.id } })

  const bare = await sluice(cwd, 'adopt', 'bare', '--api', api)
  t.match(bare, { code: 0, out: /provide: bare\/tls\/shop\.test\.key/ }, bare.err)
  t.match(bare.out, `left: vault ${open.id} stays in the API`)
  t.match(bare.out, new RegExp(`left: https_edge ${kept.id} stays in the API`))
  const run = await sluice(cwd, 'adopt', 'sites', '--with-keys', '--data', 'data', '--api', api)
  t.equal(run.code, 0, run.err)
  t.notMatch(run.out, /provide:/)
  t.match(await sluice(cwd, 'adopt', 'sites', '--api', api), { code: 1, err: /not empty/ })
  const key = join(cwd, 'sites', 'tls', 'shop.test.key')
  t.equal(readFileSync(key, 'utf8').trim(), pair.key.trim())
  t.equal(statSync(key).mode & 0o777, 0o600)
  const text = readFileSync(join(cwd, 'sites', 'sites.yaml'), 'utf8')
  t.notMatch(text, /a secret|PRIVATE KEY/)
  t.match(text, `#   https_edge ${kept.id} stays in the API`)
  t.match(text, /balance: hash\n\s+hash_key: .*req\.headers\['x-user'\]\[0\]/)
  t.match(text, /lenient: true\n\s+max_connections: 500\n\s+queue:\n\s+length: 7\n/)
  t.match(text, /upgrades:\n\s+- tcp\n\s+- spdy\/3\.1\n/)
  t.notMatch(text, 'proxy_protocol')
  t.match(text, /balance: least_requests\n\s+sticky:\n\s+cookie: at\n\s+ttl: 60\n/)
  const checked = await sluice(cwd, 'check', 'sites/sites.yaml')
  t.equal(checked.code, 0, checked.out)

  const clash = await sluice(cwd, 'plan', 'sites/sites.yaml', '--api', api)
  t.match(clash, { code: 1, err: /ALREADY_EXISTS/ }, 'without the list it clashes')
  const adopting = ['sites/sites.yaml', '--adopt', 'sites/records.json', '--api', api]
  t.match(await sluice(cwd, 'plan', ...adopting), { code: 2, out: new RegExp(`- https_edge ${edge.id}`) })

  let ended = false
  const seen = new Map<string, number>()
  const load = Array.from({ length: 4 }, async () => {
    while (!ended) {
      const answer = await get(traffic, 'www.shop.test').catch((error: Error) => error.message)
      const denied = await get(traffic, 'shop.test', '/admin').catch((error: Error) => error.message)
      const tcp = await get(`http://127.0.0.1:${port}`, 'any.test').catch((error: Error) => error.message)
      for (const one of [answer, `admin ${denied}`, `tcp ${tcp}`]) seen.set(one, (seen.get(one) ?? 0) + 1)
    }
  })
  const applied = await sluice(cwd, 'apply', ...adopting, '--yes')
  t.equal(applied.code, 0, applied.err)
  const before = [...seen.values()].reduce((a, b) => a + b, 0)
  while ([...seen.values()].reduce((a, b) => a + b, 0) < before + 40) await get(traffic, 'www.shop.test')
  ended = true
  await Promise.all(load)
  t.same(
    new Set(seen.keys()),
    new Set(['200 web', '200 other', 'admin 403', 'tcp 200 web']),
    'no request was dropped or let through'
  )
  t.equal(await get(traffic, 'shop.test', '/other'), '403', 'the webhook asks for its signature')
  t.equal((await call(api, 'GET', `/edges/https/${edge.id}`)).status, 404)
  t.equal((await call(api, 'GET', `/edges/https/${kept.id}`)).status, 200)
  t.match(await sluice(cwd, 'plan', 'sites/sites.yaml', '--api', api), { code: 0, out: 'nothing changes' })

  const stale = await sluice(cwd, 'apply', ...adopting, '--yes')
  t.match(stale, { code: 1, err: /PRECONDITION_FAILED.*is gone/ })
  await stopped(process)
  const next = await started(t, cwd, {}, 'sites/sites.yaml')
  t.match(await get(next.traffic, 'shop.test'), /^200 (web|other)$/)
  t.match(await sluice(cwd, 'plan', 'sites/sites.yaml', '--api', next.api), { code: 0, out: 'nothing changes' })
})
