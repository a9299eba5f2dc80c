import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { SluiceProcess } from '../cli/process.js'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

interface Answer {
  readonly status: number
  readonly id: string | undefined
}

function ask(url: string, headers: Record<string, string>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { agent: false, headers }, (answer) => {
      const { statusCode: status = 0, headers: fields } = answer
      answer.resume().once('end', () => resolve({ status, id: fields['x-request-id'] as string | undefined }))
    })
    outgoing.once('error', reject).end()
  })
}

async function started(t: Test, trusted: string, policy = 'on_http_request: []\n') {
  const seen: (string | undefined)[] = []
  const raw: string[][] = []
  const origin = createServer((incoming, response) => {
    seen.push(incoming.headers['x-request-id'] as string | undefined)
    raw.push(incoming.rawHeaders)
    if (incoming.url === '/broken') incoming.socket.destroy()
    else response.end('yes')
  }).listen(0, '127.0.0.1')
  await once(origin, 'listening')
  t.teardown(() => {
    origin.closeAllConnections()
    origin.close()
  })
  const upstream = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`
  const cwd = t.testdir({ 'p.yaml': policy })
  const words = [
    'start',
    '--listen',
    '127.0.0.1:0',
    '--api',
    '127.0.0.1:0',
    '--upstream',
    upstream,
    '--policy',
    'p.yaml'
  ]
  const env = { SLUICE_DATA: ':memory:', SLUICE_API_KEY: 'a-key-of-the-operator', SLUICE_TRUSTED_PROXIES: trusted }
  const sluice = new SluiceProcess(t, words, { cwd, env })
  const { traffic } = (await sluice.logged('listening')) as { traffic: string }
  return { sluice, traffic, seen, raw }
}

t.test('a client cannot choose the id; upstream, log and error answers have the same', async (t) => {
  const { sluice, traffic, seen, raw } = await started(t, '')
  t.match(await ask(traffic, { 'X-Request-Id': 'chosen', X_Request_ID: 'alias' }), { status: 200, id: undefined })
  t.match(seen[0], UUID)
  t.equal(raw[0]?.filter((name) => /^x[-_]request[-_]id$/i.test(name)).length, 1)
  t.match(await sluice.logged('exchange'), { request_id: seen[0], status: 200 })
  const broken = await ask(`${traffic}/broken`, {})
  t.equal(broken.status, 502)
  t.match(broken.id, UUID)
  t.equal(broken.id, seen.at(-1))
  t.match(await sluice.logged('exchange', 2), { request_id: broken.id, status: 502 })
  t.not(seen[0], broken.id)
})

t.test('a trusted peer chooses it, as long as it is one', async (t) => {
  const { sluice, traffic, seen } = await started(t, '127.0.0.0/8')
  await ask(traffic, { 'x-request-id': '01JC-abc:7+f/=@.z_' })
  t.equal(seen[0], '01JC-abc:7+f/=@.z_')
  t.match(await sluice.logged('exchange'), { request_id: '01JC-abc:7+f/=@.z_' })
  for (const id of ['has space', 'x'.repeat(129), '"quoted"', '']) {
    await ask(traffic, { 'x-request-id': id })
    t.match(seen.at(-1), UUID, JSON.stringify(id))
  }
})

t.test('a policy that sets the field sets the id', async (t) => {
  const policy =
    'on_http_request:\n  - actions:\n      - { type: add-headers, config: { headers: { x-request-id: "by-policy" } } }\n'
  const { sluice, traffic, seen } = await started(t, '', policy)
  await ask(traffic, {})
  t.equal(seen[0], 'by-policy')
  t.match(await sluice.logged('exchange'), { request_id: 'by-policy' })
})
