import { appendFile, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Writable } from 'node:stream'
import { Webhook as Reference } from 'standardwebhooks'
import t from 'tap'
import { EventFolders } from '../../../src/capabilities/events/destinations/folders.js'
import { Datadog, Webhook } from '../../../src/capabilities/events/destinations/http.js'
import { File, Stdout } from '../../../src/capabilities/events/destinations/local.js'
import { systemClock } from '../../../src/lib/clock.js'
import { createOutbound, type Outbound } from '../../../src/lib/http-client/outbound.js'
import { folder } from '../../store/opened.js'
import { receiver } from './receiver.js'

const outbound = createOutbound({ clock: systemClock, allowPrivate: true })
const parcel = (...events: string[]) => ({ id: 'ev_1', events, list: false })
const signal = new AbortController().signal

t.test('a webhook is signed so that the reference implementation of Standard Webhooks takes it', async (t) => {
  const { url, all } = await receiver(t)
  const secret = `whsec_${Buffer.from('a secret of 24 bytes or more').toString('base64')}`
  for (const [given, reference] of [
    [secret, new Reference(secret)],
    ['as it stands', new Reference('as it stands', { format: 'raw' })]
  ] as const) {
    all.length = 0
    const webhook = new Webhook({ url, secret: given, outbound, clock: systemClock })
    t.equal(await webhook.send(parcel('{"event_id":"ev_1","object":"ä"}'), signal), undefined)
    const [request] = all
    t.same(reference.verify(request?.body ?? '', request?.headers ?? {}), { event_id: 'ev_1', object: 'ä' })
    t.throws(() => reference.verify(`${request?.body} `, request?.headers ?? {}))
    t.match(request, {
      method: 'POST',
      path: '/hook',
      headers: { 'webhook-id': 'ev_1', 'content-type': 'application/json' }
    })
  }
})

t.test('without a secret there is no signature; traffic comes as a list', async (t) => {
  const { url, all } = await receiver(t)
  const webhook = new Webhook({ url, secret: undefined, outbound, clock: systemClock })
  t.equal(await webhook.send({ id: 'evb_1', events: ['{"a":1}'], list: true }, signal), undefined)
  t.equal(all[0]?.body, '[{"a":1}]')
  t.notOk(all[0]?.headers['webhook-signature'])
})

t.test('only a status of 2xx is success', async (t) => {
  const other = await receiver(t)
  const hook = await receiver(t, (_request, response, count) => {
    if (count === 1) response.writeHead(302, { location: other.url }).end()
    if (count === 2) response.writeHead(503, { 'retry-after': '7' }).end('private text of the receiver')
    if (count === 3) response.writeHead(200).end('x'.repeat(100_000))
    if (count === 4) response.socket?.end('this is not HTTP at all\r\n\r\n')
    if (count === 5) response.socket?.destroy()
    if (count === 6) response.writeHead(200).end('x')
  })
  const webhook = new Webhook({ url: hook.url, secret: undefined, outbound, clock: systemClock })
  const send = () => webhook.send(parcel('{}'), signal)
  t.match(await send(), { message: 'the receiver answered 302; redirects are not followed' })
  t.same(await send(), { message: 'the receiver answered 503', retryAfter: 7000 })
  t.match(await send(), { message: 'the receiver answered too much' })
  t.match(await send(), { message: /^RESPONSE_MALFORMED: / })
  t.match(await send(), { message: /^BROKEN: / })
  t.equal(await send(), undefined)
  t.equal(other.all.length, 0, 'nothing went where the redirect led')
  hook.close()
  t.match(await send(), { message: /^CONNECT_FAILED: / })
})

t.test('private addresses are refused unless they are allowed', async (t) => {
  const hook = await receiver(t)
  const guarded = createOutbound({ clock: systemClock, allowPrivate: false })
  const webhook = new Webhook({ url: hook.url, secret: undefined, outbound: guarded, clock: systemClock })
  t.match(await webhook.send(parcel('{}'), signal), { message: /^ADDRESS_REFUSED: / })
  t.equal(hook.all.length, 0)
})

const below = (...folders: string[]) => new EventFolders({ folders, own: [] })

t.test('a file gets a line for each event, and a new one when it was renamed', async (t) => {
  const path = join(await folder(t), 'events.log')
  const file = new File(path, below(dirname(path)))
  t.equal(await file.send(parcel('{"a":1}', '{"a":2}')), undefined)
  await rename(path, `${path}.1`)
  t.equal(await file.send(parcel('{"a":3}')), undefined)
  await appendFile(path, '{"cut o')
  await file.close()
  const again = new File(path, below(dirname(path)))
  t.equal(await again.send(parcel('{"a":4}')), undefined)
  await again.close()
  t.equal(await readFile(`${path}.1`, 'utf8'), '{"a":1}\n{"a":2}\n')
  t.equal(await readFile(path, 'utf8'), '{"a":3}\n{"cut o\n{"a":4}\n', 'a line that a crash cut off spoils no other')
  t.equal((await stat(path)).mode & 0o777, 0o600)
})

t.test('a file that cannot be written is a failure, and works once it can', async (t) => {
  const at = await folder(t)
  const file = new File(join(at, 'below', 'events.log'), below(at))
  t.match(await file.send(parcel('{}')), { message: 'the file cannot be written: ENOENT' })
  const blocked = new File(at, below(dirname(at)))
  t.match(await blocked.send(parcel('{}')), { message: 'the file cannot be written: EISDIR' })
  const many = new File(join(at, 'many.log'), below(at))
  await writeFile(join(at, 'many.log'), '')
  await Promise.all(Array.from({ length: 50 }, (_, index) => many.send(parcel(`{"n":${index}}`))))
  await many.close()
  const lines = (await readFile(join(at, 'many.log'), 'utf8')).trimEnd().split('\n')
  t.same(
    lines.map((line) => (JSON.parse(line) as { n: number }).n),
    lines.map((_, index) => index)
  )
})

t.test('standard output gets a line for each event', async (t) => {
  let text = ''
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk)
      done()
    }
  })
  t.equal(await new Stdout(stream).send(parcel('{"a":1}', '{"a":2}')), undefined)
  t.equal(text, '{"a":1}\n{"a":2}\n')
  const closed = new Writable({ write: (_chunk, _encoding, done) => done(new Error('gone')) })
  closed.on('error', () => undefined)
  t.match(await new Stdout(closed).send(parcel('{}')), { message: 'the standard output takes nothing' })
})

t.test('Datadog gets entries with its key and the tags', async (t) => {
  const hook = await receiver(t, (_request, response) => response.writeHead(202).end('{}'))
  const asked: string[] = []
  const parts = { apiKey: 'key', site: 'datadoghq.eu', tags: 'env:test', service: '', outbound: led(hook.url, asked) }
  t.equal(await new Datadog(parts).send(parcel('{"a":1}', '{"a":2}'), signal), undefined)
  t.same(asked, ['https://http-intake.logs.datadoghq.eu/api/v2/logs'])
  t.equal(hook.all[0]?.headers['dd-api-key'], 'key')
  t.match(JSON.parse(hook.all[0]?.body ?? ''), [
    { message: '{"a":1}', ddtags: 'env:test', ddsource: 'sluice', service: 'sluice' },
    { message: '{"a":2}' }
  ])
  const wrong = await new Datadog({ ...parts, site: 'evil.test/?' }).send(parcel('{}'), signal)
  t.match(wrong, { message: /ddsite/ })
  t.equal(hook.all.length, 1)
})

/** Sends every request to the receiver, and notes where it was meant for. */
export function led(to: string, asked: string[]): Outbound {
  return {
    request(request) {
      asked.push(request.url)
      return outbound.request({ ...request, url: to })
    },
    close: () => undefined
  }
}
