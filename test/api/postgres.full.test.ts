import t from 'tap'
import { until } from '../helpers/until.js'
import { startPostgres } from '../store/postgres-server.js'
import { make, openAccount } from './account.js'
import { conformance } from './conformance.js'

const server = await startPostgres(t)

t.test('over PostgreSQL', async (t) => conformance(t, await server.database()))

t.test('what one process answers, the others serve within a second', async (t) => {
  const address = await server.database()
  const one = await openAccount(t, { address, reportEvery: 200 })
  const two = await openAccount(t, { address, reportEvery: 200 })
  const bot = await make(one.ask, '/bot_users', { name: 'b' })
  const { token, id } = await make(one.ask, '/api_keys', { owner_id: bot.id })
  const deadline = Date.now() + 1000
  const within = async (holds: () => Promise<boolean>) => {
    let held = false
    await until(async () => {
      held = await holds()
      return held || Date.now() > deadline
    })
    return held
  }
  t.ok(await within(async () => two.control.configuration.revision === one.control.configuration.revision))
  t.equal((await two.ask('/vaults', { key: token })).status, 200)
  t.same((await two.ask(`/bot_users/${bot.id}`)).json, bot)
  const { headers } = await one.ask(`/api_keys/${id}`, { method: 'DELETE' })
  const revision = Number(headers['service-revision'])
  t.ok(await within(async () => (await two.ask('/vaults', { key: token })).status === 401), 'a key ends everywhere')
  t.ok(
    await within(async () => {
      const { processes } = (await one.ask('/processes')).json
      return (
        processes.length === 2 &&
        processes.every((shown: { applied_revision: number }) => shown.applied_revision >= revision)
      )
    }),
    'and each process says what it serves'
  )
  const names = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      (index % 2 === 0 ? one : two).ask('/vaults', { method: 'POST', body: { name: `v${index % 5}` } })
    )
  )
  t.same(
    names.map(({ status }) => status).sort(),
    [...Array(5).fill(201), ...Array(15).fill(409)],
    'names are taken once'
  )
})
