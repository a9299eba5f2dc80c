import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { until } from '../helpers/until.js'
import { startCuttingProxy } from '../store/cutting-proxy.js'
import { folder } from '../store/opened.js'
import { startPostgres, through } from '../store/postgres-server.js'
import { CopyStand, crashed } from './copy-stand.js'

t.test('PostgreSQL during a start', async (t) => {
  const server = await startPostgres(t)

  t.test('a store that goes away between its first write and the load is lived through', async (t) => {
    const { proxy, cwd, env, route } = await crashed(t, server)
    const [lost, load] = ['the store went away while its records were read; trying again', 'https_edge']
    proxy.cutAt = load
    const copying = CopyStand.launch(t, cwd, env)
    t.match(await copying.logged(lost), { store: /^postgres:/, reason: /PostgreSQL|postgres:/, again_in: '1s' })
    const stand = await CopyStand.listening(copying)
    t.equal(await stand.serves(), 'first', 'the copy serves')
    t.equal(await stand.health(), 'degraded')
    proxy.cutAt = undefined
    proxy.mend()
    await until(async () => (await stand.health()) === 'ok')
    t.equal((await stand.change(route, 'second')).status, 200)
    t.equal(await stand.stop(), 0)

    proxy.cutAt = load
    const waiting = CopyStand.launch(t, cwd, env, ['--no-cache'])
    await waiting.logged(lost)
    await waiting.logged('the store is out of reach and there is no copy')
    proxy.cutAt = undefined
    proxy.mend()
    const other = await CopyStand.listening(waiting)
    t.equal(await other.serves(), 'second', 'without a copy it waits')
    t.equal(await other.stop(), 0)
  })

  t.test('a first start without a sealing key waits for a store that may have secrets', async (t) => {
    const proxy = await startCuttingProxy(t, server.port)
    const env = { SLUICE_STORE: through(await server.database(), proxy.port) }
    const made = await CopyStand.start(t, await folder(t), env)
    const { json: vault } = await made.ask('/vaults', 'POST', { name: 'main' })
    const secret = { name: 'one', value: 'hidden', vault_id: vault.id }
    t.equal((await made.ask('/vault_secrets', 'POST', secret)).status, 201)
    t.equal(await made.stop(), 0)
    const waits = 'whether the store has secrets of a sealing key is not known; trying again'
    const empty = await folder(t)
    const key = join(empty, 'data', 'seal.key')
    proxy.cut()
    const waiting = CopyStand.launch(t, empty, env)
    const line = { store: /^postgres:/, reason: /cannot reach/, again_in: '1s' }
    t.match(await waiting.logged(waits), line)
    t.match(await waiting.logged(waits, 2), { ...line, again_in: '2s' })
    t.notOk(existsSync(key), 'no key is made that could be a second one')
    proxy.mend()
    const { code, err } = await waiting.ended()
    t.equal(code, 1)
    t.match(err, /the store has secrets that the sealing key .* has sealed/)
    t.notOk(existsSync(key))

    const fresh = await server.database()
    proxy.cut()
    const first = CopyStand.launch(t, await folder(t), { SLUICE_STORE: through(fresh, proxy.port) })
    await first.logged(waits)
    proxy.mend()
    const stand = await CopyStand.listening(first)
    t.equal((await stand.ask('/edges/https', 'POST', {})).status, 201, 'a store without secrets gets a new key')
    t.equal(await stand.stop(), 0)

    proxy.cut()
    const ending = CopyStand.launch(t, await folder(t), env)
    await ending.logged(waits)
    ending.child.kill('SIGTERM')
    t.match(await ending.ended(), { code: 0, out: /stopped before it was ready/ })
  })
})
