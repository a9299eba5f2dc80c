import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { call, get, sluice, started, upstream } from './site-kit.js'

t.test('an applied site file is undone without a guard, and its difference is that of the plan', async (t) => {
  const web = await upstream(t, 'web')
  const text = (paths: readonly string[]) =>
    `sites:\n  a.test: { routes: { ${paths.map((path) => `${path}: web`).join(', ')} } }\n` +
    `backends:\n  web: { servers: ["http://${web}"] }\nvaults: { keys: { one: { env: ONE } } }\n`
  const cwd = t.testdir({ 'sites.yaml': text(['/']) })
  const { traffic, api } = await started(t, cwd, { ONE: 'a secret of the environment' })
  const at = ['--api', api]
  const apply = async (file: string) => {
    await writeFile(join(cwd, 'sites.yaml'), file)
    t.equal((await sluice(cwd, 'apply', 'sites.yaml', '--yes', ...at)).code, 0)
    return String((await call(api, 'GET', '/site')).body.revision)
  }
  const first = await apply(text(['/']))
  t.match(await sluice(cwd, 'diff', first, ...at), {
    code: 0,
    out: /\+ site_file .*\n(.*\n)* {4}site a\.test: "sites\.yaml:2"/
  })

  await writeFile(join(cwd, 'sites.yaml'), text(['/only/']).replace('a.test', 'b.test'))
  const plan = await sluice(cwd, 'plan', 'sites.yaml', ...at)
  t.match(plan.out, /\+ site b\.test \(sites\.yaml:2\)\n(.*\n)*- site a\.test\n/)
  const second = await apply(text(['/only/']).replace('a.test', 'b.test'))
  const shown = await sluice(cwd, 'diff', second, ...at)
  t.match(shown.out, / {4}site b\.test: not set → "sites\.yaml:2"/)
  t.match(shown.out, / {4}site a\.test: "sites\.yaml:2" → not set/)
  t.equal(await get(traffic, 'a.test'), '404')
  t.match(await sluice(cwd, 'revert', second, ...at), { code: 0, out: /reverted by revision \d+/ })
  t.equal(await get(traffic, 'a.test'), '200 web')
  t.equal(await get(traffic, 'b.test', '/only/'), '404')

  const third = await apply(text(['/', '/more/']))
  const both = await sluice(cwd, 'diff', third, ...at)
  const planned = await sluice(cwd, 'plan', 'sites.yaml', ...at)
  t.match(planned, { code: 0, out: 'nothing changes' })
  t.match(both.out, / {4}site a\.test\..*\/more\//, 'what changes in one site stands there')
  t.notMatch(both.out + shown.out, /a secret of/)
  t.match(await sluice(cwd, 'revert', first, ...at), { code: 1, err: /another site file has been applied since/ })
})

t.test('the last ten replaced files are kept', async (t) => {
  const cwd = t.testdir({ 'sites.yaml': '' })
  const { traffic, api } = await started(t, cwd)
  const text = (n: number) =>
    `sites: { "a${n}.test": hello }\nbackends: { hello: { response: { status_code: 200, body: hello } } }\n`
  const revisions: number[] = []
  for (let n = 0; n < 12; n++) {
    const { body, status } = await call(api, 'PUT', '/site', { file: 'sites.yaml', text: text(n), files: [] })
    t.equal(status, 200)
    revisions.push(body.revision)
  }
  for (const revision of revisions.slice(2).reverse()) {
    t.equal((await call(api, 'POST', `/revisions/${revision}/revert`)).status, 200, `${revision}`)
    if (revision !== revisions[11]) break
    t.equal(await get(traffic, 'a10.test'), '200 hello')
  }
  t.match(await call(api, 'POST', `/revisions/${revisions[0]}/revert`), {
    status: 409,
    body: { error_code: 'ERR_SLUICE_REVERT_IMPOSSIBLE', msg: /only the last 10 replaced files/ }
  })
})
