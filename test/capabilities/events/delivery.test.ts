import { join } from 'node:path'
import t from 'tap'
import { folder } from '../../store/opened.js'
import { receiver } from './receiver.js'
import { type Stand, stand } from './stand.js'

const TYPE = 'vault_created.v0'

async function vaults({ account }: Stand, from: number, to: number): Promise<void> {
  for (let n = from; n < to; n++) await account.create('vault', { name: `v${n}` })
}

const names = (taken: readonly { readonly object: Record<string, unknown> }[]) => taken.map(({ object }) => object.name)
const numbered = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => `v${from + n}`)

t.test('a receiver that fails now and then gets everything in order', async (t) => {
  const one = await stand(t)
  const sink = await receiver(t, (_request, response, count) => {
    if (count % 5 === 1) response.writeHead(503).end()
    else if (count % 5 === 2) response.socket?.destroy()
    else if (count % 5 === 3) response.socket?.end('garbage\r\n\r\n')
    else response.writeHead(200).end()
  })
  await one.hook(sink.url, [TYPE])
  await vaults(one, 0, 40)
  await sink.until(() => sink.taken.length === 40)
  t.same(names(sink.taken), numbered(0, 40))
  t.equal(new Set(sink.taken.map(({ event_id }) => event_id)).size, 40)
  const ids = sink.all.map(({ headers }) => headers['webhook-id'])
  t.ok(ids.length > 60, 'repetitions have the id of what they repeat')
  t.equal(new Set(ids).size, 40)
})

t.test('a receiver that never answers holds up neither writes nor other destinations', async (t) => {
  const one = await stand(t)
  const stuck = await receiver(t, () => undefined)
  const sink = await receiver(t)
  await one.hook(stuck.url, [TYPE])
  await one.hook(sink.url, [TYPE])
  await vaults(one, 0, 20)
  await sink.until(() => sink.taken.length === 20)
  t.same(names(sink.taken), numbered(0, 20))
  t.equal(stuck.all.length, 1, 'one at a time')
})

t.test('what a stopped process leaves is delivered by the next, in order', async (t) => {
  const at = join(await folder(t), 'sluice.db')
  const down = await receiver(t, (_request, response) => response.writeHead(500).end())
  let destination = ''
  await t.test('one life', async (t) => {
    const one = await stand(t, { at })
    destination = await one.hook(down.url, [TYPE])
    await vaults(one, 0, 3)
    await down.requests(2)
    t.equal(await one.account.store.outbox.count(destination), 3)
  })
  down.answering = (_request, response) => response.writeHead(204).end()
  await t.test('the next', async (t) => {
    const two = await stand(t, { at })
    await vaults(two, 3, 5)
    await down.until(() => down.taken.length === 5)
    t.same(names(down.taken), numbered(0, 5))
    await two.stop()
    t.equal(await two.account.store.outbox.count(destination), 0)
    const [report] = await two.account.store.outbox.reports()
    t.match(report, { destination, delivered: 5, failures: 0, lastError: 'the receiver answered 500' })
  })
})

t.test('another address and another secret count from the change on', async (t) => {
  const one = await stand(t)
  const old = await receiver(t, (_request, response) => response.writeHead(500).end())
  const sink = await receiver(t)
  const id = await one.hook(old.url, [TYPE])
  await vaults(one, 0, 2)
  await old.requests(1)
  await one.account.update('event_destination', { id }, { target: { webhook: { url: sink.url, secret: 'next' } } })
  await sink.until(() => sink.taken.length === 2)
  t.same(names(sink.taken), numbered(0, 2))
  t.match(sink.all[0]?.headers['webhook-signature'], /^v1,/)
})

t.test('a destination that nothing is sent to says so, and nothing is kept for it', async (t) => {
  const one = await stand(t)
  const arn = 'arn:aws:firehose:eu-west-1:123456789012:deliverystream/x'
  const auth = { role: { role_arn: 'arn:aws:iam::123456789012:role/x' } }
  const { id } = await one.account.create('event_destination', {
    target: { firehose: { auth, delivery_stream_arn: arn } }
  })
  await one.account.create('event_subscription', { sources: [{ type: TYPE }], destination_ids: [id] })
  await vaults(one, 0, 3)
  t.equal(await one.account.store.outbox.count(id), 0)
  const { delivery } = await one.account.get('event_destination', { id })
  t.match(delivery, { state: 'unsupported', reason: /assumes no roles.*auth\.creds/ })
  const tested = await one.letters.test(id, one.account.call())
  t.match(tested, { delivered: false, error: String })
})

t.test('a destination at AWS with a key is delivered to, and what does not get there waits', async (t) => {
  const one = await stand(t)
  const secret = 'hidden-key-of-aws'
  const auth = { creds: { aws_access_key_id: 'AKIDEXAMPLE', aws_secret_access_key: secret } }
  const stream_arn = 'arn:aws:kinesis:eu-west-1:123456789012:stream/events'
  const { id, answer } = await one.account.create('event_destination', { target: { kinesis: { auth, stream_arn } } })
  await one.account.create('event_subscription', { sources: [{ type: TYPE }], destination_ids: [id] })
  await vaults(one, 0, 1)
  t.equal(await one.account.store.outbox.count(id), 1)
  const tested = await one.letters.test(id, one.account.call())
  t.match(tested, { delivered: false, error: /^NAME_UNRESOLVED/ })
  t.notMatch(JSON.stringify([answer, await one.account.get('event_destination', { id }), one.log]), secret)
})
