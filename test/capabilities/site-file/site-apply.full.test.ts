import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { bundle, call, DENY_ADMIN, get, KEY, sluice, started, stopped, upstream } from './site-kit.js'

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

t.test('what a file imports travels with it, and each thing has the place where it stands', async (t) => {
  const web = await upstream(t, 'web')
  const cwd = t.testdir({
    'sites.yaml': `import: more/*.yaml\nbackends:\n  web: { servers: ["http://${web}"] }\n`,
    more: { 'a.yaml': 'sites:\n  a.test: { backend: web, policy: p/a.yaml }\n', p: { 'a.yaml': DENY_ADMIN } }
  })
  const { traffic, api } = await started(t, cwd, {})
  const at = ['--api', api]
  const plan = await sluice(cwd, 'plan', 'sites.yaml', ...at)
  t.match(plan.out, /\+ backend web \(sites\.yaml:3\)\n\+ site a\.test \(more\/a\.yaml:2\)\n\+ policy more\/p\/a\.yaml/)
  t.match(await sluice(cwd, 'apply', 'sites.yaml', '--yes', ...at), { code: 0, out: /applied$/ })
  t.equal(await get(traffic, 'a.test'), '200 web')
  t.equal(await get(traffic, 'a.test', '/admin'), '403')
  const { body } = await call(api, 'GET', '/edges/https')
  t.match(body.https_edges, [{ declared: { file: 'more/a.yaml', line: 2 } }])
  await writeFile(join(cwd, 'more', 'a.yaml'), 'sites:\n  a.test: wbe\n')
  t.match(await sluice(cwd, 'apply', 'sites.yaml', '--yes', ...at), {
    code: 1,
    err: /more\/a\.yaml:2:11: error NAME_UNKNOWN/
  })
  t.equal(await get(traffic, 'a.test'), '200 web')
})

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
  const { process, traffic, api } = await started(t, cwd, {}, 'sites.yaml')
  t.match(await sluice(cwd, 'plan', 'sites.yaml', '--api', api), { code: 0, out: 'nothing changes' })
  t.match(await sluice(cwd, 'plan', 'more.yaml', '--api', api), { code: 2, out: /\+ site b\.test \(more\.yaml:2\)/ })
  t.match(await sluice(cwd, 'apply', 'more.yaml', '--yes', '--api', api), {
    code: 1,
    err: /SITE_FILE_STARTED.*sites\.yaml/
  })
  const written = (path: string) =>
    `sites:\n  a.test:\n    backend: http://${web}\n    policy:\n      on_http_request:\n` +
    `        - expressions: ["req.url.path == '${path}'"]\n          actions: [{ type: deny }]\n`
  await writeFile(join(cwd, 'more.yaml'), written('/a'))
  t.match(await sluice(cwd, 'plan', 'more.yaml', '--api', api), {
    code: 2,
    out: /~ site a\.test \(more\.yaml:2\)\n(.*\n)* {4}policy: null -> "sites\["a\.test"\]\.policy"|\+ policy sites/
  })
  await writeFile(join(cwd, 'sites.yaml'), written('/a'))
  await process.logged('reloaded"')
  t.match(await sluice(cwd, 'plan', 'more.yaml', '--api', api), { code: 0, out: 'nothing changes' })
  await writeFile(join(cwd, 'more.yaml'), written('/b'))
  t.match(await sluice(cwd, 'plan', 'more.yaml', '--api', api), {
    code: 2,
    out: /~ policy sites\["a\.test"\]\.policy \(more\.yaml:5\)/
  })
  t.match(await call(api, 'GET', '/site'), { body: { origin: 'start', file: 'sites.yaml', revision: null } })
  t.equal(await get(traffic, 'a.test'), '200 web')
})
