import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import t, { type Test } from 'tap'
import { withOwnReads } from '../../src/transport/http1/own-reads.js'

/** A connection, and the accepted socket, which nobody has read. */
async function connection(t: Test): Promise<{ client: Socket; accepted: Socket }> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true })
  const [accepted] = (await once(server, 'connection')) as [Socket]
  t.teardown(() => {
    client.destroy()
    accepted.destroy()
    server.close()
  })
  return { client, accepted }
}

/** Reads into one buffer, and what has come as text. */
function reading() {
  const buffer = Buffer.alloc(65_536)
  let text = ''
  let wake: () => void = () => undefined
  const onread = {
    buffer: () => buffer,
    callback: (length: number, into: Uint8Array) => {
      text += into === buffer ? buffer.toString('latin1', 0, length) : 'another buffer'
      wake()
      return true
    }
  }
  const until = async (wanted: string) => {
    while (text !== wanted && text.length < wanted.length) await new Promise<void>((resolve) => (wake = resolve))
    return text
  }
  return { onread, until }
}

t.test('the connection goes on at a socket that reads into the given buffer', async (t) => {
  const { client, accepted } = await connection(t)
  const { onread, until } = reading()
  const socket = withOwnReads(accepted, onread)
  if (socket === undefined) throw new Error('not taken')
  t.teardown(() => socket.destroy())
  t.ok(accepted.destroyed, 'the first socket is gone')
  t.equal(socket.remotePort, client.localPort)
  client.write('ping')
  t.equal(await until('ping'), 'ping')
  socket.write('pong')
  const [answer] = await once(client, 'data')
  t.equal(String(answer), 'pong')
  t.equal(socket.bytesRead, 4)
  t.equal(socket.bytesWritten, 4)
  // Each direction ends by itself.
  const ended = once(socket, 'end')
  client.end('last')
  await ended
  t.equal(await until('pinglast'), 'pinglast')
  const over = Promise.all([once(client, 'data'), once(client, 'end'), once(socket, 'close')])
  socket.end('bye')
  const [[last]] = await over
  t.equal(String(last), 'bye')
})

t.test('it pauses and resumes', async (t) => {
  const { client, accepted } = await connection(t)
  const { onread, until } = reading()
  const socket = withOwnReads(accepted, onread)
  if (socket === undefined) throw new Error('not taken')
  t.teardown(() => socket.destroy())
  client.write('a')
  await until('a')
  socket.pause()
  client.write('b')
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  t.equal(await until('a'), 'a')
  socket.resume()
  t.equal(await until('ab'), 'ab')
})

t.test('a reset ends it without an error of the first socket', async (t) => {
  const { client, accepted } = await connection(t)
  const socket = withOwnReads(accepted, reading().onread)
  if (socket === undefined) throw new Error('not taken')
  socket.on('error', () => undefined)
  const closed = new Promise((resolve) => socket.once('close', resolve))
  client.resetAndDestroy()
  await closed
  t.ok(socket.destroyed)
})

t.test('what is no untouched TCP socket stays as it is', async (t) => {
  const { onread } = reading()
  t.equal(withOwnReads(new PassThrough(), onread), undefined, 'a stream')
  const read = await connection(t)
  read.accepted.unshift(Buffer.from('x'))
  t.equal(withOwnReads(read.accepted, onread), undefined, 'bytes that were read')
  t.notOk(read.accepted.destroyed)
  const written = await connection(t)
  written.accepted.cork()
  written.accepted.write('x')
  t.equal(withOwnReads(written.accepted, onread), undefined, 'bytes that wait to be written')
  t.notOk(written.accepted.destroyed)
  const destroyed = await connection(t)
  destroyed.accepted.destroy()
  t.equal(withOwnReads(destroyed.accepted, onread), undefined, 'a destroyed socket')
})
