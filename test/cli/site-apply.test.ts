import { readFileSync, statSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { makeServerCertificate } from '../../src/lib/self-signed.js'
import { until } from '../helpers/until.js'
import { startPostgres } from '../store/postgres-server.js'
import { type Ended, SluiceProcess } from './process.js'

const KEY = 'test-key-that-is-long-enough-0123456789'
const DENY_ADMIN =
  'on_http_request:\n  - expressions: ["req.url.path.startsWith(\'/admin\')"]\n    actions:\n      - type: deny\n'

type Test = Pick<typeof t, 'teardown' | 'testdir'>

/** A server that answers with its name. */
async function upstream(t: Test, name: string): Promise<string> {
  const server = createServer((_, response) => response.end(name))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())))
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Status and text of one request with this host. */
function get(url: string, host: string, path = '/'): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request(new URL(path, url), { headers: { host }, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () => resolve(`${response.statusCode} ${response.statusCode === 200 ? text : ''}`.trim()))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end()
  })
}

async function call(api: string, method: string, path: string, body?: unknown, key = KEY) {
  const response = await fetch(`${api}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'service-version': '2' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  const text = await response.text()
  // biome-ignore lint/suspicious/noExplicitAny: answers of many forms
  return { status: response.status, body: (text === '' ? null : JSON.parse(text)) as any }
}

/** One command of the product. */
function sluice(cwd: string, ...words: string[]): Promise<Ended> {
  return new SluiceProcess(t, words, { cwd, env: { SLUICE_API_KEY: KEY } }).ended()
}

/** Stops a process as an operator does. */
async function stopped(process: SluiceProcess): Promise<Ended> {
  process.child.kill('SIGTERM')
  return await process.ended()
}

async function started(t: Test, cwd: string, env: Record<string, string> = {}, ...words: string[]) {
  const all = ['start', ...words, '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--data', 'data']
  const process = new SluiceProcess(t, all, { cwd, env: { SLUICE_API_KEY: KEY, ...env } })
  const { traffic, api } = (await process.logged('listening')) as { traffic: string; api: string }
  return { process, traffic, api }
}

t.test('a file is compared, applied in one write, and serves after a restart', async (t) => {
  const [web, other] = await Promise.all([upstream(t, 'web'), upstream(t, 'other')])
  const text = (server: string) =>
    'sites:\n  a.test: { policy: p/a.yaml, routes: { /: web } }\n' +
    `backends:\n  web: { servers: ["http://${server}"] }\nvaults:\n  keys: { one: { env: ONE }, two: { file: two } }\n`
  const cwd = t.testdir({ 'sites.yaml': text(web), p: { 'a.yaml': DENY_ADMIN }, two: 'a secret of the file' })
  const { process, traffic, api } = await started(t, cwd, { ONE: 'a secret of the environment' })
  const at = ['--api', api]

  const first = await sluice(cwd, 'plan', 'sites.yaml', ...at)
  t.match(first, { code: 2, out: /\+ site a\.test \(sites\.yaml:2\)\n(.*\n)*4 added, 0 changed, 0 removed/ }, first.err)
  t.equal(await get(traffic, 'a.test'), '404', 'a plan changes nothing')
  t.match(
    await sluice(cwd, 'apply', 'sites.yaml', ...at),
    { code: 2, err: /--yes/ },
    'without a terminal it asks for --yes'
  )
  t.equal(await get(traffic, 'a.test'), '404')
  t.match(await sluice(cwd, 'apply', 'sites.yaml', '--yes', ...at), { code: 0, out: /applied$/ })
  t.equal(await get(traffic, 'a.test'), '200 web')
  t.equal(await get(traffic, 'a.test', '/admin'), '403')
  t.match(await sluice(cwd, 'plan', 'sites.yaml', ...at), { code: 0, out: 'nothing changes' })

  const { body: site } = await call(api, 'GET', '/site')
  t.match(site, { file: 'sites.yaml', origin: 'apply', digest: /^[0-9a-f]{64}$/ })
  t.match(site.items, [
    { kind: 'site', name: 'a.test', line: 2 },
    { kind: 'policy', name: 'p/a.yaml', line: 2 },
    { kind: 'backend', name: 'web', line: 4 },
    { kind: 'vault', name: 'keys', line: 6 }
  ])
  t.equal(
    (await call(api, 'PUT', '/site', bundle(cwd, ['p/a.yaml', 'two']))).body.revision,
    site.revision,
    'idempotent'
  )
  t.match((await call(api, 'GET', `/revisions/${site.revision}`)).body, {
    created: 1,
    principal: { subject: 'administrator' }
  })
  const { body: history } = await call(api, 'GET', `/revisions/${site.revision}/diff`)
  t.match(history.changes, [
    { resource: 'site_file', change: 'created', fields: { file: { before: null, after: 'sites.yaml' } } }
  ])
  const { body: edges } = await call(api, 'GET', '/edges/https')
  t.match(edges.https_edges, [{ hostports: ['a.test:443'], declared: { file: 'sites.yaml', line: 2 } }])
  const refused = await call(api, 'DELETE', `/edges/https/${edges.https_edges[0].id}`)
  t.match(refused, {
    status: 409,
    body: { error_code: 'ERR_SLUICE_DECLARED', details: { file: 'sites.yaml', line: '2' } }
  })
  t.match(await call(api, 'POST', '/edges/https', { hostports: ['a.test:443'] }), { status: 409 })

  await writeFile(join(cwd, 'sites.yaml'), text(other))
  await writeFile(join(cwd, 'two'), 'another secret')
  const changed = await sluice(cwd, 'plan', 'sites.yaml', '--json', ...at)
  t.equal(changed.code, 2)
  t.match(JSON.parse(changed.out).changes, [
    {
      change: 'changed',
      kind: 'backend',
      name: 'web',
      line: 4,
      fields: [{ field: 'address', before: web, after: other }]
    },
    { change: 'changed', kind: 'vault', name: 'keys', secrets: ['two value'] }
  ])
  t.notMatch(changed.out, /secret of|another secret/)
  t.equal((await sluice(cwd, 'apply', 'sites.yaml', '--yes', ...at)).code, 0)
  t.equal(await get(traffic, 'a.test'), '200 other')

  const { out, err } = await stopped(process)
  t.notMatch(out + err, /secret of|another secret/)
  const again = await started(t, cwd, { ONE: 'a secret of the environment' })
  t.equal(await get(again.traffic, 'a.test'), '200 other')
  t.equal(await get(again.traffic, 'a.test', '/admin'), '403')
  t.match(await sluice(cwd, 'plan', 'sites.yaml', '--api', again.api), { code: 0, out: 'nothing changes' })
  t.match(await call(again.api, 'DELETE', '/site'), { status: 204 })
  t.equal(await get(again.traffic, 'a.test'), '404')
  t.match(await call(again.api, 'GET', '/site'), { status: 200, body: { file: null, items: [] } })
  t.match(await call(again.api, 'DELETE', '/site'), { status: 404 })
})

/** The body of an application. */
function bundle(cwd: string, names: readonly string[], file = 'sites.yaml') {
  const read = (name: string) => readFileSync(join(cwd, name), 'utf8')
  return { file, text: read(file), files: names.map((name) => ({ name, text: read(name) })) }
}

t.test('what is wrong is told with its place, and nothing changes', async (t) => {
  const web = await upstream(t, 'web')
  const good = `sites:\n  a.test: { backend: web }\nbackends: { web: { servers: ["http://${web}"] } }\n`
  const cwd = t.testdir({ 'sites.yaml': good, 'p.yaml': 'on_http_request:\n  - actions:\n      - type: denny\n' })
  const { traffic, api } = await started(t, cwd)
  const at = ['--yes', '--api', api]
  t.equal((await sluice(cwd, 'apply', 'sites.yaml', ...at)).code, 0)
  const broken = good.replace(
    'backend: web }',
    'backend: wbe, policy: p.yaml, mutual_tls: {certificate_authorities: [x]} }'
  )
  await writeFile(join(cwd, 'sites.yaml'), `${broken}vaults: { v: { a: { env: NOT_SET }, b: { file: none } } }\n`)
  for (const command of ['plan', 'apply']) {
    const { code, err } = await sluice(cwd, command, 'sites.yaml', ...(command === 'plan' ? at.slice(1) : at))
    t.equal(code, 1)
    t.match(err, 'sites.yaml:2:22: error NAME_UNKNOWN: there is no backend "wbe"')
    t.match(err, 'sites.yaml:4:26: error SECRET_MISSING: the environment variable NOT_SET is not set')
    t.match(err, /sites\.yaml:4:\d+: error FILE_UNREADABLE: the secret in "none" cannot be read: there is no such file/)
    t.match(err, /p\.yaml:3:15: error ACTION_UNKNOWN/)
  }
  t.equal(await get(traffic, 'a.test'), '200 web')
  t.match(await call(api, 'PUT', '/site', { file: 'x', text: 'sites: {}', other: 1 }), {
    status: 400,
    body: { error_code: 'ERR_SLUICE_FIELD_UNKNOWN', details: { field: 'other' } }
  })
  const { body: site } = await call(api, 'GET', '/site')
  const response = await fetch(`${api}/site`, {
    method: 'PUT',
    headers: {
      authorization: `Bearer ${KEY}`,
      'content-type': 'application/json',
      'service-version': '2',
      'if-match': `"${site.revision - 1}"`
    },
    body: JSON.stringify({ file: 'x', text: 'sites: {}' })
  })
  t.equal(response.status, 412)
  const { body: bot } = await call(api, 'POST', '/bot_users', { name: 'ci' })
  const { body: key } = await call(api, 'POST', '/api_keys', { owner_id: bot.id })
  for (const method of ['GET', 'PUT', 'DELETE']) {
    const sent = method === 'PUT' ? { file: 'x', text: 'sites: {}' } : undefined
    t.match(await call(api, method, '/site', sent, key.token), { status: 403 }, method)
  }
  t.match(await call(api, 'POST', '/edges/https', { hostports: ['b.test:443'] }), { status: 201 })
  await writeFile(join(cwd, 'sites.yaml'), good.replace('a.test', 'b.test'))
  t.match(await sluice(cwd, 'plan', 'sites.yaml', '--api', api), {
    code: 1,
    err: /sites\.yaml:2:3: error ALREADY_EXISTS: site b\.test: b\.test:443 is taken by https_edge/
  })
  t.match(await sluice(cwd, 'plan', 'sites.yaml', '--api', 'http://sluice.example.com'), {
    code: 1,
    err: /--insecure-http/
  })
  await rm(join(cwd, 'sites.yaml'))
  t.match(await sluice(cwd, 'plan', 'sites.yaml', '--api', api), { code: 1, err: /sites\.yaml: there is no such file/ })
})

t.test('a process that was started with a file is compared with another one and refuses it', async (t) => {
  const web = await upstream(t, 'web')
  const text = `sites:\n  a.test: { backend: web }\nbackends: { web: { servers: ["http://${web}"] } }\n`
  const cwd = t.testdir({
    'sites.yaml': text,
    'more.yaml': text.replace('  a.test', '  b.test: { backend: web }\n  a.test')
  })
  const { traffic, api } = await started(t, cwd, {}, 'sites.yaml')
  t.match(await sluice(cwd, 'plan', 'sites.yaml', '--api', api), { code: 0, out: 'nothing changes' })
  t.match(await sluice(cwd, 'plan', 'more.yaml', '--api', api), { code: 2, out: /\+ site b\.test \(more\.yaml:2\)/ })
  t.match(await sluice(cwd, 'apply', 'more.yaml', '--yes', '--api', api), {
    code: 1,
    err: /SITE_FILE_STARTED.*sites\.yaml/
  })
  t.match(await call(api, 'GET', '/site'), { body: { origin: 'start', file: 'sites.yaml', revision: null } })
  t.equal(await get(traffic, 'a.test'), '200 web')
})

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
    await make('/backends/static', { address: web }),
    await make('/backends/static', { address: other })
  ]
  const both = await make('/backends/weighted', { backends: { [one.id]: 3, [two.id]: 1 }, description: 'Both of them' })
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
  const kept = await make('/edges/https', { hostports: ['kept.test:443'], on_http: 'refuse' })
  await make(`/edges/https/${kept.id}/routes`, { match: '/', backend: { backend_id: one.id } })

  const bare = await sluice(cwd, 'adopt', 'bare', '--api', api)
  t.match(bare, { code: 0, out: /provide: bare\/tls\/shop\.test\.key/ }, bare.err)
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
      for (const one of [answer, `admin ${denied}`]) seen.set(one, (seen.get(one) ?? 0) + 1)
    }
  })
  const applied = await sluice(cwd, 'apply', ...adopting, '--yes')
  t.equal(applied.code, 0, applied.err)
  const before = [...seen.values()].reduce((a, b) => a + b, 0)
  while ([...seen.values()].reduce((a, b) => a + b, 0) < before + 40) await get(traffic, 'www.shop.test')
  ended = true
  await Promise.all(load)
  t.same(new Set(seen.keys()), new Set(['200 web', '200 other', 'admin 403']), 'no request was dropped or let through')
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

t.test('every process of a store serves the applied file, and events tell of it', async (t) => {
  const server = await startPostgres(t)
  const store = await server.database()
  const [web, received] = [await upstream(t, 'web'), new Map<string, unknown>()]
  const listener = createServer((sent, response) => {
    let text = ''
    sent.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    sent.on('end', () => {
      const event = JSON.parse(text) as { event_type: string; object: unknown }
      received.set(event.event_type, event.object)
      response.end()
    })
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>((resolve) => listener.close(() => resolve())))
  const cwd = t.testdir({
    'sites.yaml':
      `sites:\n  a.test: { policy: p.yaml, backend: web }\nbackends: { web: { servers: ["http://${web}"] } }\n` +
      'vaults: { keys: { one: { env: ONE } } }\n',
    'p.yaml': DENY_ADMIN,
    'other.yaml': 'sites: {}\n'
  })
  const env = { ONE: 'a secret of the environment', SLUICE_STORE: store }
  const a = await started(t, cwd, env)
  const b = await started(t, cwd, { ...env, ONE: 'another one' })
  const url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`
  const { body: destination } = await call(a.api, 'POST', '/event_destinations', {
    target: { webhook: { url } }
  })
  const sources = ['created', 'updated', 'deleted'].map((change) => ({ type: `site_file_${change}.v0` }))
  const made = await call(a.api, 'POST', '/event_subscriptions', { sources, destination_ids: [destination.id] })
  t.equal(made.status, 201, JSON.stringify([destination, made.body]))

  t.equal((await sluice(cwd, 'apply', 'sites.yaml', '--yes', '--api', a.api)).code, 0)
  await until(async () => (await get(b.traffic, 'a.test')) === '200 web')
  t.equal(await get(b.traffic, 'a.test', '/admin'), '403')
  t.match(await sluice(cwd, 'plan', 'sites.yaml', '--api', b.api), { code: 0, out: 'nothing changes' })
  t.match(await call(b.api, 'POST', '/edges/https', { hostports: ['a.test:443'] }), { status: 409 })
  await until(async () => received.has('site_file_created.v0'))
  t.match(received.get('site_file_created.v0'), { file: 'sites.yaml', origin: 'apply' })

  await stopped(a.process)
  const without = new SluiceProcess(t, ['start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--data', 'data'], {
    cwd,
    env: { SLUICE_API_KEY: KEY, SLUICE_STORE: store }
  })
  const ended = await without.ended()
  t.match(ended, { code: 1, err: /sites\.yaml:4:\d+: error SECRET_MISSING: the environment variable ONE is not set/ })
  const fixed = await started(t, cwd, { SLUICE_STORE: store }, 'other.yaml')
  t.equal(await get(fixed.traffic, 'a.test'), '404', 'what a start names takes the place of the applied file')
  t.match(await call(fixed.api, 'POST', '/edges/https', { hostports: ['a.test:443'] }), { status: 409 })
  t.equal((await call(fixed.api, 'DELETE', '/site')).status, 204)
  await until(async () => (await get(b.traffic, 'a.test')) === '404')
})
