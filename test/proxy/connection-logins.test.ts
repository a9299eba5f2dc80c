import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { createServer, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { rawClient } from '../helpers/raw-client.js'
import { engines, type RunningSluice, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'

/**
 * A server that logs connections in, as NTLM does: three messages on one connection, after which every request on it is the user's. Answers with the user,
 * and with the number of its connection.
 */
async function startDomainServer(t: Test, scheme: string) {
  const sockets = new Set<Socket>()
  let count = 0
  const server = createServer((socket) => {
    const number = ++count
    let user: string | undefined
    sockets.add(socket)
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    let received = ''
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1')
      for (let end = received.indexOf('\r\n\r\n'); end !== -1; end = received.indexOf('\r\n\r\n')) {
        const token = new RegExp(`^authorization: ${scheme} (.+)\r$`, 'im').exec(received.slice(0, end + 1))?.[1]
        received = received.slice(end + 4)
        let challenge: string | undefined
        if (token === 'hello') challenge = `${scheme} challenge`
        else if (token !== undefined) user = token
        else if (user === undefined) challenge = scheme
        const body = `${user ?? 'nobody'} on ${number}`
        const head = challenge === undefined ? '200 OK' : `401 Unauthorized\r\nWWW-Authenticate: ${challenge}`
        socket.write(`HTTP/1.1 ${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      }
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port: (server.address() as { port: number }).port, sockets }
}

type Client = Awaited<ReturnType<typeof rawClient>>

async function get(client: Client, authorization = ''): Promise<string> {
  const field = authorization === '' ? '' : `Authorization: ${authorization}\r\n`
  client.send(`GET / HTTP/1.1\r\nHost: a.test\r\n${field}\r\n`)
  const { status, body } = await client.answer()
  return `${status} ${body}`
}

async function logIn(sluice: RunningSluice, scheme: string, user: string): Promise<Client> {
  const client = await rawClient(sluice.port)
  await get(client)
  await get(client, `${scheme} hello`)
  const answer = await get(client, `${scheme} ${user}`)
  if (!answer.startsWith(`200 ${user}`)) throw new Error(answer)
  return client
}

for (const engine of engines) {
  for (const scheme of ['NTLM', 'Negotiate'])
    t.test(`${engine}: ${scheme}: a login is of one client connection, and ends with it`, async (t) => {
      const server = await startDomainServer(t, scheme)
      const sluice = await startSluice(t, { engine, upstream: { port: server.port } })
      const alice = await logIn(sluice, scheme, 'alice')
      const bob = await logIn(sluice, scheme, 'bob')
      for (let i = 0; i < 3; i++) {
        t.match(await get(alice), /^200 alice on/, 'the login lasts')
        t.match(await get(bob), /^200 bob on/)
        const stranger = await rawClient(sluice.port)
        t.match(await get(stranger), /^401 nobody on/, 'a stranger is nobody')
        stranger.end()
      }
      alice.end()
      bob.reset()
      await until(() => server.sockets.size <= 1)
      t.match(await get(await rawClient(sluice.port)), /^401 nobody on/)
    })

  t.test(`${engine}: connections of clients without such a login are shared`, async (t) => {
    const server = await startDomainServer(t, 'NTLM')
    const sluice = await startSluice(t, { engine, upstream: { port: server.port } })
    for (let i = 0; i < 4; i++) {
      const client = await rawClient(sluice.port)
      t.equal(await get(client, 'Basic YTpi'), '401 nobody on 1')
      client.end()
      await client.closed
    }
  })

  t.test(
    `${engine}: over HTTP/2 the streams of one connection share its upstream connection, one after the other`,
    async (t) => {
      const server = await startDomainServer(t, 'NTLM')
      const sluice = await startSluice(t, { engine, upstream: { port: server.port } })
      const session = connectHttp2(`http://127.0.0.1:${sluice.port}`)
      t.teardown(() => session.destroy())
      const fetch = async (authorization?: string) => {
        const stream = session.request({
          ':authority': 'a.test',
          ...(authorization === undefined ? {} : { authorization })
        })
        let status = 0
        stream.on('response', (fields) => {
          status = fields[':status'] ?? 0
        })
        const body = await text(stream)
        return `${status} ${body}`
      }
      await fetch('NTLM hello')
      t.match(await fetch('NTLM alice'), /^200 alice on/)
      const answers = await Promise.all(Array.from({ length: 12 }, () => fetch()))
      t.equal(new Set(answers).size, 1, String(answers))
      t.match(answers[0], /^200 alice on/)
      t.match(await get(await rawClient(sluice.port)), /^401 nobody on/)
    }
  )
}
