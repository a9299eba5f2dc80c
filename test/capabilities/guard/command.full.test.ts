import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { until } from '../../helpers/until.js'
import { call, get, sluice, started, upstream } from '../site-file/site-kit.js'

const GUARD = 'bake=20s, error-rate=+5%, refusal-rate=+5%'

t.test('a file that refuses clients is taken back while apply waits', async (t) => {
  const server = await upstream(t, 'web')
  const text = (more: string) =>
    `sites:\n  a.test: { ${more}routes: { /: web } }\nbackends:\n  web: { servers: ["http://${server}"] }\n`
  const cwd = t.testdir({ 'sites.yaml': text(''), 'deny.yaml': 'on_http_request: [{ actions: [{ type: deny }] }]' })
  const { traffic, api } = await started(t, cwd)
  const at = ['--api', api]
  t.match(await sluice(cwd, 'apply', 'sites.yaml', '--yes', ...at), { code: 0 })
  let over = false
  let seen = 0
  const clients = (async () => {
    for (; !over; seen++) await get(traffic, 'a.test')
  })()
  await writeFile(join(cwd, 'sites.yaml'), text('policy: deny.yaml, '))
  t.match(await sluice(cwd, 'apply', 'sites.yaml', '--yes', '--wait', ...at), {
    code: 2,
    err: /--wait needs --guard/
  })
  t.match(await sluice(cwd, 'apply', 'sites.yaml', '--yes', '--guard', 'error-rate=2', ...at), {
    code: 2,
    err: /--guard: error-rate of the guard must be a share/
  })
  // The rates of before are those that a guard compares with.
  await until(() => seen >= 200)
  const before = performance.now()
  const applied = await sluice(cwd, 'apply', 'sites.yaml', '--yes', '--guard', GUARD, '--wait', ...at)
  t.match(applied, {
    code: 1,
    out: /applied/,
    err: /its guard is broken: refusal-rate: .*\(reverted by revision \d+\)/
  })
  t.ok(performance.now() - before < 15_000, 'the revert came soon')
  t.equal(await get(traffic, 'a.test'), '200 web')
  const { revisions } = (await call(api, 'GET', '/revisions?limit=1')).body
  t.match(revisions, [{ principal: { id: 'guard' }, reason: /refusal-rate/ }])
  // To revert the revert would deny all again, which its own guard sees.
  const [{ id }] = revisions
  const again = await sluice(cwd, 'revert', String(id), '--guard', 'error-rate=101%', ...at)
  t.match(again, { code: 2, err: /--guard: error-rate/ })
  over = true
  await clients
})
