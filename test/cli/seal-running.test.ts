import t, { type Test } from 'tap'
import { parseSealKey, Sealer } from '../../src/lib/seal.js'
import { ManualClock } from '../helpers/clock.js'
import { opened } from '../store/opened.js'
import { startPostgres } from '../store/postgres-server.js'
import { LISTEN, started } from './keyed-process.js'
import { freshKey, manySecrets, sluice, withStore } from './transfer-stand.js'

t.test('a process with an old key writes nothing', async (t) => {
  const server = await startPostgres(t)
  const url = await server.database()
  const cwd = t.testdir()
  const [old, next] = [freshKey(), freshKey()]
  const env = { SLUICE_STORE: url, SLUICE_SEAL_KEY: old }
  const { ask, running } = await started(t, cwd, [], env)
  const vault = (await ask('/vaults', { method: 'POST', body: { name: 'v' } })).json.id
  const body = { vault_id: vault, name: 'first', value: 'one' }
  t.equal((await ask('/vault_secrets', { method: 'POST', body })).status, 201)
  const words = ['seal', 'rotate', '--store', url]
  const rotating = { SLUICE_SEAL_KEY: old, SLUICE_SEAL_KEY_NEW: next }
  const refused = await sluice(t, cwd, words, rotating)
  t.match(refused, { code: 1, err: /proc_\w+.*stop every process/ })
  // Paused it gives no sign of life, and comes back later.
  running.child.kill('SIGSTOP')
  const rotated = await sluice(t, cwd, words, rotating)
  running.child.kill('SIGCONT')
  t.match(rotated, { code: 0, out: /1 value sealed anew/ }, rotated.err)
  const late = await ask('/vault_secrets', { method: 'POST', body: { ...body, name: 'second' } })
  t.match(late, { status: 503, json: { error_code: 'ERR_SLUICE_SEAL_KEY_CHANGED' } })
  t.equal((await ask('/vaults', { method: 'POST', body: { name: 'w' } })).status, 503)
  const wrong = await sluice(t, cwd, ['start', ...LISTEN], env)
  t.match(wrong, { code: 1, err: /sealed by the key/ })
  const fresh = await started(t, cwd, [], { ...env, SLUICE_SEAL_KEY: next })
  t.equal((await fresh.ask('/vault_secrets', { method: 'POST', body: { ...body, name: 'second' } })).status, 201)
  await withStore(t, url, async (store) => {
    t.equal(await store.sealKey(), new Sealer(parseSealKey(next)).keyId)
  })
})

t.test('signs of life count, whatever the clocks of those who give them show', async (t) => {
  const server = await startPostgres(t)
  const url = await server.database()
  const cwd = t.testdir()
  const [old, next] = [freshKey(), freshKey()]
  const rotate = () =>
    sluice(t, cwd, ['seal', 'rotate', '--store', url], { SLUICE_SEAL_KEY: old, SLUICE_SEAL_KEY_NEW: next })
  const seal = new Sealer(parseSealKey(old))
  await withStore(t, url, async (store) => {
    await manySecrets(store, seal, 1)
    await store.writeUnder(seal.keyId, null)
  })
  const late = await living(t, url, 'proc_late', Date.UTC(2000, 0, 1))
  const early = await living(t, url, 'proc_early', Date.UTC(2100, 0, 1))
  t.match(await rotate(), { code: 1, err: /proc_(late|early).*stop every process/ })
  await early.pause()
  t.match(await rotate(), { code: 1, err: /^.*proc_late runs on this store/ }, 'its clock is decades behind')
  await late.pause()
  await early.resume()
  t.match(await rotate(), { code: 1, err: /^.*proc_early runs on this store/ })
  await early.pause()
  t.match(await rotate(), { code: 0, out: /1 value sealed anew/ }, 'a time that is to come is no sign of life')
})

/** A process that tells its store again and again that it lives, at the time of its own clock. */
async function living(t: Test, url: string, id: string, wall: number) {
  const clock = new ManualClock(wall)
  const { store } = await opened(t, url, clock)
  const report = async () => {
    clock.advance(100)
    await store.reportProcess({ id, appliedRevision: 1, lastError: null, divergedAt: null })
  }
  let timer: NodeJS.Timeout | undefined
  let last = Promise.resolve()
  const resume = async () => {
    await report()
    timer = setInterval(() => {
      last = report()
    }, 100)
  }
  const pause = async () => {
    clearInterval(timer)
    await last
  }
  t.teardown(pause)
  await resume()
  return { resume, pause }
}
