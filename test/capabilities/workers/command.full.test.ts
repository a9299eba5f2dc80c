import { tmpdir } from 'node:os'
import t from 'tap'
import { asker } from '../../api/asking.js'
import { SHARES_LISTENERS, SluiceProcess } from '../../cli/process.js'

const KEY = 'a-key-of-the-administrator'
/** Agents on a listener of traffic, which threads cannot serve. */
const SHARED = { SLUICE_AGENTS: '127.0.0.1:8445', SLUICE_LISTENERS: 'https://127.0.0.1:8445' }
const FIXED = {
  SLUICE_DATA: ':memory:',
  SLUICE_API_KEY: KEY,
  SLUICE_API_LISTEN: '127.0.0.1:0',
  SLUICE_LISTEN: '127.0.0.1:0',
  SLUICE_LIMITER_BUDGET: '64MiB'
}

t.test('workers: 2 serves with two threads, or says which Node it needs', async (t) => {
  const sluice = new SluiceProcess(t, ['start'], { cwd: tmpdir(), env: { ...FIXED, SLUICE_WORKERS: '2' } })
  const { traffic, api } = (await sluice.logged('listening')) as { traffic: string; api: string }
  t.equal((await fetch(traffic)).status, 404)
  const { hostname, port } = new URL(api)
  const ask = asker(hostname, Number(port))
  const { workers } = (await ask('/processes', { key: KEY })).json.processes[0]
  if (SHARES_LISTENERS) {
    t.match(workers, [
      { worker: 1, state: 'serving' },
      { worker: 2, state: 'serving' }
    ])
    const policies = [{ route: 'default', text: 'on_http_request: []' }]
    const { json } = await ask('/shadows', { key: KEY, method: 'POST', body: { policies } })
    t.match(json, { error_code: 'ERR_SLUICE_EXCHANGES_ELSEWHERE', status_code: 409 })
    t.match((await ask('/explain/keys', { key: KEY, method: 'POST', body: {} })).json, { header: 'sluice-explain' })
  } else {
    t.same(workers, [])
    t.match(await sluice.logged(`Node ${process.versions.node} does not support workers`), { level: 40, option: 2 })
  }
  sluice.child.kill('SIGTERM')
  t.equal((await sluice.ended()).code, 0)
})

const AUTO = { skip: SHARES_LISTENERS ? false : 'this Node serves with one thread in any case' }
t.test('workers: auto serves with one thread where an option wants it, and says which', AUTO, async (t) => {
  const env = { ...FIXED, SLUICE_WORKERS: 'auto', ...SHARED }
  const sluice = new SluiceProcess(t, ['start'], { cwd: tmpdir(), env })
  await sluice.logged('listening')
  t.match((await sluice.logged('one thread handles all traffic')).reasons, [/^agents: /])
})

t.test('what cannot be is refused before anything starts', async (t) => {
  const agents = { SLUICE_WORKERS: '2', ...SHARED }
  for (const [set, said] of [
    [{ SLUICE_WORKERS: 'many' }, /workers.*auto, or a whole number from 0 to 48/i],
    [{ SLUICE_WORKERS: '49' }, /workers.*auto, or a whole number from 0 to 48/i],
    ...(SHARES_LISTENERS ? ([[agents, /agents: they cannot share a listener/]] as const) : [])
  ] as const) {
    const sluice = new SluiceProcess(t, ['start'], { cwd: tmpdir(), env: { ...FIXED, ...set } })
    const { code, err } = await sluice.ended()
    t.not(code, 0)
    t.match(err, said)
  }
})
