import t from 'tap'
import { parseSealKey, Sealer } from '../../../src/lib/seal.js'
import { LISTEN, started } from '../../cli/keyed-process.js'
import { startPostgres } from '../../store/postgres-server.js'
import { freshKey, sluice, withStore } from './transfer-stand.js'

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
  t.match(rotated, { code: 0, out: /1 value encrypted again/ }, rotated.err)
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
