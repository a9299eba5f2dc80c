import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { SluiceProcess } from '../../cli/process.js'
import { bundle, call, get, KEY, sluice, started, stopped, upstream } from '../site-file/site-kit.js'

const answering = (status: number) =>
  `on_http_request:\n  - actions:\n      - type: custom-response\n        config: { status_code: ${status} }\n`
const expecting = (status: number) =>
  `cases:\n  - name: teapots\n    request: { path: / }\n    expect: { status: ${status} }\n`
const SITE = (web: string) => `sites:
  shop.test:
    policy: shop.yaml
    policy_tests: shop.test.yaml
    backend: http://${web}
  inline.test:
    backend: http://${web}
    routes:
      /a/:
        backend: http://${web}
        policy:
          on_http_request:
            - actions: [{ type: deny }]
        policy_tests:
          cases:
            - name: nobody
              request: {}
              expect: { status: 403 }
`

t.test('a site file whose tests fail is not applied, and the case is named with its place', async (t) => {
  const web = await upstream(t, 'web')
  const files = { 'sites.yaml': SITE(web), 'shop.yaml': answering(418), 'shop.test.yaml': expecting(418) }
  const folder = t.testdir(files)
  t.match(await sluice(folder, 'check', 'sites.yaml'), { code: 0 })
  const { process, traffic, api } = await started(t, folder, {}, 'sites.yaml')
  t.match(await get(traffic, 'shop.test'), '418')
  const routes = (await call(api, 'GET', '/edges/https')).body.https_edges.flatMap(
    (edge: { routes: object[] }) => edge.routes
  )
  t.ok(routes.length > 0)
  await writeFile(join(folder, 'shop.yaml'), answering(410))
  await process.told('shop.test.yaml:2:5: error POLICY_TESTS_FAILED: the case "teapots" expected status 418')
  t.match(await sluice(folder, 'check', 'sites.yaml'), {
    code: 1,
    out: /shop\.test\.yaml:2:\d+: error POLICY_TESTS_FAILED: the case "teapots" expected status 418 and found 410/
  })
  t.match(await get(traffic, 'shop.test'), '418', 'what served serves on')
  await writeFile(join(folder, 'shop.test.yaml'), expecting(410))
  await process.logged('reloaded"')
  t.match(await get(traffic, 'shop.test'), '410')
  await writeFile(join(folder, 'sites.yaml'), SITE(web).replace('status: 403', 'status: 404'))
  t.match(await sluice(folder, 'check', 'sites.yaml'), {
    code: 1,
    out: /sites\.yaml:16:15: error POLICY_TESTS_FAILED: the case "nobody"/
  })
  await writeFile(join(folder, 'sites.yaml'), SITE(web).replace('policy: shop.yaml', 'policy: none'))
  t.match(await sluice(folder, 'check', 'sites.yaml'), {
    code: 1,
    out: /sites\.yaml:4:5: error POLICY_MISSING: tests a policy, and there is none/
  })
  await stopped(process)
})

t.test('what the API has goes with its tests into a site file', async (t) => {
  const web = await upstream(t, 'web')
  const folder = t.testdir({})
  const { api } = await started(t, folder)
  const backend = (await call(api, 'POST', '/backends/static', { address: web })).body
  const edge = (await call(api, 'POST', '/edges/https', { hostports: ['shop.test:443'] })).body
  const route = {
    match: '/',
    backend: { backend_id: backend.id },
    traffic_policy: { value: answering(418) },
    policy_tests: expecting(418)
  }
  t.equal((await call(api, 'POST', `/edges/https/${edge.id}/routes`, route)).status, 201)
  t.match(await sluice(folder, 'adopt', 'adopted', '--api', api), { code: 0 })
  const text = await readFile(join(folder, 'adopted', 'sites.yaml'), 'utf8')
  const [, name = ''] = /policy_tests: (\S+)/.exec(text) ?? []
  t.equal(await readFile(join(folder, 'adopted', name), 'utf8'), expecting(418))
  t.match(await sluice(folder, 'check', 'adopted/sites.yaml'), { code: 0 })
  await writeFile(join(folder, 'adopted', name), expecting(410))
  const words = ['adopted/sites.yaml', '--adopt', 'adopted/records.json', '--api', api]
  const refused = await sluice(folder, 'plan', ...words)
  t.equal(refused.code, 1)
  t.match(`${refused.out}${refused.err}`, /POLICY_TESTS_FAILED: the case "teapots"/)
  await writeFile(join(folder, 'adopted', name), expecting(418))
  t.match(await sluice(folder, 'apply', ...words, '--yes'), { code: 0 })
})

t.test('a site file that the API applies has its tests run, and its records show them', async (t) => {
  const web = await upstream(t, 'web')
  const folder = t.testdir({ 'sites.yaml': SITE(web), 'shop.yaml': answering(418), 'shop.test.yaml': expecting(200) })
  const { api } = await started(t, folder)
  const apply = () => call(api, 'PUT', '/site', bundle(folder, ['shop.yaml', 'shop.test.yaml']))
  t.match(await apply(), {
    status: 400,
    body: {
      error_code: 'ERR_SLUICE_SITE_FILE_REFUSED',
      msg: /^shop\.test\.yaml:2:\d+: the case "teapots"/,
      details: { code: 'POLICY_TESTS_FAILED', file: 'shop.test.yaml' }
    }
  })
  t.same((await call(api, 'GET', '/edges/https')).body.https_edges, [])
  await writeFile(join(folder, 'shop.test.yaml'), expecting(418))
  t.equal((await apply()).status, 200)
  const { https_edges } = (await call(api, 'GET', '/edges/https')).body
  const shown = https_edges.flatMap(({ routes }: { routes: { policy_tests: string }[] }) => routes)
  t.match(shown.map(({ policy_tests }: { policy_tests: string }) => policy_tests).join(''), 'name: nobody')
})

t.test('the policy of the options has tests too', async (t) => {
  const web = await upstream(t, 'web')
  const folder = t.testdir({ 'p.yaml': answering(418), 'p.test.yaml': expecting(418) })
  const env = { SLUICE_POLICY: 'p.yaml', SLUICE_POLICY_TESTS: 'p.test.yaml', SLUICE_UPSTREAM: `http://${web}` }
  const { process, traffic } = await started(t, folder, env)
  t.match(await get(traffic, 'a.test'), '418')
  await writeFile(join(folder, 'p.yaml'), answering(410))
  await process.told('p.test.yaml:2:5: error POLICY_TESTS_FAILED')
  t.match(await get(traffic, 'a.test'), '418')
  await writeFile(join(folder, 'p.test.yaml'), expecting(410))
  await process.logged('reloaded"')
  t.match(await get(traffic, 'a.test'), '410')
  await stopped(process)
  await writeFile(join(folder, 'p.test.yaml'), expecting(418))
  const words = ['start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--data', 'data']
  const again = await new SluiceProcess(t, words, { cwd: folder, env: { SLUICE_API_KEY: KEY, ...env } }).ended()
  t.equal(again.code, 1, 'a start is refused as well')
  t.match(`${again.out}${again.err}`, /p\.test\.yaml:2:\d+.*POLICY_TESTS_FAILED/)
  const alone = { SLUICE_API_KEY: KEY, SLUICE_POLICY_TESTS: 'p.test.yaml' }
  const lonely = await new SluiceProcess(t, words, { cwd: folder, env: alone }).ended()
  t.match(`${lonely.out}${lonely.err}`, /policy_tests.*needs a policy/)
})
