import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { openKeys } from '../../src/control/operator-keys.js'
import { systemClock } from '../../src/lib/clock.js'
import { newSealKey, parseSealKey, Sealer } from '../../src/lib/seal.js'
import { SluiceProcess } from './process.js'
import { sluice } from './transfer-stand.js'

const DATA = ['--data', 'data']

t.test('keys are made, listed without the keys, and revoked, while a process runs', async (t) => {
  const cwd = t.testdir()
  const running = new SluiceProcess(t, ['start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', ...DATA], { cwd })
  const { api } = (await running.logged('listening')) as { api: string }
  const shown = (await running.told('API key')).split(' ').at(-1) ?? ''
  const status = async (key: string) =>
    (await fetch(`${api}/vaults`, { headers: { authorization: `Bearer ${key}`, 'service-version': '2' } })).status

  const unused = await sluice(t, cwd, ['api-key', 'list', ...DATA])
  t.match(unused, { code: 0, out: /^ak_\S+ {2}\S+Z {2}- {2}\(not used yet: each start shows it\)$/ })
  t.equal(await status(shown), 200)
  const made = await sluice(t, cwd, ['api-key', 'create', '--name', 'ci', ...DATA])
  const key = made.out.trim()
  t.equal(await status(key), 200, 'it counts at once')

  const listed = await sluice(t, cwd, ['api-key', 'list', '--json', ...DATA])
  const [first, second] = listed.out.split('\n').map((line) => JSON.parse(line))
  t.match(
    [first, second],
    [
      { name: null, used: true },
      { name: 'ci', used: true }
    ]
  )
  t.same(Object.keys(second).sort(), ['created_at', 'id', 'name', 'used'])
  for (const secret of [shown, key]) t.notOk(listed.out.includes(secret))

  t.match(await sluice(t, cwd, ['api-key', 'revoke', second.id, ...DATA]), { code: 0, out: `${second.id} is revoked` })
  t.equal(await status(key), 401, 'it opens nothing any more')
  t.equal(await status(shown), 200)
  const last = await sluice(t, cwd, ['api-key', 'revoke', first.id, ...DATA])
  t.match(last, { code: 0, err: /data has no key any more: the next start makes one and shows it$/ })
  t.equal(await status(shown), 401, 'the key of the first start too')
  t.equal((await stat(join(cwd, 'data', 'api-keys.json'))).mode & 0o777, 0o600)
})

t.test('a name is visible characters, and what is no file of keys is told', async (t) => {
  const cwd = t.testdir()
  for (const name of ['', '\u001b[31m', 'x'.repeat(101)]) {
    const told = await sluice(t, cwd, ['api-key', 'create', '--name', name, ...DATA])
    t.match(told, { code: 1, err: /a name has 1 to 100 visible characters; give at most/ })
  }
  t.match(await sluice(t, cwd, ['api-key', 'list', ...DATA]), { code: 0, out: '', err: /the next start makes one/ })
  t.equal((await sluice(t, cwd, ['api-key', 'create', ...DATA])).code, 0)
  await writeFile(join(cwd, 'data', 'api-keys.json'), 'text')
  const told = await sluice(t, cwd, ['api-key', 'list', ...DATA])
  t.match(told, { code: 1, err: /is not a file of API keys; move it away to start with a new key$/ })
})

t.test('a key that was shown and revoked before its first use does not come back', async (t) => {
  const folder = t.testdir()
  const seal = new Sealer(parseSealKey(newSealKey()))
  const { keys, unused = '' } = await openKeys(folder, undefined, { clock: systemClock, seal: async () => seal })
  t.equal(await keys.accepts('x'.repeat(20)), false)
  await keys.keepShown()
  const path = join(folder, 'api-keys.json')
  await writeFile(path, '{"keys": []}')
  t.equal(await keys.accepts(unused), false)
  t.same(JSON.parse(await readFile(path, 'utf8')), { keys: [] })
})
