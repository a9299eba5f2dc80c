import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { account } from '../../../helpers/account.js'
import { startProduct } from './product.js'
import { startShared } from './shared.js'

/** The message of an SSH_MSG_DISCONNECT (RFC 4253 section 11.1) behind an identification string. */
function readDisconnect(answer: Buffer): { readonly reason: number; readonly message: string } {
  const line = answer.indexOf('\r\n') + 2
  const packet = answer.subarray(line)
  const length = packet.readUInt32BE(0)
  const padding = packet.readUInt8(4)
  if (packet.length !== 4 + length || packet.length % 8 !== 0 || padding < 4) throw new Error('no whole packet')
  if (!/^SSH-2\.0-[^\s-]+\r\n$/.test(answer.toString('latin1', 0, line))) throw new Error('no identification string')
  const payload = packet.subarray(5, packet.length - padding)
  if (payload[0] !== 1) throw new Error('no SSH_MSG_DISCONNECT')
  const end = 9 + payload.readUInt32BE(5)
  const language = payload.readUInt32BE(end)
  if (end + 4 + language !== payload.length) throw new Error('no whole message')
  return { reason: payload.readUInt32BE(1), message: payload.toString('utf8', 9, end) }
}

/** Opens a connection that stays half open after the server's FIN, as SSH clients do. */
async function open(t: Test, port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

async function askBySsh(t: Test, port: number, cuts: readonly string[]): Promise<Buffer> {
  const socket = await open(t, port)
  for (const cut of cuts) {
    socket.write(cut)
    await new Promise(setImmediate)
  }
  const answer: Buffer[] = []
  socket.on('data', (chunk) => answer.push(chunk))
  await once(socket, 'end')
  socket.end()
  await once(socket, 'close')
  return Buffer.concat(answer)
}

const CLIENT = 'SSH-2.0-OpenSSH_9.2p1\r\n'

t.test('a client of ssh -R at the listener for agents reads what to use instead', async (t) => {
  const { agents, sluice } = await startProduct(t)
  for (const cuts of [[CLIENT], [...CLIENT], [CLIENT, '\0'.repeat(4096)]]) {
    const { reason, message } = readDisconnect(await askBySsh(t, agents.port, cuts))
    t.equal(reason, 7, 'SSH_DISCONNECT_SERVICE_NOT_AVAILABLE')
    t.match(message, /^Sluice does not serve ssh -R\. .*sluice agent --server/)
    t.ok(message.length <= 400, 'OpenSSH shows no more')
  }
  for (const other of ['SEARCH / HTTP/1.1\r\n', 'GET / HTTP/1.1\r\n\r\n', '\x16\x03\x01SSH-']) {
    const socket = await open(t, agents.port)
    let answer = ''
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')))
    socket.end(other)
    await once(socket, 'close')
    t.notMatch(answer, /SSH/, `${JSON.stringify(other)} is of another protocol`)
  }
  const { text } = await account(sluice)('/metrics')
  t.match(
    text,
    /^sluice_handshake_failures_total\{[^}]*not-tls[^}]*\} 6$/m,
    'each of them counts as a failed handshake'
  )
})

t.test('the same on a port that agents share with visitors', async (t) => {
  const { port } = await startShared(t)
  t.match(readDisconnect(await askBySsh(t, port, [CLIENT])), { reason: 7, message: /sluice agent/ })
})
