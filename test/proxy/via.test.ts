import t from 'tap'
import { create, site } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { RawUpstream } from '../helpers/upstream.js'
import { freePort } from './free-port.js'

async function ask(sluice: RunningSluice, fields = ''): Promise<{ status: number; code: string | undefined }> {
  const client = await rawClient(sluice.port)
  client.send(`GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n${fields}\r\n`)
  const { status, headers } = await client.answer()
  return { status, code: headers.find(([name]) => name.toLowerCase() === 'sluice-error-code')?.[1] }
}

const LOOP = { status: 508, code: 'LOOP_DETECTED' }
const served = (sluice: RunningSluice) => sluice.log.filter(({ msg }) => msg === 'exchange').length

t.test('two processes that lead to each other end it, whatever they are called', async (t) => {
  for (const via of ['sluice', 'off']) {
    const [one, other] = [await freePort(), await freePort()]
    const first = await startSluice(t, { upstream: { port: other }, options: { LISTEN: `127.0.0.1:${one}` } })
    const second = await startSluice(t, {
      upstream: { port: one },
      options: { LISTEN: `127.0.0.1:${other}`, VIA: via }
    })
    t.equal((await ask(first)).status, 508)
    t.ok(served(first) + served(second) <= 3, via)
  }
})

t.test('upstreams read who has passed a request on, unless that is off', async (t) => {
  const upstream = await RawUpstream.start(t)
  const seen = async (options: Readonly<Record<string, string>>, fields = '') => {
    const sluice = await startSluice(t, { upstream: { port: upstream.port }, options })
    const asked = ask(sluice, fields)
    const peer = await upstream.next()
    const head = await peer.until('\r\n\r\n')
    peer.send('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
    t.equal((await asked).status, 200)
    return [...head.matchAll(/^via: (.*)\r$/gim)].map(([, value]) => value)
  }
  t.match(await seen({}), [/^1\.1 sluice \([0-9a-f]{16}\)$/])
  t.match(await seen({ VIA: 'edge-1' }, 'Via: 1.0 fred, 1.1 p.example.net\r\n'), [
    '1.0 fred, 1.1 p.example.net',
    /^1\.1 edge-1 \(/
  ])
  t.same(await seen({ VIA: 'off' }), [])
})

t.test('a request that came through ten proxies goes no further; one through nine does', async (t) => {
  const upstream = await RawUpstream.start(t)
  const sluice = await startSluice(t, { upstream: { port: upstream.port } })
  const through = (proxies: number) => `Via: ${Array(proxies).fill('1.1 other (0123456789abcdef)').join(', ')}\r\n`
  t.same(await ask(sluice, through(10)), LOOP)
  const asked = ask(sluice, through(9))
  const peer = await upstream.next()
  await peer.until('\r\n\r\n')
  peer.send('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
  t.equal((await asked).status, 204)
})

t.test('a backend that is the own listener answers 508 at the first return', async (t) => {
  const sluice = await startSluice(t)
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${sluice.port}` })
  await site(sluice, 'a.test', { backend: { backend_id: backend.id } })
  // The code is that of the inner answer: upstreams cannot write it.
  t.equal((await ask(sluice)).status, 508)
  t.equal(served(sluice), 2, 'the request, and its return')
  t.match(
    sluice.log.filter(({ msg }) => msg === 'exchange').map(({ code }) => code),
    ['LOOP_DETECTED', undefined]
  )
})
