import t from 'tap'
import { startPostgres } from '../../store/postgres-server.js'
import { receiver } from './receiver.js'
import { stand } from './stand.js'

const server = await startPostgres(t)

t.test('one process delivers to a destination; another goes on when it stands still', async (t) => {
  const at = await server.database()
  const sink = await receiver(t, (_request, response) => setTimeout(() => response.writeHead(204).end(), 2))
  const one = await stand(t, { at, process: 'one' })
  const two = await stand(t, { at, process: 'two' })
  const id = await one.hook(sink.url, ['vault_created.v0'])
  await Promise.all(
    [one, two].map(async ({ account }, which) => {
      for (let n = 0; n < 30; n++) await account.create('vault', { name: `${which}-${n}` })
    })
  )
  await sink.until(() => sink.taken.length >= 60)
  t.equal(new Set(sink.taken.map(({ event_id }) => event_id)).size, 60)
  t.equal(sink.taken.length, 60, 'each once while both live')
  const history = await one.account.store.history({ limit: 100 })
  const order = new Map(history.map(({ revision, operationId }) => [operationId, revision]))
  t.ok(order.size > 60)
  const stamps = sink.taken.map(({ object }) => String(object.name))
  for (const which of ['0', '1']) {
    const own = stamps.filter((name) => name.startsWith(`${which}-`))
    t.same(
      own,
      [...own].sort((a, b) => Number(a.slice(2)) - Number(b.slice(2))),
      'in the order of the writes'
    )
  }
  const [lease] = await one.account.store.outbox.leases()
  const [holder, other] = lease?.holder === 'one' ? [one, two] : [two, one]
  // It gives back nothing: as if it had died. What is written from then on waits until its lease is seen to stand still.
  holder.account.store.outbox.release = async () => undefined
  await holder.stop()
  await other.account.create('vault', { name: 'last' })
  await sink.until(() => sink.taken.some(({ object }) => object.name === 'last'))
  t.match(await other.account.store.outbox.leases(), [
    { destination: id, holder: lease?.holder === 'one' ? 'two' : 'one' }
  ])
  t.match(await other.account.get('event_destination', { id }), { delivery: { state: 'ok', delivered: 61 } })
})
