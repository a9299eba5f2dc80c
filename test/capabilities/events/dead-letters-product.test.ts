import t from 'tap'
import { type Asked, asker } from '../../api/asking.js'
import { ManualClock } from '../../helpers/clock.js'
import { type RunningSluice, startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { receiver } from './receiver.js'

const OPTIONS = { OUTBOUND_ALLOW_PRIVATE: 'true' }
const REFUSED = 'vault_updated.v0'

const api = ({ apiPort, apiKey }: RunningSluice) => {
  const ask = asker('127.0.0.1', apiPort)
  return (path: string, asked: Asked = {}) => ask(path, { key: apiKey, ...asked })
}

t.test(
  'a type that the receiver refuses: the others arrive, it waits in the list until the receiver is mended',
  async (t) => {
    const clock = new ManualClock(Date.now())
    const sluice = await startSluice(t, { options: OPTIONS, clock })
    const ask = api(sluice)
    const made = async (path: string, body: object) => {
      const answer = await ask(path, { method: 'POST', body })
      t.equal(answer.status, 201, answer.text)
      return String(answer.json.id)
    }
    let mended = false
    const sink = await receiver(t, (request, response) => {
      const { event_type: type } = JSON.parse(request.body) as { event_type: string }
      response.writeHead(type === REFUSED && !mended ? 422 : 204).end('what the receiver says')
    })
    const secret = 'the-secret-of-the-webhook'
    const id = await made('/event_destinations', { target: { webhook: { url: sink.url, secret } } })
    const sources = ['vault_created.v0', REFUSED].map((type) => ({ type }))
    await made('/event_subscriptions', { sources, destination_ids: [id] })
    const path = `/event_destinations/${id}`
    const audit = () => sink.taken.filter(({ event_type: type }) => type !== 'test.v0')
    const vault = await made('/vaults', { name: 'first' })
    await ask(`/vaults/${vault}`, { method: 'PATCH', body: { description: 'new' } })
    await made('/vaults', { name: 'second' })
    await made('/vaults', { name: 'third' })
    const refused = () => sink.all.filter(({ body }) => body.includes(REFUSED)).length
    // The time counts from the moment at which the process knows of the refusal, which is later than that of the receiver.
    await until(async () => (await ask(path)).json.delivery.failures >= 1)
    t.match((await ask(path)).json.delivery, { dead_letters: 0 })
    clock.advance(120_000)
    // A test that is taken ends the pause, which begins a moment after the receiver has refused.
    await until(async () => {
      if (audit().length === 3) return true
      t.match((await ask(`${path}/test`, { method: 'POST' })).json, { delivered: true })
      return false
    })
    const attempts = refused()
    t.ok(attempts >= 5)
    t.same(
      audit().map(({ object }) => object.name),
      ['first', 'second', 'third']
    )
    const line = await sluice.line(({ msg }) => String(msg).includes('dead letter'))
    t.match(line, { destination: id, reason: 'the receiver answered 422', attempts })
    const { status, json } = await ask(`${path}/dead_letters`)
    t.equal(status, 200)
    t.match(json, { uri: RegExp(`${path}/dead_letters$`), next_page_uri: null })
    const [letter] = json.dead_letters
    t.equal(json.dead_letters.length, 1)
    t.match(letter, { id: 'dl_1', event_id: line.event, event_type: REFUSED, attempts, reason: /422/ })
    t.same((await ask(`${path}/dead_letters?before_id=dl_1`)).json.dead_letters, [])
    t.equal((await ask(`${path}/dead_letters?before_id=${vault}`)).json.error_code, 'ERR_SLUICE_QUERY_INVALID')
    const whole = await ask(`${path}/dead_letters/dl_1`)
    t.match(whole.json, { ...letter, event: { event_id: line.event, object: { id: vault, description: 'new' } } })
    t.equal(Buffer.byteLength(JSON.stringify(whole.json.event)), letter.size)
    t.notMatch(whole.text, secret)
    t.notMatch(whole.text, 'what the receiver says')
    const text = (await ask('/metrics')).text
    t.match(text, `sluice_events_dead_letters{destination="${id}"} 1`)
    t.match(text, `sluice_events_dead_letters_dropped_total{destination="${id}"} 0`)
    const member = await made('/bot_users', { name: 'bot' })
    const { token } = (await ask('/api_keys', { method: 'POST', body: { owner_id: member } })).json
    for (const [method, where] of [
      ['GET', `${path}/dead_letters`],
      ['GET', `${path}/dead_letters/dl_1`],
      ['DELETE', `${path}/dead_letters`],
      ['DELETE', `${path}/dead_letters/dl_1`],
      ['POST', `${path}/dead_letters/dl_1/redeliver`],
      ['POST', `${path}/redeliver`]
    ] as const) {
      const answer = await ask(where, { method, key: token })
      t.equal(answer.json.error_code, 'ERR_SLUICE_ADMIN_REQUIRED', `${method} ${where}`)
    }
    mended = true
    t.match(await ask(`${path}/dead_letters/dl_1/redeliver`, { method: 'POST' }), {
      status: 200,
      json: { redelivered: 1 }
    })
    await until(() => audit().length === 4)
    t.match(audit().at(-1), { event_id: letter.event_id, event_type: REFUSED })
    t.same((await ask(`${path}/dead_letters`)).json.dead_letters, [])
    await until(async () => (await ask(path)).json.delivery.dead_letters === 0)
    t.match((await ask(`${path}/redeliver`, { method: 'POST' })).json, { redelivered: 0 })
    t.equal((await ask(`${path}/dead_letters/dl_1`, { method: 'DELETE' })).status, 404)
    t.equal((await ask(`${path}/dead_letters`, { method: 'DELETE' })).status, 204)
  }
)
