import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { runCommand } from '../../cli/command.js'
import { freePort, get, sluice, started, upstream } from '../site-file/site-kit.js'

t.test('sluice status lists sites, the worst first; its exit code is for scripts', async (t) => {
  const folder = t.testdir({})
  const there = await upstream(t, 'here')
  await writeFile(
    join(folder, 'sites.yaml'),
    `sites:\n  a.test: { routes: { /: http://${there} } }\n  b.test: { routes: { /: http://127.0.0.1:1 } }\n`
  )
  const { api, traffic } = await started(t, folder, { SLUICE_STATUS_PAGE: 'on' }, 'sites.yaml')
  const run = (...more: string[]) => sluice(folder, 'status', ...more)
  for (let i = 0; i < 5; i++) t.equal(await get(traffic, 'b.test'), '502')
  t.match(await run('--api', api), {
    code: 1,
    out: /^down {5}b\.test\nup {7}a\.test\n1 of 2 sites are up at 20\S+Z\n?$/
  })
  const json = JSON.parse((await run('--api', api, '--json')).out)
  t.match(json, {
    status: 'degraded',
    sites: [
      { name: 'a.test', status: 'up' },
      { name: 'b.test', status: 'down' }
    ]
  })
  t.match(await run('--api', 'x'), { code: 2, err: /no http\(s\) URL/ })
  t.match(await run('--ready', '--api', 'x'), { code: 2, err: /no http\(s\) URL/ })
  t.match(await run('--ready', '--api', api), { code: 0, out: /^ready/ })
  const listening = { SLUICE_API_LISTEN: `0.0.0.0:${new URL(api).port}` }
  t.match(await runCommand(t, ['status', '--ready'], { cwd: folder, env: listening }), { code: 0, out: /^ready/ })
  const nowhere = { SLUICE_API_LISTEN: `127.0.0.1:${await freePort()}` }
  t.match(await runCommand(t, ['status', '--ready'], { cwd: folder, env: nowhere }), { code: 1, err: /./ })
})

t.test('a process without the page is named as such', async (t) => {
  const folder = t.testdir({})
  const { api } = await started(t, folder, {})
  t.match(await sluice(folder, 'status', '--api', api), { code: 1, err: /the status page is off: start Sluice with/ })
})
