import { copyFileSync, existsSync, mkdirSync, readFileSync, rmdirSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { until } from '../helpers/until.js'
import { folder } from '../store/opened.js'
import { CopyStand, copied } from './copy-stand.js'
import { SluiceProcess } from './process.js'

t.test('events wait for the store, and agents do not', async (t) => {
  const cwd = await folder(t)
  const [data, file] = [join(cwd, 'data'), join(cwd, 'data', 'sluice.db')]
  const events = join(data, 'events', 'a.log')
  const first = await CopyStand.start(t, cwd, {})
  const { json: destination } = await first.ask('/event_destinations', 'POST', { target: { file: { path: events } } })
  const subscription = { sources: [{ type: 'vault_created.v0' }], destination_ids: [destination.id] }
  t.equal((await first.ask('/event_subscriptions', 'POST', subscription)).status, 201)
  const { json: credential } = await first.ask('/credentials', 'POST', {})
  await copied(data, 'sluice.db', await first.revision())
  t.equal(await first.stop(), 0)
  const away = join(cwd, 'away.db')
  copyFileSync(file, away)
  unlinkSync(file)
  mkdirSync(file)
  const stand = await CopyStand.start(t, cwd, { SLUICE_AGENTS: '127.0.0.1:0' })
  const { host, port, ca } = (await stand.process.logged('agents may connect')) as Record<string, string>
  const words = ['agent', '--server', `${host}:${port}`, '--ca', ca ?? '', '--server-name', 'localhost']
  const target = ['--http', 'app.test', '--forward', '127.0.0.1:1']
  const agent = new SluiceProcess(t as never, [...words, ...target], { cwd, env: { SLUICE_TOKEN: credential.token } })
  await agent.told('tunnel: http://app.test')
  t.match((await stand.ask('/tunnels')).json.tunnels, [{ proto: 'http' }])
  t.match((await stand.ask(`/event_destinations/${destination.id}`)).json, { id: destination.id })
  rmdirSync(file)
  copyFileSync(away, file)
  await stand.process.logged('the store answers again')
  t.equal((await stand.ask('/vaults', 'POST', { name: 'v' })).status, 201)
  await until(() => existsSync(events) && readFileSync(events, 'utf8').includes('vault_created.v0'))
  t.equal((await stand.ask('/tunnels')).json.tunnels.length, 1, 'the agent has stayed')
  t.equal(await stand.stop(), 0)
})
